package main

import (
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

// progress shows the progress of a command on standard error: a bar with rate and ETA on a terminal, else a line every
// five seconds. With --quiet it shows nothing.
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

const lineEvery = 5 * time.Second

func newProgress(cmd *cobra.Command) *progress {
	p := &progress{w: cmd.ErrOrStderr()}
	p.quiet, _ = cmd.Flags().GetBool("quiet") // a flag of every command
	if f, ok := p.w.(*os.File); ok && !p.quiet && term.IsTerminal(int(f.Fd())) && terminal.TakesEscapes(f) {
		p.bars = mpb.New(mpb.WithOutput(f), mpb.WithWidth(40))
	}
	return p
}

// update adds n units of total to a stage.
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

// waiting prints, at once and then every five seconds, which process the command waits for.
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

// println does what say does, for those who hold the lock.
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

// liveBlock shows what a replay is like in a few lines of a terminal, which stay in their place.
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

// openBlock makes a block where standard error is a terminal.
func (p *progress) openBlock() {
	if f, ok := p.w.(*os.File); ok && p.bars != nil {
		p.block = &terminal.Block{W: f, Size: func() (columns, rows int) {
			columns, rows, _ = term.GetSize(int(f.Fd())) // 0, 0 after an error
			return columns, rows
		}}
	}
}

// logLines prints lines about a replay, unless a terminal shows it.
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

// remaining returns how long a run goes on until the bound that is nearest, at its pace so far; negative where that is not known.
func remaining(o replay.Options, length time.Duration, now replay.Progress) time.Duration {
	far := fractionDone(o, length, now)
	if far <= 0 {
		return -1
	}
	return time.Duration(float64(now.Elapsed) * (1 - far) / far)
}

// fractionDone returns how much of a run is done, 0 to 1, by the bound that is nearest; 0 where there is no bound, and in the
// warmup, which the bounds do not count.
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
