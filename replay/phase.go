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

	target PhaseTarget // of its period, where it is the first of that
	news   *phaseNews  // of its period

	arrivals conductor.Arrivals // when trees open; nil: when lanes take them
	ramp     time.Duration      // without arrivals: over which the lanes open
	part     Part               // of the load whose lanes these are
	allLanes int                // of that load

	firstCredit int // number of its first request in its period

	// maxFailed is the share of failed requests above which the phase ends; 0: none. It acts from the request on that is the
	// failedFrom-th to end. With ofRecords it is a share of overflows as well.
	maxFailed  float64
	failedFrom int
	ofRecords  bool

	goneAfter time.Duration // how long servers may take no connection before the phase ends; 0: for ever

	ending <-chan struct{} // ends the sending as deadlines.duration does; nil: nothing sends on it

	// fatal reports whether a request that is over ends the phase at once, with all that is in flight; nil: none does.
	fatal func(*measure.Record) bool
}

// profiling returns the phase that is measured.
func measuredPhase(o Options, source treeSource, recorder recorder) phase {
	return phase{
		name: measure.ProfilingPhase, source: source, recorder: recorder,
		limits: conductor.Limits{
			Requests: o.Requests, Trees: o.Trees, Prefill: o.Limits.Prefill,
			TreeIdle: o.treeIdle(), SystemIdle: o.Limits.SystemIdle,
		},
		deadlines: deadlines{duration: o.Duration, grace: o.Grace},
		ramp:      o.Arrivals.Ramp, part: o.Part, allLanes: o.allLanes,
		target:    PhaseTarget{Requests: o.Requests, Trees: o.Trees, Duration: o.Duration},
		maxFailed: o.FailedRequestThreshold, failedFrom: max(o.Concurrency, minFailedFrom),
		ofRecords: o.switches().ShareOfRecords, goneAfter: o.GoneAfter,
	}
}

// conduct returns the conductor of a phase with a number of lanes.
func (p *phase) conduct(lanes int, launch func(conductor.Dispatch) error, observe func(conductor.Event)) *conductor.Conductor {
	c := conductor.New(lanes, p.source, p.limits, launch, observe)
	switch {
	case p.arrivals != nil:
		c.OpenBy(p.arrivals)
	case p.ramp > 0 && p.part.several():
		c.RampPart(p.ramp, p.part.Number, p.part.Of, p.allLanes)
	case p.ramp > 0:
		c.Ramp(p.ramp)
	}
	return c
}

// playPhase plays a phase in the calling goroutine. The loop that it returns says how the phase ended.
func (r *run) playPhase(ctx context.Context, p phase) (*loop, error) {
	begins := len(r.periods) == 0 || r.periods[len(r.periods)-1].name != p.name
	if begins && r.together.meeting == nil { // else part 0 has, before any part began
		r.scraping.begin(ctx, p.name)
	}
	origin := r.medium.now() // no send is late by what was waited for
	if begins {
		r.periods = append(r.periods, period{name: p.name, origin: origin, news: newPhaseNews(r.epoch.Add(origin), p.target, r.reporter.phase, r.scraping.said)})
	}
	current := &r.periods[len(r.periods)-1]
	p.firstCredit, p.news = current.credits, current.news
	clock, transport, end := r.medium.begin(ctx, p, origin, current.origin)
	defer end()
	o := r.Options
	told := func(tell func(Progress)) func(Progress) {
		return func(p Progress) { p.Standstills = r.stood.Load(); tell(p) }
	}
	o.Progress, o.Notice, o.Period = told(r.reporter.report), r.reporter.notice, told(r.reporter.period)
	if p.name == measure.WarmupPhase && o.RetryAfter == RetryRecord {
		o.RetryAfter = RetryWait // nothing is measured, and a primer that fails ends the run
	}
	l := newLoop(o, p, clock, transport)
	l.recordsFrom = origin - current.origin
	p.news.enter(p.name)
	err := l.run()
	p.news.leave(l)
	current.length = r.medium.now() - current.origin
	r.scraping.mark()
	current.credits += l.conductor.Counts().Sent
	return l, err
}

// medium is what a run plays its phases on: a clock and a transport, real or virtual.
type medium interface {
	now() time.Duration // since the start of the run
	// begin returns the clock and the transport of a phase that starts at an instant of the run. The instants of its records
	// count from recordsOrigin. end is called when the phase is over.
	begin(ctx context.Context, p phase, origin, recordsOrigin time.Duration) (c clock, t transport, end func())
}

// network is the real medium.
type network struct{ *run }

func (n network) now() time.Duration { return time.Since(n.epoch) }

func (n network) begin(ctx context.Context, p phase, origin, recordsOrigin time.Duration) (clock, transport, func()) {
	s := n.newSender(p, origin, recordsOrigin)
	timer := newWakeTimer()
	var heart *heartbeat
	if p.name == measure.ProfilingPhase {
		heart = startHeartbeat(n.epoch.Add(recordsOrigin), func() int { return int(s.inFlight.Load()) }, &n.stood)
	}
	return &realClock{epoch: n.epoch.Add(origin), timer: timer, events: s.events, ending: p.ending, interrupted: ctx.Done()}, s, func() {
		n.standstills = heart.end()
		s.close()
		timer.close()
	}
}

// period is the time of consecutive phases of one name, on the clock of the run. The instants of their records count from its
// start.
type period struct {
	name           string
	origin, length time.Duration
	credits        int // requests that its phases have issued
	news           *phaseNews
}

// endPeriod tells that the latest period is over, if there is one.
func (r *run) endPeriod() {
	if n := len(r.periods); n > 0 {
		r.periods[n-1].news.end(r.periods[n-1].length)
	}
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
