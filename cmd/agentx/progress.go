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

	"github.com/agentx/agentx/internal/bytefmt"
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

	live  *liveRun // nil: no replay is played
	block *block   // shows it; nil: not on a terminal
}

const lineEvery = 5 * time.Second

func newProgress(cmd *cobra.Command) *progress {
	p := &progress{w: cmd.ErrOrStderr()}
	p.quiet, _ = cmd.Flags().GetBool("quiet") // a flag of every command
	if f, ok := p.w.(*os.File); ok && !p.quiet && term.IsTerminal(int(f.Fd())) && takesEscapes(f) {
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
		p.block.above(func(w io.Writer) { printError(w, line) })
	case p.bars != nil:
		printError(p.bars, line)
	default:
		printError(p.w, line)
	}
}

// finish removes the bar of the stage that has ended, and the block of a replay.
func (p *progress) finish() {
	if p.block != nil {
		p.block.erase()
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
