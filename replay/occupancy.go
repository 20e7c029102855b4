package replay

import (
	"time"

	"github.com/agentx/agentx/replay/conductor"
	"github.com/agentx/agentx/replay/measure"
)

// occupancy adds up how many lanes played a tree, how many had a request in flight, and how many requests were in flight, over
// the time of a phase. It learns that from the events of the conductor, and keeps no event.
type occupancy struct {
	last     time.Duration // of the events so far
	inFlight []int         // requests, by lane
	now      occupied
	most     int        // requests in flight at a time
	sum      [3]float64 // of now over the time up to last: number times seconds
	upToSend [3]float64 // sum at the last send
	sentAt   time.Duration
}

// occupied counts what is busy at an instant.
type occupied struct{ playing, lanes, requests int }

func newOccupancy(lanes int) occupancy { return occupancy{inFlight: make([]int, lanes)} }

// onEvent notes an event of the conductor.
func (o *occupancy) onEvent(e conductor.Event) {
	switch e.Kind {
	case conductor.TreeOpened, conductor.TreeDrained, conductor.TreeReleased, conductor.TurnSent, conductor.TurnReturned:
	default:
		return
	}
	for e.Lane >= len(o.inFlight) { // where trees arrive, lanes are as many as were open at a time
		o.inFlight = append(o.inFlight, 0)
	}
	at := max(e.At, o.last) // a request may have returned before the loop learns it
	for k, n := range []int{o.now.playing, o.now.lanes, o.now.requests} {
		o.sum[k] += float64(n) * (at - o.last).Seconds()
	}
	o.last = at
	switch e.Kind {
	case conductor.TreeOpened:
		o.now.playing++
	case conductor.TreeDrained, conductor.TreeReleased:
		o.now.playing--
	case conductor.TurnSent:
		o.upToSend, o.sentAt = o.sum, at
		if o.inFlight[e.Lane]++; o.inFlight[e.Lane] == 1 {
			o.now.lanes++
		}
		o.now.requests++
		o.most = max(o.most, o.now.requests)
	case conductor.TurnReturned:
		if o.inFlight[e.Lane]--; o.inFlight[e.Lane] == 0 {
			o.now.lanes--
		}
		o.now.requests--
	}
}

// load returns the means up to the last send; Missing where all was sent at one instant.
func (o *occupancy) load() *measure.Load {
	mean := func(k int) measure.Number {
		if o.sentAt <= 0 {
			return measure.Missing
		}
		return measure.Number(o.upToSend[k] / o.sentAt.Seconds())
	}
	return &measure.Load{Seconds: o.sentAt.Seconds(), Playing: mean(0), InFlight: mean(1), Requests: mean(2), MaxRequests: o.most}
}
