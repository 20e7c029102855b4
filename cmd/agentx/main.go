// Command agentx turns recorded AI-agent traces into a prepared cache and replays them against an inference server.
//
// Every verb has a file of its name, with the verbs below it; a replay has more. errors.go has the exit statuses, output.go the rules of
// output: results go to standard output, everything else to standard error. An error is one line "agentx: what: where: why", then
// "try: ..." where there is something to try. Texts from outside, such as file names, are sanitized for the terminal; --json and the paths
// on last lines have them as they are.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

func main() {
	collectLater()
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// collectLater lets the first collection of garbage wait until the heap has 16 MB instead of 4, which a verb that finds everything prepared
// does not reach: a tenth of its time. GOGC decides where it is set.
func collectLater() {
	if os.Getenv("GOGC") == "" {
		first := new([]byte) // collected then
		runtime.AddCleanup(first, func(percent int) { debug.SetGCPercent(percent) }, debug.SetGCPercent(400))
	}
}

// commandLine is the key of a context for the arguments of the program.
type commandLine struct{}

// run runs one command line and returns its exit status.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := interruptible()
	defer stop()
	root := rootFor(args)
	root.SetArgs(args)
	root.SetIn(stdin)
	out := &resultWriter{w: stdout}
	root.SetOut(out)
	root.SetErr(stderr)
	if len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) {
		registerCompletions(root) // cobra keeps them for ever
	} else {
		warnOfVariables(root, stderr)
	}
	cmd, err := root.ExecuteContextC(context.WithValue(ctx, commandLine{}, args))
	err = hintDamage(hintRoot(cmd, err))
	if err == nil && out.err != nil { // a result that could not be written
		err = fmt.Errorf("standard output: %w", out.err)
	}
	return reportError(ctx, stderr, err)
}

// interruptible returns a context that the first INT, TERM or HUP cancels; the second exits at once. HUP is left alone if
// the program was started to survive its terminal (nohup).
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

// sameSignal is how long after the first signal another one counts as the same: timeout(1) signals its child and then the
// whole process group, and a closing terminal may send two signals.
const sameSignal = 500 * time.Millisecond

// watchSignals calls cancel at the first signal, and leave at the next one that does not count as the same.
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
