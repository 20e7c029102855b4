package replay

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/agentx/agentx/replay/measure"
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

// wakeTimer fires when a time has passed. It may fire early or twice if it was set again meanwhile, so the receiver looks
// at the clock.
type wakeTimer interface {
	set(d time.Duration)
	C() <-chan time.Time
	close()
}

// runtimeTimer is a wakeTimer of the runtime. It may fire a millisecond late, which is the resolution of an idle
// runtime's sleep.
type runtimeTimer struct{ *time.Timer }

func newRuntimeTimer() wakeTimer { return runtimeTimer{time.NewTimer(time.Hour)} }

func (t runtimeTimer) set(d time.Duration) { t.Reset(d) }
func (t runtimeTimer) C() <-chan time.Time { return t.Timer.C }
func (t runtimeTimer) close()              { t.Stop() }

// beatInterval is how often a heartbeat beats: a standstill is known to as much. 500 beats a second take about 0.3 % of a core.
const beatInterval = 2 * time.Millisecond

// heartbeat notes when this process stood still while a phase was played. It beats beside the loop, not in it: a loop that waits for a
// disk sends late, which lateness says, but receives in time.
type heartbeat struct {
	due         time.Duration // of the next beat, on the clock of the records
	inFlight    int           // requests, at the last beat
	standstills measure.Standstills
	told        *atomic.Pointer[measure.Standstills] // is told what was noted, without the list

	stop, stopped chan struct{}
}

// startHeartbeat starts the heartbeat of a phase whose records count from an instant. inFlight tells how many requests are in flight.
func startHeartbeat(epoch time.Time, inFlight func() int, told *atomic.Pointer[measure.Standstills]) *heartbeat {
	h := &heartbeat{stop: make(chan struct{}), stopped: make(chan struct{}), told: told}
	h.due = time.Since(epoch) + beatInterval
	ticker := time.NewTicker(beatInterval)
	go func() {
		defer close(h.stopped)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				h.beat(time.Since(epoch), inFlight())
			case <-h.stop:
				return
			}
		}
	}()
	return h
}

// beat notes a standstill if the beat comes too late. Nothing was sent in it, so the requests in flight were those of the last beat.
func (h *heartbeat) beat(now time.Duration, inFlight int) {
	if late := now - h.due; late > measure.StandstillFrom {
		h.standstills.Add(measure.Standstill{At: h.due.Seconds(), Seconds: late.Seconds(), InFlight: h.inFlight})
		h.told.Store(h.standstills.Summary())
	}
	h.due, h.inFlight = now+beatInterval, inFlight
}

// end ends the heartbeat and returns what it has noted; nil: nothing.
func (h *heartbeat) end() *measure.Standstills {
	if h == nil {
		return nil
	}
	close(h.stop)
	<-h.stopped
	if h.standstills.N == 0 {
		return nil
	}
	h.standstills.Cut()
	return &h.standstills
}
