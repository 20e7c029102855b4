package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agentx/agentx/aiperf/profile"
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
		RunE:               runAIPerfProfile,
	}
	cmd.Flags().Bool("dry-run", false, "print the command of agentx, and nothing else")
	cmd.Flags().String("as", preset.AIPerf, "tool to play and count as: "+preset.AIPerf+" or "+preset.AgentX)
	return cmd
}

// runAIPerfProfile translates, prints, and runs.
func runAIPerfProfile(cmd *cobra.Command, args []string) error { return runProfile(cmd, args, false) }

// runProfile runs a command line of AIPerf, or of the harness.
func runProfile(cmd *cobra.Command, args []string, harness bool) error {
	t := profile.Translate(profile.Source{Args: args, Environ: environment(), Random: rand.Reader, Harness: harness, Check: refusedByReplay})
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
	cmd.SetContext(withLaunch(cmd.Context(), t.Launch()))
	return aiperfStatus(cmd, runReplayCommand(cmd, t.Command()))
}

// problemErrors returns what is wrong with a command line as errors.
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

// refusedByReplay returns what agentx replay refuses of its arguments, without running them.
func refusedByReplay(args []string) (refused []profile.Problem) {
	root := newRoot()
	root.SetArgs(append(args, "--print-config"))
	root.SetOut(io.Discard)
	root.SetErr(io.Discard)
	err := root.Execute()
	var list errorList
	if !errors.As(err, &list) && err != nil {
		list = errorList{err}
	}
	for _, err := range list {
		var try hintError
		errors.As(err, &try)
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

// runReplayCommand runs a command line of agentx replay with the streams and the signals of a command.
func runReplayCommand(cmd *cobra.Command, args []string) error {
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(cmd.InOrStdin())
	root.SetOut(cmd.OutOrStdout())
	root.SetErr(cmd.ErrOrStderr())
	ran, err := root.ExecuteContextC(context.WithValue(cmd.Context(), commandLine{}, args))
	return hintRoot(ran, err)
}

// withoutBreak returns what else is to be said of a run that broke, and warns of the break: the tools that these commands imitate end such
// a run as any other.
func withoutBreak(cmd *cobra.Command, err error) error {
	var broken brokenRun
	if !errors.As(err, &broken) {
		return err
	}
	printError(cmd.ErrOrStderr(), "agentx: warning: "+err.Error())
	return broken.verdict
}

// aiperfPasses are reasons for which a result is not valid while AIPerf ends with status 0.
var aiperfPasses = []string{measure.UnsafeOverride, measure.OverflowRate}

// aiperfStatus gives the error of a replay the exit status of AIPerf, which has no verdicts: a run that only its scenario does
// not accept is done, which a warning tells; any other failed.
func aiperfStatus(cmd *cobra.Command, err error) error {
	err = withoutBreak(cmd, err)
	var verdict verdictError
	if !errors.As(err, &verdict) {
		return err
	}
	var invalid invalidRun
	if errors.As(err, &invalid) && !slices.ContainsFunc(invalid.reasons, func(r string) bool { return !slices.Contains(aiperfPasses, r) }) {
		printError(cmd.ErrOrStderr(), "agentx: warning: "+err.Error())
		return nil
	}
	return failedError{err}
}
