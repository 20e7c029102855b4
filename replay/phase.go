package replay

import (
	"context"
	"math"
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
	origin := r.medium.now() // no send is late by what was waited for
	if begins {
		news := &phaseNews{news: PhaseNews{Start: r.epoch.Add(origin), Target: p.target}, tell: r.reporter.phase, servers: r.scraping.said, lanes: map[int]*rootSession{}}
		r.periods = append(r.periods, period{name: p.name, origin: origin, news: news})
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
	// ready does before the measured phase what its first requests would do at its start.
	ready(ctx context.Context) *measure.Ahead
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

// cancelDrain is the longest wait for the return of requests that were cancelled.
const cancelDrain = 10 * time.Second

// unlimited is a grace that is never over.
const unlimited time.Duration = 1 << 60

// deadlines says when a phase ends, in three steps: at its duration the sending ends, after the grace the requests in
// flight are cancelled, and those that have not returned after the drain are given up. doc/spec/replay.md 4.9.
type deadlines struct {
	duration time.Duration // of the sending; 0: no bound
	grace    time.Duration
	lastSent bool // the grace counts from the last request sent, if no other can be sent before one returns
	stopped  bool // the sending has ended

	interruptGrace time.Duration // longest grace after an interrupt

	cancelAt time.Duration // when requests in flight are cancelled; 0: never, or done
	giveUpAt time.Duration // when requests that were cancelled are given up; 0: never, or done
}

// end makes now the end of the duration. It is false after the end of the sending.
func (d *deadlines) end(now time.Duration) bool {
	if d.stopped || d.duration > 0 && now >= d.duration {
		return false
	}
	d.duration = max(now, 1)
	return true
}

// reached reports, once, that the duration is over.
func (d *deadlines) reached(now time.Duration) bool {
	if d.stopped || d.duration == 0 || now < d.duration {
		return false
	}
	d.stopped = true
	d.cancelAt = d.duration + max(d.grace, 1)
	return true
}

// sent tells when the last request was sent, and whether another is due without the return of one.
func (d *deadlines) sent(last time.Duration, another bool) {
	switch {
	case !d.lastSent || d.stopped:
	case another:
		d.cancelAt = 0
	default:
		d.cancelAt = last + max(d.grace, 1)
	}
}

// abort ends the sending now, without a grace.
func (d *deadlines) abort(now time.Duration) {
	d.interrupt(now)
	if d.cancelAt > 0 {
		d.cancelAt = max(now, 1)
	}
}

// interrupt ends the sending now, and shortens the grace to that of an interrupt.
func (d *deadlines) interrupt(now time.Duration) {
	grace := min(d.grace, d.interruptGrace)
	switch {
	case d.cancelAt > 0:
		d.cancelAt = min(d.cancelAt, now+grace)
	case !d.stopped:
		d.cancelAt = now + max(grace, 1)
	}
	d.stopped = true
}

// cancelDue reports, once, that the grace is over.
func (d *deadlines) cancelDue(now time.Duration) bool {
	if d.cancelAt == 0 || now < d.cancelAt {
		return false
	}
	d.stopped, d.cancelAt, d.giveUpAt = true, 0, now+cancelDrain
	return true
}

// giveUpDue reports, once, that the drain is over.
func (d *deadlines) giveUpDue(now time.Duration) bool {
	if d.giveUpAt == 0 || now < d.giveUpAt {
		return false
	}
	d.giveUpAt = 0
	return true
}

// next returns the earliest of the instants that are to come.
func (d *deadlines) next() time.Duration {
	next := time.Duration(math.MaxInt64)
	if !d.stopped && d.duration > 0 {
		next = d.duration
	}
	for _, at := range []time.Duration{d.cancelAt, d.giveUpAt} {
		if at > 0 {
			next = min(next, at)
		}
	}
	return next
}

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
