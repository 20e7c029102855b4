package replay

import (
	"context"

	"github.com/agentx/agentx/replay/measure"
)

// Watched is the measured phase of a run while it is played.
type Watched struct {
	Dir string // of the results, where the records grow; "": none are written

	Warn   func(string) // tells something as Options.Warn and Options.Notice do; it does not wait
	Notice func(string)

	end chan<- struct{}
}

// End ends the sending now, as Options.Duration does at its instant: nothing new is sent, and the requests in flight have the grace.
// It does not wait. After the end of the sending, and the second time, it does nothing.
func (w Watched) End() {
	select {
	case w.end <- struct{}{}:
	default: // it has been called
	}
}

// watching is a call of Options.Watch. A nil one watches nothing.
type watching struct {
	end    chan struct{} // has what Watched.End sends
	over   context.CancelFunc
	result chan *measure.Until
}

// watch begins to watch the phase that is measured.
func (r *run) watch(ctx context.Context) *watching {
	if r.Watch == nil {
		return nil
	}
	w := &watching{end: make(chan struct{}, 1), result: make(chan *measure.Until, 1)}
	ctx, w.over = context.WithCancel(context.WithoutCancel(ctx)) // an interrupted phase is watched to its end
	go func() {
		w.result <- r.Watch(ctx, Watched{r.results.dir.path, r.reporter.warn, r.reporter.notice, w.end})
	}()
	return w
}

// ending returns the channel that ends the sending, nil where nothing can.
func (w *watching) ending() <-chan struct{} {
	if w == nil {
		return nil
	}
	return w.end
}

// finish ends the watching of a phase that is over, and adds what it has found to the facts. All records are in their file before.
func (w *watching) finish(r *results, facts *measure.Facts) {
	if w == nil {
		return
	}
	_ = r.closeRecords() // whose error write tells
	w.over()
	if facts.Until = <-w.result; facts.Until != nil {
		facts.Until.After = facts.PhaseDuration
		if facts.Deadline > 0 {
			facts.Until.After = min(facts.Deadline, facts.PhaseDuration)
		}
	}
}
