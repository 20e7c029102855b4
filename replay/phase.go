package replay

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/agentx/agentx/replay/conductor"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/wire"
)

// phase is one phase of a run: the conductor, the clock that tells it the time, and what ends it. Everything in it happens
// in one goroutine. Whether time is real or virtual is the clock's business.
type phase struct {
	conductor *conductor.Conductor
	clock     clock
	stage     stage
	end       endings
	cutoff    measure.Cutoff
	flying    map[int]conductor.Dispatch // by request
	backOff   backOff
	errorRate float64 // share of failed requests above which the phase ends; 0: none
	progress  Progress
	report    func(Progress) // may be nil; must not wait
	failed    error          // what ended the phase, if not its bounds
	ended     bool           // the stage wants no more

	unwritable bool // a record could not be written, which ends the phase
}

// clock is the time since the start of the phase, and what comes in as it passes.
type clock interface {
	now() time.Duration
	// await returns the next event, or none when the given instant has come, or before.
	await(until time.Duration) (e event, ok bool)
}

// stage is what surrounds a phase: transport and results.
type stage interface {
	launch(conductor.Dispatch)       // puts a turn on the wire; its outcome comes in as an event
	abort()                          // cancels what is in flight
	lost(conductor.Dispatch) outcome // of a request of which nothing was heard after that
	book(*outcome) error             // takes what is over into the results
	happened(conductor.Event)        // is told of all that the conductor does

	waits(running int, most time.Duration) // is told what an interrupt waits for
}

// event is something that comes in.
type event struct {
	outcome   *outcome // a request is over
	token     bool     // the answer to request id has begun
	id        int
	interrupt bool
}

// outcome is a request that is over.
type outcome struct {
	send   conductor.Dispatch
	record measure.Record
	end    time.Duration
	broken error // the cache cannot be read: no request can be made any more
}

// realClock is a clock whose events come from a channel.
type realClock struct {
	epoch       time.Time
	alarm       alarm
	events      <-chan event
	interrupted <-chan struct{}
}

func (c *realClock) now() time.Duration { return time.Since(c.epoch) }

func (c *realClock) await(until time.Duration) (event, bool) {
	select { // no alarm for what is there already
	case e := <-c.events:
		return e, true
	case <-c.interrupted:
		c.interrupted = nil
		return event{interrupt: true}, true
	default:
	}
	wait := until - c.now()
	if wait <= 0 {
		return event{}, false
	}
	c.alarm.set(wait)
	select {
	case e := <-c.events:
		return e, true
	case <-c.alarm.rings():
		return event{}, false
	case <-c.interrupted:
		c.interrupted = nil
		return event{interrupt: true}, true
	}
}

func newPhase(o Options, source conductor.Source, clock clock, stage stage) *phase {
	p := &phase{clock: clock, stage: stage, flying: map[int]conductor.Dispatch{}, report: o.Progress}
	p.end = endings{duration: o.Duration, grace: o.Grace}
	p.backOff, p.errorRate = backOff{o.Backoff, map[int]pause{}}, o.MaxErrorRate
	p.cutoff.Deadline = o.Duration
	limits := conductor.Limits{
		Requests: o.Requests, Trees: o.Trees, Prefill: o.Limits.Prefill,
		TreeIdle: o.Limits.TreeIdle, SystemIdle: o.Limits.SystemIdle,
	}
	p.conductor = conductor.New(o.Concurrency, source, limits, func(s conductor.Dispatch) error {
		p.flying[s.ID] = s
		stage.launch(s)
		return nil
	}, stage.happened)
	return p
}

// play ends when nothing is in flight and nothing will be. The error is what ended the phase before its time. A phase
// whose end has come before it begins sends nothing.
func (p *phase) play() error {
	if e, ok := p.clock.await(0); ok {
		p.take(e, p.clock.now())
	}
	p.expire(p.clock.now())
	p.fail(p.conductor.Start(p.clock.now()))
	for {
		now := p.clock.now()
		p.advance(now)
		if p.conductor.Done() {
			return p.failed
		}
		if e, ok := p.clock.await(p.wake(now)); ok {
			p.take(e, p.clock.now())
		}
	}
}

// fail ends the phase because of an error.
func (p *phase) fail(err error) {
	if err != nil && p.failed == nil {
		p.failed = err
		p.interrupt(p.clock.now())
	}
}

// advance does what has become due.
func (p *phase) advance(now time.Duration) {
	p.expire(now)
	p.conductor.Wake(now)
	if p.end.cancelDue(now) {
		p.stage.abort()
	}
	if p.end.forceDue(now) {
		p.force(now)
	}
	p.show(now)
}

// expire ends the sending when its time is up. It comes before all that could send.
func (p *phase) expire(now time.Duration) {
	if p.end.check(now) {
		p.conductor.Stop(now)
	}
	if p.ended && !p.end.stopped {
		p.interrupt(now)
	}
}

// interrupt ends the sending as a deadline at this instant would.
func (p *phase) interrupt(now time.Duration) {
	if !p.end.stopped {
		p.cutoff.Deadline = now
	}
	p.end.interrupt(now)
	p.conductor.Stop(now)
}

// force gives up the requests that were cancelled and have not returned.
func (p *phase) force(now time.Duration) {
	for _, id := range slices.Sorted(maps.Keys(p.flying)) {
		o := p.stage.lost(p.flying[id])
		p.over(&o, now)
	}
}

// take takes in an event.
func (p *phase) take(e event, now time.Duration) {
	switch {
	case e.interrupt:
		p.interrupt(now)
		if len(p.flying) > 0 {
			p.stage.waits(len(p.flying), max(0, p.end.cancelAt-now))
		}
	case e.token:
		p.expire(now)
		p.conductor.FirstToken(e.id, now)
	default:
		p.over(e.outcome, now)
	}
}

// over books a request that is over, and tells the conductor.
func (p *phase) over(o *outcome, now time.Duration) {
	if _, ok := p.flying[o.send.ID]; !ok {
		return // given up before
	}
	delete(p.flying, o.send.ID)
	became := became(o.record.Error)
	p.count(became)
	var category wire.Category
	if o.record.Error != nil {
		category = o.record.Error.Category
	}
	o.record.Bucket = p.cutoff.Bucket(o.end, category)
	if pause := p.backOff.after(o.send.Lane, o.record.Error, o.record.Status, o.end); pause > 0 && !p.conductor.Stopped() {
		o.record.BackOff = pause.Seconds()
		p.conductor.Hold(o.send.Lane, o.end+pause)
	}
	p.expire(now)
	if p.stage.book(o) != nil && !p.unwritable { // closing the results says why
		p.unwritable = true
		p.interrupt(now)
	}
	p.fail(o.broken)
	p.fail(p.tooManyErrors()) // before another is sent
	p.fail(p.conductor.Returned(o.send.ID, o.end, now, became))
}

// count counts what became of a request.
func (p *phase) count(became conductor.Outcome) {
	switch became {
	case conductor.OK:
		p.progress.Completed++
	case conductor.Failed:
		p.progress.Errors++
	case conductor.Overflow:
		p.progress.Overflows++
	case conductor.Cancelled:
		p.progress.Cancelled++
	}
}

// errorsFrom is how many requests must have ended before their share of errors ends a phase.
const errorsFrom = 20

// tooManyErrors is the error that ends a phase in which too many requests fail. Overflows and what was cancelled count as
// neither failed nor well.
func (p *phase) tooManyErrors() error {
	failed, ended := p.progress.Errors, p.progress.Errors+p.progress.Completed
	if p.errorRate <= 0 || ended < errorsFrom || float64(failed) <= p.errorRate*float64(ended) || p.end.stopped {
		return nil
	}
	return fmt.Errorf("replay: stopped: %d of %d requests failed, a share above %g", failed, ended, p.errorRate)
}

// became is what an error means for its session.
func became(e *measure.Error) conductor.Outcome {
	switch {
	case e == nil:
		return conductor.OK
	case e.Category == wire.ContextOverflow:
		return conductor.Overflow
	case e.Category == wire.Cancelled:
		return conductor.Cancelled
	}
	return conductor.Failed
}

// wake returns the instant until which there is nothing to do but wait for events.
func (p *phase) wake(now time.Duration) time.Duration {
	wake := now + progressEvery
	if at, ok := p.conductor.NextWake(); ok {
		wake = min(wake, at)
	}
	return min(wake, p.end.next())
}

// show calls for progress about every second.
func (p *phase) show(now time.Duration) {
	if p.report == nil || now < p.progress.Elapsed+progressEvery {
		return
	}
	n := p.conductor.Counts()
	p.progress.Elapsed, p.progress.Requests, p.progress.InFlight = now, n.Sent, n.InFlight
	p.progress.TreesOpened, p.progress.TreesDrained = n.TreesOpened, n.TreesDrained
	p.report(p.progress)
}

// endings knows when a phase ends: when its time is up nothing is sent any more; when its grace is over what is still in
// flight is cancelled; when that has not returned after the drain it is given up. Section 4.9 of the specification of the
// replay.
type endings struct {
	duration, grace time.Duration
	stopped         bool
	cancelAt        time.Duration // when running requests are cancelled; 0: never, or done
	forceAt         time.Duration // when those that have not returned are given up; 0: never, or done
}

// check reports whether the bound of time has just been reached.
func (e *endings) check(now time.Duration) bool {
	if e.stopped || e.duration == 0 || now < e.duration {
		return false
	}
	e.stopped = true
	e.cancelAt = e.duration + max(e.grace, 1)
	return true
}

// interrupt ends the phase now, with a grace of its own.
func (e *endings) interrupt(now time.Duration) {
	grace := min(e.grace, maxInterruptGrace)
	switch {
	case !e.stopped:
		e.cancelAt = now + max(grace, 1)
	case e.cancelAt > 0:
		e.cancelAt = min(e.cancelAt, now+grace)
	}
	e.stopped = true
}

// cancelDue reports whether what is in flight is to be cancelled now.
func (e *endings) cancelDue(now time.Duration) bool {
	if e.cancelAt == 0 || now < e.cancelAt {
		return false
	}
	e.cancelAt, e.forceAt = 0, now+cancelDrain
	return true
}

// forceDue reports whether what was cancelled is to be given up now.
func (e *endings) forceDue(now time.Duration) bool {
	if e.forceAt == 0 || now < e.forceAt {
		return false
	}
	e.forceAt = 0
	return true
}

// next returns the earliest of these instants that is to come.
func (e *endings) next() time.Duration {
	next := time.Duration(1<<63 - 1)
	if !e.stopped && e.duration > 0 {
		next = e.duration
	}
	for _, at := range []time.Duration{e.cancelAt, e.forceAt} {
		if at > 0 {
			next = min(next, at)
		}
	}
	return next
}
