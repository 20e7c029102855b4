package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"

	"github.com/agentx/agentx/cmd/internal/report/live"
	"github.com/agentx/agentx/internal/bytefmt"
	"github.com/agentx/agentx/internal/terminal"
	"github.com/agentx/agentx/replay"
	"github.com/agentx/agentx/replay/measure"
)

// resultWriter is standard output. It remembers the first error of writing.
type resultWriter struct {
	w   io.Writer
	err error
}

// Write writes to standard output and keeps the first error.
func (r *resultWriter) Write(p []byte) (int, error) {
	n, err := r.w.Write(p)
	if r.err == nil {
		r.err = err
	}
	return n, err
}

// printJSON prints a value as one line of JSON, printError a line to standard error.
var printJSON, printError = terminal.JSON, terminal.Say

// answering completes a verb whose run returns its result twice: a value for --json and a function that writes it for people. The result is
// printed also beside an error, unless the value is nil.
func answering(cmd *cobra.Command, args cobra.PositionalArgs, run func(*cobra.Command, []string) (any, func(io.Writer), error)) *cobra.Command {
	asJSON := cmd.Flags().Bool("json", false, "one JSON object")
	cmd.Args = checkArgs(args)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		value, text, err := run(cmd, args)
		switch {
		case value == nil:
		case *asJSON:
			if whole, ok := value.(interface{ writeJSON(io.Writer) error }); ok { // it does not fit into memory
				err = errors.Join(whole.writeJSON(cmd.OutOrStdout()), err)
			} else if wrong := printJSON(cmd.OutOrStdout(), value); wrong != nil {
				err = errors.Join(wrong, err)
			}
		default:
			text(cmd.OutOrStdout())
		}
		return err
	}
	return cmd
}

// terminalWidth returns the columns of a terminal, 0 for another writer.
func terminalWidth(w io.Writer) int {
	if r, ok := w.(*resultWriter); ok {
		w = r.w
	}
	f, ok := w.(*os.File)
	if !ok {
		return 0
	}
	n, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return n
}

// groupDigits writes a number with a comma between groups of three digits.
var groupDigits = bytefmt.Digits

// helpColumns returns the width of help: that of the terminal, at most 100; 80 for another writer.
func helpColumns(w io.Writer) int {
	if n := terminalWidth(w); n > 0 {
		return min(n, 100)
	}
	return 80
}

// progress shows the progress of a command on standard error: a bar with rate and ETA on a terminal, else a line every five seconds. With
// --quiet it shows none.
type progress struct {
	mu    sync.Mutex
	w     io.Writer
	quiet bool
	bars  *mpb.Progress // nil where standard error is no terminal
	stage string
	bar   *mpb.Bar
	done  int64
	begun time.Time
	next  time.Time // of the next line

	live  *liveRun        // nil: no replay is played
	block *terminal.Block // shows it; nil: not on a terminal
}

// lineEvery is the time between two lines of progress.
const lineEvery = 5 * time.Second

// newProgress returns the progress of a command. The caller must call close.
func newProgress(cmd *cobra.Command) *progress {
	p := &progress{w: cmd.ErrOrStderr()}
	p.quiet, _ = cmd.Flags().GetBool("quiet") // a flag of every command
	if f, ok := p.w.(*os.File); ok && !p.quiet && term.IsTerminal(int(f.Fd())) && terminal.TakesEscapes(f) {
		p.bars = mpb.New(mpb.WithOutput(f), mpb.WithWidth(40))
	}
	return p
}

// update adds n bytes of total to a stage. A new stage replaces the one before.
func (p *progress) update(stage string, n, total int64) {
	if p.quiet {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if stage != p.stage {
		p.finish()
		p.stage, p.done, p.begun, p.next = stage, 0, now, now.Add(lineEvery)
		if p.bars != nil {
			p.bar = p.bars.AddBar(total, mpb.BarRemoveOnComplete(),
				mpb.PrependDecorators(decor.Name(stage+" ")),
				mpb.AppendDecorators(decor.Percentage(), decor.Name(" "), decor.AverageSpeed(decor.SizeB1000(0), "% .1f"), decor.Name("  ETA "), decor.AverageETA(decor.ET_STYLE_GO)))
		}
	}
	p.done += n
	switch {
	case p.bar != nil:
		p.bar.IncrInt64(n)
	case now.After(p.next) && total > 0:
		p.next = now.Add(lineEvery)
		elapsed := now.Sub(p.begun)
		eta := time.Duration(float64(elapsed) * float64(total-p.done) / float64(max(p.done, 1)))
		fmt.Fprintf(p.w, "agentx: %s %.0f %%, %s/s, ETA %s\n", stage, 100*float64(p.done)/float64(total),
			bytefmt.Format(int64(float64(p.done)/elapsed.Seconds())), eta.Round(time.Second))
	}
}

// waiting prints, at once and then every five seconds, that the command waits for holder, the process that builds a part.
func (p *progress) waiting(part, holder string, waited time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); !p.quiet && (waited == 0 || now.After(p.next)) {
		p.next = now.Add(lineEvery)
		p.println(fmt.Sprintf("agentx: waiting for %s, which builds the %s (%s)", holder, part, waited.Round(time.Second)))
	}
}

// say prints a line above what is shown.
func (p *progress) say(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.println(line)
}

// println does what say does. The caller holds the lock.
func (p *progress) println(line string) {
	switch {
	case p.block != nil:
		p.block.Above(func(w io.Writer) { printError(w, line) })
	case p.bars != nil:
		printError(p.bars, line)
	default:
		printError(p.w, line)
	}
}

// finish removes the bar of the stage that has ended, and the block of a replay.
func (p *progress) finish() {
	if p.block != nil {
		p.block.Erase()
	}
	if p.bar != nil {
		p.bar.Abort(true)
		p.bar.Wait()
		p.bar = nil
	}
}

// close ends everything that is shown.
func (p *progress) close() {
	if p.live != nil {
		p.live.close()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.finish()
	if p.bars != nil {
		p.bars.Wait()
	}
}

// liveBlock draws the status of a replay as a block of lines that stays in its place on the terminal.
func (p *progress) liveBlock(now live.Status) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.block != nil {
		p.block.Draw(func(columns int) []string {
			lines := now.Block(columns)
			return lines[:]
		})
	}
}

// openBlock prepares the block of liveBlock, if standard error is a terminal.
func (p *progress) openBlock() {
	if f, ok := p.w.(*os.File); ok && p.bars != nil {
		p.block = &terminal.Block{W: f, Size: func() (columns, rows int) {
			columns, rows, _ = term.GetSize(int(f.Fd())) // 0, 0 after an error
			return columns, rows
		}}
	}
}

// logLines prints lines about a replay, unless a terminal shows its block, or with --quiet.
func (p *progress) logLines(lines []string) {
	if p.quiet || p.bars != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, line := range lines {
		p.println("agentx: " + line)
	}
}

// remaining estimates how long a run goes on until its nearest bound, at its pace so far; negative: not known.
func remaining(o replay.Options, length time.Duration, now replay.Progress) time.Duration {
	far := fractionDone(o, length, now)
	if far <= 0 {
		return -1
	}
	return time.Duration(float64(now.Elapsed) * (1 - far) / far)
}

// fractionDone returns the share of a run that is done, 0 to 1, by its nearest bound. It is 0 without a bound, and in the warmup, to which
// bounds do not apply.
func fractionDone(o replay.Options, length time.Duration, r replay.Progress) (far float64) {
	if r.Phase == measure.WarmupPhase {
		return 0
	}
	for _, b := range [][2]float64{
		{float64(r.Elapsed), float64(o.Duration)}, {float64(r.Elapsed), float64(length)},
		{float64(r.Requests), float64(o.Requests)}, {float64(r.TreesDrained), float64(o.Trees)},
	} {
		if b[1] > 0 {
			far = max(far, b[0]/b[1])
		}
	}
	return min(far, 1)
}
