package replay

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/agentx/agentx/replay/conductor"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/meet"
	"github.com/agentx/agentx/replay/wire"
)

// loop plays one phase. It tells the conductor the time and what came back, sends what the conductor dispatches, and ends
// the phase. It runs in one goroutine, on a real or a virtual clock. The way of a request through it is in request.go.
type loop struct {
	phase
	conductor *conductor.Conductor
	clock     clock
	transport transport
	inFlight  map[int]*request // by id
	cutoff    measure.Cutoff
	backoff   backoff
	throttle  throttle

	recordsFrom    time.Duration // from where the instants of records count to the start of the phase
	stopOnDeadlock bool
	lastSent       time.Duration
	busySince      time.Duration // requests are in flight since then
	heard          time.Duration // when the newest bytes of an answer came, as far as it is known
	interrupted    bool          // the caller has ended the run
	aborted        bool          // a request that failed has ended the phase
	cancelled      bool          // requests were cancelled, at cancelledAt
	cancelledAt    time.Duration
	unheard        int          // requests that have failed without a connection since another one ended
	unheardSince   measure.Time // when the first of them was ordered
	deadlocked     bool         // a tree is deadlocked, which ends the phase
	unwritable     bool         // a record cannot be written, which ends the phase
	err            error        // what ended the phase before its bounds

	backlog  *backlog // nil: trees are played in lanes
	periods  *periods
	progress Progress
	together *together      // with the other parts
	report   func(Progress) // must not wait
	notice   func(string)   // must not wait
}

// treeSource is where lanes get their trees from.
type treeSource interface {
	conductor.Source
	ended(lane int) // the tree that the lane plays is over
	failed() error  // the cache cannot be read, which ends the phase
}

// transport sends requests. Each comes back as an event of the clock.
type transport interface {
	send(r *request)
	cancelAll() // cancels every request in flight
	// look ends the requests whose servers have stalled at an instant. It returns when the newest bytes of any answer came.
	look(now time.Duration) (heard time.Duration)
}

// recorder keeps what happens for the results.
type recorder interface {
	record(r *measure.Record) error // the error says that the record cannot be written
	onEvent(e conductor.Event)
}

// event is news for the loop.
type event struct {
	kind   eventKind
	id     int     // of the request
	answer *answer // of a request that returned
}

type eventKind uint8

const (
	returned    eventKind = iota // a request is over
	firstToken                   // the answer to a request has begun
	ending                       // Watched.End was called
	interrupted                  // the caller ends the run
)

// newLoop returns the loop of a phase.
func newLoop(o Options, p phase, clock clock, transport transport) *loop {
	p.deadlines.interruptGrace = o.InterruptGrace
	l := &loop{
		phase: p, clock: clock, transport: transport, inFlight: map[int]*request{},
		cutoff:  measure.Cutoff{Deadline: p.deadlines.duration, CountGrace: o.Switches.CountGrace},
		backoff: backoff{o.Backoff, map[int]pause{}}, throttle: throttle{o.RetryAfter, map[int]time.Duration{}, map[int]*request{}},
		stopOnDeadlock: o.StopOnDeadlock, together: &together{meeting: o.Meeting}, periods: newPeriods(o), progress: Progress{Phase: p.name}, report: o.Progress, notice: o.Notice,
	}
	l.conductor = p.conduct(o.maxOpen(), l.launch, l.onEvent)
	if p.arrivals != nil {
		l.backlog = new(backlog)
		l.progress.Arrivals = true
	}
	return l
}

// run returns when nothing is in flight and nothing will be. The error is what ended the phase before its bounds. A phase
// that is interrupted before it begins sends nothing.
func (l *loop) run() error {
	if e, ok := l.clock.await(0); ok {
		l.handle(e, l.clock.now())
	}
	l.expire(l.clock.now())
	l.fail(l.conductor.Start(l.clock.now()))
	for {
		now := l.clock.now()
		l.advance(now)
		if l.conductor.Done() {
			return l.err
		}
		if e, ok := l.clock.await(l.nextWake(now)); ok {
			l.handle(e, l.clock.now())
		}
	}
}

// advance does what is due.
func (l *loop) advance(now time.Duration) {
	l.expire(now)
	l.conductor.Wake(now)
	_, another := l.conductor.NextWake()
	l.deadlines.sent(l.lastSent, another)
	if l.deadlines.cancelDue(now) {
		l.endSending(now)
		l.cancelled, l.cancelledAt = true, now
		l.transport.cancelAll()
	}
	if l.deadlines.giveUpDue(now) {
		for _, id := range slices.Sorted(maps.Keys(l.inFlight)) {
			l.giveUp(l.inFlight[id], now)
		}
	}
	if l.deadlines.stopped || l.conductor.Stopped() || l.conductor.Done() {
		l.endWaits(now)
	}
	l.fail(l.conductor.Err())
	l.fail(l.source.failed())
	if l.backlog != nil {
		l.backlog.set(now, l.conductor.Counts())
	}
	l.reportProgress(now)
	due := now >= l.periods.due()
	l.news.look(l, now, due)
	if due {
		l.periods.end(l.progressAt(now))
	}
}

// expire ends the sending when its time is up. It comes before everything that could send.
func (l *loop) expire(now time.Duration) {
	if l.deadlines.reached(now) {
		l.endSending(now)
	}
	if l.deadlocked && !l.deadlines.stopped {
		l.together.stop(meet.Wedged, "a tree is deadlocked, and stop-on-deadlock is set")
		l.stop(now)
	}
}

// endSending ends the sending. A phase that hands off its trees keeps what is not finished.
func (l *loop) endSending(now time.Duration) {
	if l.handsOff {
		l.conductor.Pause(now)
	} else {
		l.conductor.Stop(now)
	}
}

// abort ends the phase now because of a request, and cancels what is in flight.
func (l *loop) abort(r *measure.Record, now time.Duration) {
	l.together.stop(meet.Failed, fmt.Sprintf("a request of its %s failed: %s", l.name, r.Error.Message))
	l.stop(now)
	l.aborted = true
	l.deadlines.abort(now)
}

// stop ends the sending as a deadline at this instant would.
func (l *loop) stop(now time.Duration) {
	if !l.deadlines.stopped {
		l.cutoff.Deadline = now
	}
	l.deadlines.interrupt(now)
	l.conductor.Stop(now)
}

// fail ends the phase because of an error.
func (l *loop) fail(err error) {
	if err != nil && l.err == nil {
		l.together.fail(err)
		l.err = err
		l.stop(l.clock.now())
	}
}

// endedEarly reports whether something other than a bound or a deadlocked tree ended the phase.
func (l *loop) endedEarly() bool { return l.interrupted || l.unwritable || l.err != nil }

// handle acts on an event.
func (l *loop) handle(e event, now time.Duration) {
	switch e.kind {
	case returned:
		l.onReturn(e.id, e.answer, now)
	case firstToken:
		l.expire(now)
		l.conductor.FirstToken(e.id, now)
	case ending:
		if l.deadlines.end(now) {
			l.cutoff.Deadline = l.deadlines.duration
			l.expire(now)
		}
	case interrupted:
		l.interrupted = true
		l.stop(now)
		if n := len(l.inFlight); n > 0 {
			l.notice(drainNotice(n, max(0, l.deadlines.cancelAt-now)))
		}
	}
}

// drainNotice says what an interrupt waits for.
func drainNotice(requests int, longest time.Duration) string {
	n := measure.Plural(requests, "running request", "running requests")
	return fmt.Sprintf("interrupted: waiting for %s, %v at most; a second interrupt leaves at once", n, longest.Round(10*time.Millisecond))
}

// onEvent acts on what the conductor did.
func (l *loop) onEvent(e conductor.Event) {
	l.recorder.onEvent(l.recorded(e))
	l.news.onEvent(e)
	switch e.Kind {
	case conductor.TreeDrained, conductor.TreeReleased:
		l.source.ended(e.Lane)
	case conductor.TreeDeadlocked:
		l.deadlocked = l.deadlocked || l.stopOnDeadlock
	}
}

// recorded returns an event with the instants of records.
func (l *loop) recorded(e conductor.Event) conductor.Event {
	e.At += l.recordsFrom
	if e.Deadlock != nil {
		d := *e.Deadlock
		d.Last.At += l.recordsFrom
		e.Deadlock = &d
	}
	return e
}

// minFailedFrom is how many requests, or one on each lane where that is more, must have ended before failures can end a phase.
const minFailedFrom = 10

// tooManyFailed returns the error of a phase in which too many requests fail. Cancelled requests, and without ofRecords overflows,
// count neither as failed nor as ended.
func (l *loop) tooManyFailed() error {
	failed, ended := l.progress.Errors, l.progress.Errors+l.progress.Completed
	if l.ofRecords {
		ended += l.progress.Overflows
	}
	if l.maxFailed <= 0 || ended < l.failedFrom || float64(failed) <= l.maxFailed*float64(ended) || l.deadlines.stopped {
		return nil
	}
	return fmt.Errorf("replay: stopped: %d of %d requests failed, a share above %g", failed, ended, l.maxFailed)
}

// minGone is how many requests in a row must fail without a connection before that ends a phase.
const minGone = 5

// gone returns the error of a phase whose servers take no connection any more, or none yet: of the last requests that ended, over the time that
// goneAfter is, all failed without one, and none is in flight, which another server may answer. Next is the one that has ended now.
func (l *loop) gone(next *measure.Record) error {
	if next.Error == nil || next.Error.Category != wire.Connection || next.FirstByte > 0 {
		l.unheard = 0
		return nil
	}
	if l.unheard++; l.unheard == 1 {
		l.unheardSince = next.Admitted
	}
	if l.goneAfter <= 0 || l.unheard < minGone || time.Duration(next.End-l.unheardSince) < l.goneAfter || len(l.inFlight) > 0 || l.deadlines.stopped {
		return nil
	}
	return fmt.Errorf("replay: stopped: for %v no server accepted a connection: %d requests in a row failed, the last: %s", l.goneAfter, l.unheard, next.Error.Message)
}

// count counts a request that is over.
func (l *loop) count(outcome conductor.Outcome) {
	switch outcome {
	case conductor.OK:
		l.progress.Completed++
	case conductor.Failed:
		l.progress.Errors++
	case conductor.Overflow:
		l.progress.Overflows++
	case conductor.Cancelled:
		l.progress.Cancelled++
	}
}

// outcomeOf returns the outcome of a request for its session.
func outcomeOf(f *wire.Failure) conductor.Outcome {
	switch {
	case f == nil:
		return conductor.OK
	case f.Category == wire.ContextOverflow:
		return conductor.Overflow
	case f.Category == wire.Cancelled:
		return conductor.Cancelled
	}
	return conductor.Failed
}

// progressInterval is how often progress is reported.
const progressInterval = time.Second

// nextWake returns the next instant at which something is due without an event.
func (l *loop) nextWake(now time.Duration) time.Duration {
	wake := min(now+progressInterval, l.deadlines.next(), l.periods.due())
	if at, ok := l.conductor.NextWake(); ok {
		wake = min(wake, at)
	}
	return wake
}

// reportProgress reports how far the phase has come, once a second.
func (l *loop) reportProgress(now time.Duration) {
	if now < l.progress.Elapsed+progressInterval {
		return
	}
	l.heard = l.transport.look(now)
	l.progress = l.progressAt(now)
	l.report(l.progress)
}

// progressAt returns how far the phase has come.
func (l *loop) progressAt(now time.Duration) Progress {
	p, n := l.progress, l.conductor.Counts()
	p.Elapsed, p.Requests, p.InFlight = now, n.Sent, n.InFlight
	p.TreesOpened, p.TreesDrained = n.TreesOpened, n.TreesDrained
	p.TreesOpen, p.TreesWaiting = n.TreesOpen, n.TreesWaiting
	p.Silent = 0
	if n.InFlight > 0 {
		p.Silent = now - max(l.busySince, l.heard)
	}
	return p
}
