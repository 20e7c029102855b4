package replay

import (
	"math"
	"time"
)

// clock tells the time since the start of the phase and delivers events.
type clock interface {
	now() time.Duration
	// await returns the next event. ok is false if there is none until the given instant; it may also be false earlier.
	await(until time.Duration) (e event, ok bool)
}

// realClock is the clock of a run.
type realClock struct {
	epoch       time.Time // start of the phase
	timer       wakeTimer
	events      <-chan event
	ending      <-chan struct{}
	interrupted <-chan struct{} // nil once the event was delivered
}

func (c *realClock) now() time.Duration { return time.Since(c.epoch) }

func (c *realClock) await(until time.Duration) (event, bool) {
	select { // a queued event needs no timer
	case e := <-c.events:
		return e, true
	case <-c.ending:
		return event{kind: ending}, true
	case <-c.interrupted:
		return c.interrupt(), true
	default:
	}
	wait := until - c.now()
	if wait <= 0 {
		return event{}, false
	}
	c.timer.set(wait)
	select {
	case e := <-c.events:
		return e, true
	case <-c.timer.C():
		return event{}, false
	case <-c.ending:
		return event{kind: ending}, true
	case <-c.interrupted:
		return c.interrupt(), true
	}
}

// interrupt returns the event of an interrupt, which comes once.
func (c *realClock) interrupt() event {
	c.interrupted = nil
	return event{kind: interrupted}
}

// periods tell when a time of Options.StatsInterval is over in a phase; nil: never. doc/spec/replay.md 8.10.
type periods struct {
	every time.Duration
	next  time.Duration
	tell  func(Progress) // must not wait
}

func newPeriods(o Options) *periods {
	if o.StatsInterval <= 0 {
		return nil
	}
	return &periods{o.StatsInterval, o.StatsInterval, o.Period}
}

// due returns when the period ends.
func (p *periods) due() time.Duration {
	if p == nil {
		return math.MaxInt64
	}
	return p.next
}

// end tells of a period that is over.
func (p *periods) end(now Progress) {
	if now.Elapsed < p.due() {
		return
	}
	p.tell(now)
	for p.next <= now.Elapsed {
		p.next += p.every
	}
}
