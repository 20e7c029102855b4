package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agentx/agentx/cmd/internal/aiperf/profile"
	"github.com/agentx/agentx/cmd/internal/settings"
	"github.com/agentx/agentx/internal/scenario"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/preset"
)

// newAIPerf returns the verb for command lines of AIPerf.
func newAIPerf() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "aiperf",
		Short: "Run command lines that were written for AIPerf",
		Args:  refuseArgs,
		Run:   func(cmd *cobra.Command, _ []string) { _ = cmd.Help() },
	}
	cmd.AddCommand(newAIPerfProfile())
	return cmd
}

// newAIPerfProfile returns the verb aiperf profile.
func newAIPerfProfile() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "profile FLAGS OF AIPERF",
		Short: "Translate a command line of aiperf profile into agentx replay, and run that",
		Long: `Translate a command line of "aiperf profile" (AIPerf 0.13.0) into one of agentx replay, print that as
a line for a shell, run it, and write AIPerf's files.

Every flag of that release is known, under all of its names: most have an equal here; some change
nothing, which a line of the log says; the others are refused, with what to do instead. doc/aiperf.md
has the table. The exit status is AIPerf's: 0 done, 1 failed, 2 for a wrong command line, 130
interrupted.

A run counts and plays as AIPerf 0.13.0 does. --as agentx-1.0.12, and every flag that only the AIPerf
of InferenceX has, choose that one.`,
		Example: `  agentx aiperf profile --model m --url 127.0.0.1:8000 --streaming --input-file traces/ --custom-dataset-type weka_trace --concurrency 8 --benchmark-duration 60
  agentx aiperf profile --dry-run --model m --streaming --public-dataset semianalysis_cc_traces_weka_062126 --scenario inferencex-agentx-mvp --concurrency 64
  AIPERF_CLI="agentx aiperf"    # in scripts that start AIPerf`,
		DisableFlagParsing: true,
		PersistentPreRunE:  func(*cobra.Command, []string) error { return nil }, // replay reads the environment
		RunE:               func(cmd *cobra.Command, args []string) error { return runProfile(cmd, args, false) },
	}
	cmd.Flags().Bool("dry-run", false, "print the command of agentx, and nothing else")
	cmd.Flags().String("as", preset.AIPerf, "tool to play and count as: "+preset.AIPerf+" or "+preset.AgentX)
	return cmd
}

// runProfile translates a command line of AIPerf, or of the harness, into settings of a replay, prints them as a command and plays it.
func runProfile(cmd *cobra.Command, args []string, harness bool) error {
	f := replayOf(knownScenarios())
	verb := newReplay(f)
	root := &cobra.Command{Use: cmd.Root().Name()}
	addCommonFlags(root)
	root.AddCommand(verb)
	root.SetIn(cmd.InOrStdin())
	root.SetOut(cmd.OutOrStdout())
	root.SetErr(cmd.ErrOrStderr())
	verb.SetContext(cmd.Context())
	t := profile.Translate(profile.Source{
		Args: args, Environ: environment(), Random: rand.Reader, Harness: harness,
		Check: func(data string, list []profile.Setting) []profile.Problem { return f.refused(verb, data, list) },
	})
	if t.Help {
		return cmd.Help()
	}
	if len(t.Problems) > 0 {
		return problemErrors(t.Problems)
	}
	for _, note := range t.Notes {
		printError(cmd.ErrOrStderr(), "agentx: "+note)
	}
	if list := t.Variables(); len(list) > 0 {
		printError(cmd.ErrOrStderr(), "agentx: secrets are not printed: set "+strings.Join(list, ", ")+" where you paste the command")
	}
	fmt.Fprintln(cmd.OutOrStdout(), t.Line())
	if t.DryRun {
		return nil
	}
	verb.SetContext(withLaunch(cmd.Context(), t.Launch()))
	return aiperfStatus(cmd, hintRoot(verb, f.run(verb, t.Data)))
}

// problemErrors turns the problems of a translation into usage errors, with hints.
func problemErrors(problems []profile.Problem) (list errorList) {
	for _, p := range problems {
		var err error = usageError{p}
		if p.Try != "" {
			err = hintError{err, p.Try}
		}
		list = append(list, err)
	}
	return list
}

// refused gives a replay some settings and its CACHE or INPUT, data, and returns the errors of them. It plays nothing.
func (f *replayFlags) refused(verb *cobra.Command, data string, list []profile.Setting) (refused []profile.Problem) {
	verb.InheritedFlags() // makes those flags its own
	for _, s := range list {
		if err := verb.Flags().Set(s.Name, fmt.Sprint(s.Value)); err != nil {
			f.add("%s: %w", settings.FlagText(s.Name, fmt.Sprint(s.Value)), err)
		}
	}
	f.resolve(verb, data)
	for _, err := range slices.Concat(f.errs, f.scenario.errors()) {
		try, _ := errors.AsType[hintError](err)
		refused = append(refused, profile.Problem{Err: err, Try: try.hint})
	}
	return refused
}

// environment returns the variables of the process.
func environment() map[string]string {
	list := map[string]string{}
	for _, entry := range os.Environ() {
		name, value, _ := strings.Cut(entry, "=")
		list[name] = value
	}
	return list
}

// runCommand runs another command line of agentx, with the streams and the context of cmd.
func runCommand(cmd *cobra.Command, args []string) error {
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(cmd.InOrStdin())
	root.SetOut(cmd.OutOrStdout())
	root.SetErr(cmd.ErrOrStderr())
	ran, err := root.ExecuteContextC(context.WithValue(cmd.Context(), commandLine{}, args))
	return hintRoot(ran, err)
}

// withoutBreak turns the break of a run into a warning, and returns the rest of its error: the imitated tools end a broken run like any
// other. It returns another error as it is.
func withoutBreak(cmd *cobra.Command, err error) error {
	broken, ok := errors.AsType[brokenRun](err)
	if !ok {
		return err
	}
	printError(cmd.ErrOrStderr(), "agentx: warning: "+err.Error())
	return broken.verdict
}

// aiperfPasses are the reasons of invalid results with which AIPerf still ends with status 0.
var aiperfPasses = []string{measure.UnsafeOverride, measure.OverflowRate}

// aiperfStatus turns the error of a replay into one with AIPerf's exit status. AIPerf has no verdicts: a run that is not valid for the reasons
// of aiperfPasses alone becomes a warning, any other verdict a failure.
func aiperfStatus(cmd *cobra.Command, err error) error {
	err = withoutBreak(cmd, err)
	if !is[verdictError](err) {
		return err
	}
	if invalid, ok := errors.AsType[invalidRun](err); ok && !slices.ContainsFunc(invalid.reasons, func(r string) bool { return !slices.Contains(aiperfPasses, r) }) {
		printError(cmd.ErrOrStderr(), "agentx: warning: "+err.Error())
		return nil
	}
	return failedError{err}
}

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
which nothing runs, at most 10 % of failures. A flag overrides such a value. A result counts if the run
keeps what the scenario locks: a public corpus by its name, 900 s or more, recorded times. All conflicts
are reported before anything is sent; --unsafe-override runs nonetheless, and the result is then not valid.

--config FILE.yaml has settings of the harness by their keys. The scenario then gives no values, but its
locks hold; flags take precedence. --dry-run prints the command of agentx alone. doc/aiperf.md has a
table of the flags, doc/harness.md says what differs. Exit status:

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

// harnessStatus turns an error into one with the exit status of the harness: 0 for an interrupted run that has results, else 1, also for an
// interrupt before the first result.
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
		return endError{failedError{fmt.Errorf("interrupted before a measured request completed, so there is no result: %w", err)}}
	}
	return failedError{err}
}

// harnessVerbs are the verbs of the harness that agentx lacks, with what to use instead.
var harnessVerbs = map[string]string{
	"analyze":            "agentx report DIR, for the numbers of a run; agentx report DIR --format html, for its page",
	"analyze-trace":      "agentx inspect TRACES",
	"chat":               "agentx mock --help, for a server to talk to; agentx talks to none by hand",
	"config":             "agentx profile --dry-run FLAGS, for the command that they become; agentx replay --print-config, for every value",
	"plot":               "agentx report DIR --format html; agentx report DIR... --compare, for several runs",
	"plugins":            "agentx help replay: everything is inside the program",
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

// launch is the key of a context for the arguments of withLaunch.
type launch struct{}

// withLaunch returns a context in which a replay records the command of another tool that it stands in for. args are its arguments without
// secrets, the subcommand first, such as profile --model m.
func withLaunch(ctx context.Context, args []string) context.Context {
	return context.WithValue(ctx, launch{}, args)
}

// launchOf returns the arguments of the command that a replay stands in for, nil if there is none.
func launchOf(ctx context.Context) []string {
	args, _ := ctx.Value(launch{}).([]string)
	return args
}
