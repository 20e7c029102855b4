package replay

import (
	"maps"
	"slices"
	"time"

	"github.com/agentx/agentx/replay/conductor"
	"github.com/agentx/agentx/replay/wire"
)

// RetryAfter says what becomes of a throttled request: one whose answer has status 429 or 503 and names a time in Retry-After
// (doc/spec/replay.md 9.4).
type RetryAfter uint8

// The ways. With RetryWait and RetryRecord the lane of the request sends nothing before that time.
const (
	RetryDefault RetryAfter = iota // RetryWait where every trace is played once, else RetryRecord; RetryIgnored under other presets than the default
	RetryWait                      // its turn is sent again
	RetryRecord                    // it has failed
	RetryIgnored                   // it has failed, and nothing waits
)

const (
	maxRetryAfter = time.Minute      // longest time that a lane waits for one answer
	maxThrottled  = 30 * time.Minute // longest time that a turn waits in all
)

// Throttling returns what the field RetryAfter means for a run of these options, which have the value of their preset.
func (o *Options) Throttling() RetryAfter {
	switch {
	case o.RetryAfter != RetryDefault:
		return o.RetryAfter
	case o.once():
		return RetryWait
	}
	return RetryRecord
}

// throttle keeps what servers have asked of a phase.
type throttle struct {
	RetryAfter
	until   map[int]time.Duration // by lane: it sends nothing before
	waiting map[int]*request      // by id: throttled, to be sent again
}

// throttled holds the lane of a request that its server did not take, as long as the server asks for. It reports whether the turn is sent
// again: then the request has no record yet. After the end of the sending it does nothing.
func (l *loop) throttled(r *request, a *answer, now time.Duration) (again bool) {
	t := &l.throttle
	if a.RetryAfter <= 0 || t.RetryAfter != RetryWait && t.RetryAfter != RetryRecord || outcomeOf(a.Err) != conductor.Failed {
		return false
	}
	l.expire(now)
	if l.deadlines.stopped || l.conductor.Stopped() {
		return false
	}
	lane, pause := r.dispatch.Lane, min(a.RetryAfter, maxRetryAfter)
	until := a.End + pause
	if end := l.deadlines.duration; end > 0 {
		pause = min(pause, end-a.End)
	}
	r.throttled++
	again = t.RetryAfter == RetryWait && r.waited+pause <= maxThrottled
	if !again { // what others have made the lane wait for counts once
		pause = max(0, pause-max(0, t.until[lane]-a.End))
	}
	r.waited += pause
	r.waitsUntil = a.End + pause
	t.until[lane] = max(t.until[lane], until)
	l.conductor.Hold(lane, until)
	return again
}

// sendAgain lets a throttled request wait until its turn is sent again.
func (l *loop) sendAgain(r *request, a *answer, now time.Duration) {
	r.answer = a
	l.throttle.waiting[r.dispatch.ID] = r
	l.fail(l.conductor.Returned(r.dispatch.ID, a.End, now, conductor.Throttled))
}

// endWaits records the throttled requests whose turns are not sent again, because the phase has ended: they have failed.
func (l *loop) endWaits(now time.Duration) {
	for _, id := range slices.Sorted(maps.Keys(l.throttle.waiting)) {
		r := l.throttle.waiting[id]
		delete(l.throttle.waiting, id)
		r.waited -= max(0, r.waitsUntil-now)
		l.finish(r, r.answer, now)
	}
}

// Backoff bounds the pauses of a lane after requests that got no connection, for a limit of this machine too, or whose connection broke before any byte of
// an answer. The first pause is First; each further one in a row is twice as long, up to Max.
type Backoff struct {
	First time.Duration // at most Max
	Max   time.Duration // Off: no pauses
}

// backoff keeps the pauses of lanes.
type backoff struct {
	Backoff
	lanes map[int]pause // by lane: the latest of its pauses in a row
}

type pause struct{ length, until time.Duration }

// after returns the pause of a lane after a request; 0 is none. Requests that were in flight when the lane's pause began
// fail for the same reason and do not lengthen it.
func (b *backoff) after(lane int, a *answer) time.Duration {
	last, paused := b.lanes[lane]
	switch category := a.category(); {
	case category == wire.Cancelled:
		return 0
	case category != wire.Connection && !a.Limited || a.Status != 0:
		delete(b.lanes, lane)
		return 0
	case b.First <= 0 || paused && a.End < last.until:
		return 0
	}
	p := pause{length: b.First}
	if paused {
		p.length = 2 * last.length
	}
	p.length = min(p.length, max(b.Max, b.First))
	p.until = a.End + p.length
	b.lanes[lane] = p
	return p.length
}
