package replay

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/agentx/agentx/replay/conductor"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/scrape"
)

// Progress is how far a run has come.
type Progress = measure.Progress

// reporter calls the callbacks of Options in a goroutine of its own, so that a slow one does not delay the loop. It
// keeps the latest progress alone, and queues messages while there is room.
type reporter struct {
	callbacks Options
	progress  chan Progress
	messages  chan func()   // each calls one of the other callbacks
	closing   chan struct{} // closed when nothing more is to come
	done      chan struct{} // closed when everything has been said
	dropped   atomic.Int64  // messages without room
}

const (
	reporterRoom  = 1024            // messages that may wait
	reporterDrain = 2 * time.Second // longest wait for the callbacks at the end of a run
)

// newReporter returns a reporter of callbacks that are not nil.
func newReporter(o Options) *reporter {
	r := &reporter{
		callbacks: o, progress: make(chan Progress, 1), messages: make(chan func(), reporterRoom), closing: make(chan struct{}), done: make(chan struct{}),
	}
	go r.run()
	return r
}

// run calls the callbacks until close.
func (r *reporter) run() {
	defer close(r.done)
	for {
		select {
		case p := <-r.progress:
			r.callbacks.Progress(p)
		case say := <-r.messages:
			say()
		case <-r.closing:
			for len(r.messages) > 0 {
				(<-r.messages)()
			}
			if n := r.dropped.Load(); n > 0 {
				r.callbacks.Warn(fmt.Sprintf("and %d more warnings, for which there was no room", n))
			}
			return
		}
	}
}

// report hands progress over. It replaces progress that has not been delivered yet.
func (r *reporter) report(p Progress) {
	select {
	case <-r.progress:
	default:
	}
	r.progress <- p // there is room: only the calling goroutine fills it
}

func (r *reporter) opened(dir string) { r.enqueue(func() { r.callbacks.Opened(dir) }) }

func (r *reporter) warn(text string) { r.enqueue(func() { r.callbacks.Warn(text) }) }

func (r *reporter) notice(text string) { r.enqueue(func() { r.callbacks.Notice(text) }) }

func (r *reporter) period(p Progress) { r.enqueue(func() { r.callbacks.Period(p) }) }

func (r *reporter) phase(n PhaseNews) { r.enqueue(func() { r.callbacks.Phase(n) }) }

// enqueue queues a message, or counts it where there is no room.
func (r *reporter) enqueue(say func()) {
	select {
	case r.messages <- say:
	default:
		r.dropped.Add(1)
	}
}

// close waits until everything has been said, for reporterDrain at most.
func (r *reporter) close() {
	close(r.closing)
	select {
	case <-r.done:
	case <-time.After(reporterDrain):
	}
}

// PhaseStep is what has happened to a period of a run: its warmup, or what is measured.
type PhaseStep uint8

// The steps, in their order. PhaseGoesOn is told at the end of every StatsInterval.
const (
	PhaseBegun PhaseStep = iota
	PhaseGoesOn
	PhaseSent // sending is complete
	PhaseOver
)

// PhaseNews is a step of a period. Its progress is that of the whole period. doc/spec/replay.md 8.10.
type PhaseNews struct {
	Step  PhaseStep
	Start time.Time // of the period
	Progress
	Sessions SessionCounts
	Target   PhaseTarget
	TimedOut bool       // the duration, or at PhaseOver the grace, was over
	Ended    bool       // something else than a bound ended it
	Servers  scrape.Now // at PhaseGoesOn: what the servers say of themselves, since the period began
}

// SessionCounts count the root sessions of a period.
type SessionCounts struct{ Sent, Completed, Cancelled int }

// PhaseTarget is what bounds a period; 0: that does not.
type PhaseTarget struct {
	Requests, Trees int
	Duration        time.Duration
}

// phaseNews tells the steps of a period. Its methods do nothing on nil.
type phaseNews struct {
	news     PhaseNews // as it is told, with the counts of the phases that are over
	tell     func(PhaseNews)
	servers  func() scrape.Now
	before   scrape.Now // what servers had counted when the period began
	lanes    map[int]*rootSession
	sent     bool // it was told
	graceOut bool
}

// rootSession is the root that a lane plays.
type rootSession struct {
	counted bool // as sent
	goesOn  bool // the first tree of the phase is the one that the lane has
}

// enter begins a phase of the period.
func (n *phaseNews) enter(name string) {
	if n == nil {
		return
	}
	begins := n.news.Phase == ""
	n.news.Phase = name
	for _, lane := range n.lanes {
		lane.goesOn = true
	}
	if begins {
		n.before = n.servers()
		n.step(PhaseBegun, Progress{}, 0)
	}
}

// leave ends a phase of the period.
func (n *phaseNews) leave(l *loop) {
	if n == nil {
		return
	}
	n.news.Progress = n.whole(l.progressAt(l.clock.now()), l.recordsFrom)
	early := l.endedEarly() || l.aborted
	n.news.Ended = n.news.Ended || early
	n.graceOut = n.graceOut || l.cancelled && !early
}

// end ends the period.
func (n *phaseNews) end(length time.Duration) {
	if n == nil {
		return
	}
	n.news.Elapsed = length
	if !n.sent {
		n.step(PhaseSent, Progress{}, 0)
	}
	n.news.TimedOut = n.graceOut
	n.step(PhaseOver, Progress{}, 0)
}

// look tells that sending is complete once it is, and at the end of a StatsInterval how far the period has come.
func (n *phaseNews) look(l *loop, now time.Duration, periodic bool) {
	if n == nil {
		return
	}
	target := n.news.Target.Requests
	if !n.sent && (l.deadlines.stopped || l.conductor.Stopped() || target > 0 && n.news.Requests+l.conductor.Counts().Sent >= target) {
		n.sent = true
		n.news.TimedOut = l.name == measure.ProfilingPhase && l.deadlines.duration > 0 && now >= l.deadlines.duration && !l.endedEarly()
		n.step(PhaseSent, l.progressAt(now), l.recordsFrom)
	}
	if periodic {
		n.step(PhaseGoesOn, l.progressAt(now), l.recordsFrom)
	}
}

// step tells a step, with the progress of the phase that is played since an instant of the period.
func (n *phaseNews) step(s PhaseStep, p Progress, from time.Duration) {
	news := n.news
	news.Step = s
	if p.Phase != "" {
		news.Progress = n.whole(p, from)
	}
	if s == PhaseGoesOn {
		news.Servers = n.servers().Since(n.before)
	}
	n.tell(news)
}

// whole returns the progress of the period.
func (n *phaseNews) whole(p Progress, from time.Duration) Progress {
	of := n.news.Progress
	p.Elapsed += from
	p.Requests, p.Completed, p.Errors = p.Requests+of.Requests, p.Completed+of.Completed, p.Errors+of.Errors
	p.Overflows, p.Cancelled = p.Overflows+of.Overflows, p.Cancelled+of.Cancelled
	return p
}

// onEvent counts root sessions that are sent. One that is parked when the period begins holds its lane.
func (n *phaseNews) onEvent(e conductor.Event) {
	if n == nil || e.Lane < 0 || e.Session != 0 {
		return
	}
	lane := n.lanes[e.Lane]
	if lane == nil {
		lane = new(rootSession)
		n.lanes[e.Lane] = lane
	}
	switch e.Kind {
	case conductor.TreeOpened:
		*lane = rootSession{counted: lane.counted && lane.goesOn}
	case conductor.TurnSent, conductor.SessionParked:
		if !lane.counted {
			lane.counted = true
			n.news.Sessions.Sent++
		}
	}
}

// returned counts a root session whose last turn has ended.
func (n *phaseNews) returned(r *request, outcome conductor.Outcome) {
	d := r.dispatch
	if n == nil || d.Session != 0 || d.Turn+1 < len(r.tree.Sessions[0].Turns) {
		return
	}
	if outcome == conductor.Cancelled {
		n.news.Sessions.Cancelled++
	} else {
		n.news.Sessions.Completed++
	}
}
