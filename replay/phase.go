package replay

import (
	"context"
	"time"

	"github.com/agentx/agentx/replay/conductor"
	"github.com/agentx/agentx/replay/measure"
)

// phase is what one conductor and one loop play. A run plays its phases one after another, and nothing is in flight between
// two of them. They share the sampler with the trees that lanes play, the connections and the results. Instants of a phase
// count from its start.
type phase struct {
	name      string // of its records; consecutive phases of one name make up one period of the results
	source    treeSource
	limits    conductor.Limits
	deadlines deadlines
	recorder  recorder
	oneToken  bool // every request asks for one token
	handsOff  bool // the next phase takes up the trees as this one leaves them

	// maxFailed is the share of failed requests above which the phase ends; 0: none. It acts from the request on that is the
	// failedFrom-th to end.
	maxFailed  float64
	failedFrom int

	// fatal reports whether a request that is over ends the phase at once, with all that is in flight; nil: none does.
	fatal func(*measure.Record) bool
}

// profiling returns the phase that is measured.
func profiling(o Options, source treeSource, recorder recorder) phase {
	return phase{
		name: measure.ProfilingPhase, source: source, recorder: recorder,
		limits: conductor.Limits{
			Requests: o.Requests, Trees: o.Trees, Prefill: o.Limits.Prefill,
			TreeIdle: o.treeIdle(), SystemIdle: o.Limits.SystemIdle,
		},
		deadlines: deadlines{duration: o.Duration, grace: o.Grace},
		maxFailed: o.FailedRequestThreshold, failedFrom: max(o.Concurrency, minFailedFrom),
	}
}

// playPhase plays a phase in the calling goroutine. The loop that it returns says how the phase ended.
func (r *run) playPhase(ctx context.Context, p phase) (*loop, error) {
	origin := time.Since(r.epoch)
	if n := len(r.periods); n == 0 || r.periods[n-1].name != p.name {
		r.periods = append(r.periods, period{name: p.name, origin: origin})
	}
	current := &r.periods[len(r.periods)-1]
	s := r.newSender(p, origin, current.origin)
	defer s.close()
	timer := newWakeTimer()
	defer timer.close()
	o := r.Options
	o.Progress, o.Notice = r.reporter.report, r.reporter.notice
	l := newLoop(o, p, &realClock{epoch: r.epoch.Add(origin), timer: timer, events: s.events, interrupted: ctx.Done()}, s)
	l.recordsFrom = origin - current.origin
	err := l.run()
	current.length = time.Since(r.epoch) - current.origin
	return l, err
}

// period is the time of consecutive phases of one name, on the clock of the run. The instants of their records count from its
// start.
type period struct {
	name           string
	origin, length time.Duration
}

// phaseSpans describes the periods of a run for its results.
func (r *run) phaseSpans() (list []measure.PhaseSpan) {
	for _, p := range r.periods {
		list = append(list, measure.PhaseSpan{
			Name: p.name, Start: r.epoch.Add(p.origin).UTC().Round(0),
			Offset: (p.origin - r.periods[0].origin).Seconds(), Duration: p.length.Seconds(),
		})
	}
	return list
}
