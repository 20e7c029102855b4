package main

import (
	"os"
	"time"

	"golang.org/x/term"

	"github.com/agentx/agentx/replay"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/report/live"
)

// liveBlock shows what a replay is like in a few lines of a terminal, which stay in their place.
func (p *progress) liveBlock(now live.Status) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.block != nil {
		p.block.draw(func(columns int) []string {
			lines := now.Block(columns)
			return lines[:]
		})
	}
}

// openBlock makes a block where standard error is a terminal.
func (p *progress) openBlock() {
	if f, ok := p.w.(*os.File); ok && p.bars != nil {
		p.block = &block{w: f, size: func() (columns, rows int) {
			columns, rows, _ = term.GetSize(int(f.Fd())) // 0, 0 after an error
			return columns, rows
		}}
	}
}

// liveLine prints what a replay is like, unless a terminal shows it.
func (p *progress) liveLine(now live.Status) {
	p.logLines([]string{now.Log()})
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
