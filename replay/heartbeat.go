package replay

import (
	"sync/atomic"
	"time"

	"github.com/agentx/agentx/replay/measure"
)

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
