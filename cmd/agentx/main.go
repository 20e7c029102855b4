// Command agentx turns recorded AI-agent traces into a prepared cache and replays them against an inference server.
//
// One file per verb; this one holds the rules of output. Results go to standard output, everything else to standard
// error. An error is one line "agentx: what: where: why", then "try: ..." where there is something to try. Exit status:
// 0 done, 1 failed, 2 wrong command line, 3 the verdict is no, 130 interrupted. Names that others have chosen are shown by
// sanitize (sanitize.go); --json and the paths on last lines have them as they are.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Exit statuses.
const (
	exitFailed      = 1
	exitUsage       = 2
	exitVerdict     = 3
	exitInterrupted = 130
)

// usageError is a wrong command line.
type usageError struct{ error }

// verdictError is a command that ran to its end and whose answer is no.
type verdictError struct{ error }

// hintError carries what to try.
type hintError struct {
	error
	hint string
}

func (e usageError) Unwrap() error   { return e.error }
func (e verdictError) Unwrap() error { return e.error }
func (e hintError) Unwrap() error    { return e.error }

func main() {
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run runs one command line and returns its exit status.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := interruptible()
	defer stop()
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(stdin)
	out := &resultWriter{w: stdout}
	root.SetOut(out)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	err = hintRoot(cmd, err)
	if err == nil && out.err != nil { // a result that nobody gets is a failure
		err = fmt.Errorf("standard output: %w", out.err)
	}
	return reportError(ctx, stderr, err)
}

// resultWriter is standard output, which remembers that it could not be written.
type resultWriter struct {
	w   io.Writer
	err error
}

func (r *resultWriter) Write(p []byte) (int, error) {
	n, err := r.w.Write(p)
	if r.err == nil {
		r.err = err
	}
	return n, err
}

// interruptible returns a context that the first INT, TERM or HUP cancels; the second leaves at once. A program that was
// started to go on without its terminal does not hear HUP.
func interruptible() (context.Context, func()) {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(signals, syscall.SIGHUP)
	}
	go watchSignals(signals, time.Now, cancel, func() { os.Exit(exitInterrupted) })
	return ctx, func() {
		signal.Stop(signals)
		close(signals)
		cancel()
	}
}

// sameSignal is how long after the first signal another counts as the same: timeout(1) sends its signal to its child and
// then to the whole group of processes, and a terminal that goes away may send two.
const sameSignal = 500 * time.Millisecond

// watchSignals calls cancel at the first signal and leave at the next that is not the same, until there are no more.
func watchSignals(signals <-chan os.Signal, now func() time.Time, cancel, leave func()) {
	if _, ok := <-signals; !ok {
		return
	}
	first := now()
	cancel()
	for range signals {
		if now().Sub(first) >= sameSignal {
			leave()
			return
		}
	}
}

// reportError prints an error and returns the exit status that it means.
func reportError(ctx context.Context, stderr io.Writer, err error) int {
	var try hintError
	var usage usageError
	var verdict verdictError
	switch {
	case err == nil:
		return 0
	case ctx.Err() != nil:
		if !errors.Is(err, context.Canceled) { // what could not be written, say
			printError(stderr, "agentx: "+strings.ReplaceAll(err.Error(), "\n", "; "))
		}
		fmt.Fprintln(stderr, "agentx: interrupted")
		return exitInterrupted
	}
	printError(stderr, "agentx: "+strings.ReplaceAll(err.Error(), "\n", "; "))
	if errors.As(err, &try) {
		printError(stderr, "try: "+try.hint)
	}
	switch {
	case errors.As(err, &usage):
		return exitUsage
	case errors.As(err, &verdict):
		return exitVerdict
	}
	return exitFailed
}

// newRoot returns the command tree.
func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "agentx",
		Short: "Prepare recorded AI-agent traces once, replay them against an inference server many times",
		Long: `agentx turns recorded AI-agent sessions (token counts, cache-block ids, timing) into a
prepared cache, and replays them from it against an OpenAI-compatible server.

The three commonest commands:

  agentx convert TRACES            prepare a directory, .json, .jsonl(.zst|.gz), or "demo"
  agentx replay CACHE --url URL --model NAME
  agentx cache ls                  what has been prepared

"agentx demo" shows all of it in a few seconds; "agentx help VERB" explains a verb.`,
		Version:       version,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          refuseArgs,
		Run:           func(cmd *cobra.Command, _ []string) { fmt.Fprintln(cmd.OutOrStdout(), cmd.Long) },
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			return fromEnvironment(cmd.Flags())
		},
	}
	root.SetHelpCommand(newHelp(root))
	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		if help(cmd, args); cmd == root {
			fmt.Fprint(cmd.OutOrStdout(), exitHelp)
		}
	})
	root.SetVersionTemplate(versionText())
	root.SetFlagErrorFunc(flagError)
	root.PersistentFlags().String("cache", "", "cache root (default: agentx in the user cache directory)")
	root.PersistentFlags().Bool("quiet", false, "no progress")
	root.PersistentFlags().Bool("no-color", false, "no colour (agentx uses none yet; accepted for scripts)")
	root.AddCommand(newConvert(), newReplay(), newFetch(), newInspect(), newCache(), newReport(), newMock(), newDemo(), newVersion())
	registerCompletions(root)
	return root
}

// inEnvironment marks a flag that the environment has set.
const inEnvironment = "environment"

// fromEnvironment sets every flag that the command line does not from AGENTX_<FLAG>.
func fromEnvironment(flags *pflag.FlagSet) (err error) {
	flags.VisitAll(func(f *pflag.Flag) {
		name := "AGENTX_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		if v, ok := os.LookupEnv(name); ok && !f.Changed && err == nil && f.Name != "version" {
			if setErr := flags.Set(f.Name, v); setErr != nil {
				err = usageError{fmt.Errorf("%s=%s: %w", name, v, explainValue(setErr))}
				return
			}
			_ = flags.SetAnnotation(f.Name, inEnvironment, nil) // the flag exists
		}
	})
	return err
}

// checkArgs is cobra's check of the number of checkArgs as a usage error.
func checkArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return hintError{usageError{err}, "agentx help " + strings.TrimPrefix(cmd.CommandPath(), "agentx ")}
		}
		return nil
	}
}

// newHelp is cobra's help, which for a verb that is not there shows the root's and succeeds.
func newHelp(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:               "help [VERB]",
		Short:             "Explain a verb",
		ValidArgsFunction: verbNames,
		RunE: func(_ *cobra.Command, args []string) error {
			cmd, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return unknownVerb(cmd, strings.Join(rest, " "))
			}
			cmd.InitDefaultHelpFlag()
			return cmd.Help()
		},
	}
}

// exitHelp says what the exit statuses mean.
const exitHelp = `
Exit status:
    0  done
    1  failed: the message says what, nothing half-written is left; also a replay in which no
       request completed, or that --max-error-rate stopped: its results are written
    2  the command line is wrong
    3  the command ran to its end and its verdict is no: damage was found, a hit differs on
       rebuilding, a tree of a replay was wedged
  130  interrupted: what a replay had measured is written
`
