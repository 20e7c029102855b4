package replay

import (
	"math"
	"time"
)

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
