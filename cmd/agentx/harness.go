package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agentx/agentx/replay/scenario"
)

// newProfile returns the verb of the AgentX harness.
func newProfile() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "profile FLAGS OF THE HARNESS",
		Short: "Run the AgentX benchmark as agentx-harness does, by its command lines",
		Long: `Run the AgentX benchmark by command lines of agentx-harness: flags, defaults, environment, files and
exit statuses of "agentx profile" 1.0.12. The line becomes one of agentx replay, which is printed and
run; requests, their times and the files are those of the harness.

Without --scenario or --config the scenario is agentx: an hour after a warmup of 10 requests a lane,
the first 393 traces, seed 42, lanes that begin at 25 to 75 % of their traces, no more than 10 s in
which nothing runs, at most 10 % of failures. A flag takes the place of such a value. A result counts
if the run keeps what the scenario locks: a public corpus by its name, 900 s or more, recorded times.
Everything that conflicts is told before anything is sent; --unsafe-override runs nonetheless, and
the result is then not valid.

--config FILE.yaml takes the settings of the harness by their keys, without values of the scenario
but its locks; flags take precedence. --dry-run prints the command of agentx alone. doc/aiperf.md has
a table of the flags, doc/harness.md says what differs. Exit status:

    0  done, also when interrupted once the run has results, or not valid by --unsafe-override
    1  a wrong command line, a conflict, a failed run, or one that --failed-request-threshold or a
       failed warmup ended, or whose metrics cover too little of its duration; interrupted before a
       measured request completed
  130  interrupted twice`,
		Example: `  agentx profile --url http://127.0.0.1:8000 --endpoint /v1/chat/completions --model m --tokenizer o200k_base --concurrency 64 --public-dataset semianalysis_cc_traces_weka_062126
  agentx profile --url 127.0.0.1:8000 --model m --tokenizer builtin --input-file traces/ --custom-dataset-type weka_trace --concurrency 4 --benchmark-duration 60 --unsafe-override
  agentx profile --scenario inferencex-agentx-mvp --url 127.0.0.1:8000 --model m --tokenizer builtin --hf-weka-dataset semianalysisai/cc-traces-weka-062126 --concurrency 64 --dry-run`,
		DisableFlagParsing: true,
		PersistentPreRunE:  func(*cobra.Command, []string) error { return nil }, // replay reads the environment
		RunE:               func(cmd *cobra.Command, args []string) error { return harnessStatus(cmd, runProfile(cmd, args, true)) },
	}
	cmd.Flags().Bool("dry-run", false, "print the command of agentx, and nothing else")
	return cmd
}

// harnessStatus gives an error the exit status of the harness: a run that was interrupted and has results is done, and whatever else is
// wrong has failed, also an interrupt before there was one.
func harnessStatus(cmd *cobra.Command, err error) error {
	err = withoutBreak(cmd, err)
	var cancelled cancelledRun
	switch {
	case err == nil:
		return nil
	case errors.As(err, &cancelled) && cancelled.measured:
		printError(cmd.ErrOrStderr(), "agentx: interrupted: the results are those of the run until then")
		return nil
	}
	if cmd.Context().Err() != nil {
		return endError{failedError{fmt.Errorf("interrupted, and no measured request completed: %w", err)}}
	}
	return failedError{err}
}

// harnessVerbs are the verbs of the harness that agentx lacks, with what to use in their place.
var harnessVerbs = map[string]string{
	"analyze":            "agentx report DIR, for the numbers of a run; agentx report DIR --format html, for its page",
	"analyze-trace":      "agentx inspect TRACES",
	"chat":               "agentx mock --help, for a server to talk to; agentx talks to none by hand",
	"config":             "agentx profile --dry-run FLAGS, for the command that they become; agentx replay --print-config, for every value",
	"plot":               "agentx report DIR --format html; agentx report DIR... --compare, for several runs",
	"plugins":            "agentx replay --help: everything is inside the program",
	"service":            "agentx profile: one process does all; agentx replay --part, for a load of several machines",
	"speed-bench-report": "agentx report DIR... --compare",
	"synthesize":         "agentx synth --traces N --from CACHE",
	"validate":           "agentx capture check TRACES, for traces; agentx profile --dry-run FLAGS, for a command line",
}

// profileFlags completes flags of AIPerf or the harness, and the names that some of them take.
func profileFlags(flags func() []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		var names []string
		switch after := slices.Concat([]string{""}, args)[len(args)]; {
		case strings.HasPrefix(begun, "-"):
			names = flags()
		case after == "--scenario":
			names = scenarioNames()
		case after == "--public-dataset":
			for _, c := range scenario.Corpora() {
				names = append(names, c.Names...)
			}
		default:
			return nil, cobra.ShellCompDirectiveDefault // maybe a file
		}
		return withPrefix(names, begun), cobra.ShellCompDirectiveNoFileComp
	}
}
