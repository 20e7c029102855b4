package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/agentx/agentx/replay"
	"github.com/agentx/agentx/replay/measure"
)

// replayProgress returns a function that shows the progress of a replay: on a terminal one line that is written over, else
// a line every five seconds. Length is how long a run without a bound may last; 0: not known.
func (p *progress) replayProgress(o replay.Options, length time.Duration) func(replay.Progress) {
	return func(r replay.Progress) {
		if p.quiet {
			return
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.now.Store(&r)
		switch now := time.Now(); {
		case p.bars != nil && p.bar == nil:
			p.bar = p.bars.MustAdd(0, mpb.BarFillerFunc(func(w io.Writer, s decor.Statistics) error {
				now := *p.now.Load()
				_, err := io.WriteString(w, replayLine(now, fractionDone(o, length, now), s.AvailableWidth))
				return err
			}), mpb.BarFillerTrim())
		case p.bars == nil && now.After(p.next):
			p.next = now.Add(lineEvery)
			waiting := ""
			if r.Arrivals {
				waiting = fmt.Sprintf(", %d open, %d waiting", r.TreesOpen, r.TreesWaiting)
			}
			fmt.Fprintf(p.w, "agentx: %s %s: %d sent, %d in flight, %d completed, %d errors, %d trees%s\n",
				phaseLabel(r.Phase), r.Elapsed.Round(time.Second), r.Requests, r.InFlight, r.Completed, r.Errors, r.TreesOpened, waiting)
		}
	}
}

// replayPeriod prints what a period of a replay was like, unless a terminal shows the progress.
func (p *progress) replayPeriod(r measure.Period) {
	if p.quiet || p.bars != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, line := range r.Lines() {
		fmt.Fprintf(p.w, "agentx: %s %s: %s\n", phaseLabel(r.Phase), r.Elapsed.Round(time.Second), line)
	}
}

// phaseLabel names what is played: the warmup, or the replay that is measured.
func phaseLabel(phase string) string {
	if phase == measure.WarmupPhase {
		return "warmup"
	}
	return "replay"
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

// replayLine returns a line of progress for a terminal: the most important parts that fit into its columns.
func replayLine(r replay.Progress, far float64, columns int) string {
	type part struct {
		rank int
		text string
	}
	parts := []part{{0, phaseLabel(r.Phase)}}
	add := func(rank int, format string, args ...any) {
		parts = append(parts, part{rank, fmt.Sprintf(format, args...)})
	}
	if far > 0 {
		const cells = 12
		full := int(far * cells)
		add(8, "[%s%s]", strings.Repeat("=", full), strings.Repeat("-", cells-full))
		add(1, "%.0f %%", 100*far)
	}
	add(7, "%s", r.Elapsed.Round(time.Second))
	add(2, "%d sent", r.Requests)
	add(6, "%d completed", r.Completed)
	add(4, "%d in flight", r.InFlight)
	add(3, "%d errors", r.Errors)
	if r.Arrivals {
		add(5, "%d trees open", r.TreesOpen)
		add(4, "%d waiting", r.TreesWaiting)
	}
	if s := r.Elapsed.Seconds(); s > 0 {
		add(9, "%.1f/s", float64(r.Completed)/s)
	}
	if far > 0 && far < 1 {
		add(5, "ETA %s", time.Duration(float64(r.Elapsed)*(1-far)/far).Round(time.Second))
	}
	left := columns - 1
	fits := make([]bool, len(parts))
	for rank := range 10 {
		for k, p := range parts {
			if n := len(p.text) + 2; p.rank == rank && n <= left+2 {
				fits[k] = true
				left -= n
			}
		}
	}
	var line []string
	for k, p := range parts {
		if fits[k] {
			line = append(line, p.text)
		}
	}
	return strings.Join(line, "  ")
}
