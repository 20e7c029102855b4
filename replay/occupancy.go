package replay

import (
	"cmp"
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

// backlog keeps how many trees wait to be opened, plus requests in flight, over the time of a phase in which trees arrive, and how
// many requests are sent. Its memory is bounded: it adds up over steps of time, which become twice as long when there are too many.
type backlog struct {
	step        time.Duration // length of each
	sums        []backlogSum  // by step
	at          time.Duration // up to which they are added up
	now         int           // the backlog since then
	sent        int           // requests
	arrived     int
	first, last time.Duration // of the arrivals
	mostOpen    int
	mostWaiting int
}

// backlogSum is what a step of time adds up to.
type backlogSum struct {
	waited float64 // the backlog times seconds
	sent   float64 // requests
}

// plus adds a share of another sum.
func (a backlogSum) plus(b backlogSum, share float64) backlogSum {
	return backlogSum{a.waited + share*b.waited, a.sent + share*b.sent}
}

const (
	firstBacklogStep = time.Millisecond
	maxBacklogSteps  = 4096
)

// set notes the numbers at an instant, which is not before the last.
func (b *backlog) set(at time.Duration, n conductor.Counts) {
	b.advance(at)
	b.now = n.TreesWaiting + n.InFlight
	if n.Sent > b.sent {
		b.stepOf(at).sent += float64(n.Sent - b.sent)
		b.sent = n.Sent
	}
	b.mostOpen, b.mostWaiting = max(b.mostOpen, n.TreesOpen), max(b.mostWaiting, n.TreesWaiting)
	if n.TreesArrived > b.arrived {
		if b.arrived == 0 {
			b.first = at
		}
		b.arrived, b.last = n.TreesArrived, at
	}
}

// facts returns what is known of the arrivals at the end of a phase; nil: there are none.
func (b *backlog) facts(n conductor.Counts) *measure.ArrivalFacts {
	if b == nil {
		return nil
	}
	waiting, sent := b.quarters()
	return &measure.ArrivalFacts{
		Arrived: n.TreesArrived, Opened: n.TreesOpened, Skipped: n.TreesSkipped, Waiting: n.TreesWaiting + n.TreesAbandoned,
		MostOpen: b.mostOpen, MostWaiting: b.mostWaiting, Backlog: waiting, SentRate: sent,
	}
}

// advance adds up to an instant.
func (b *backlog) advance(to time.Duration) {
	b.step = cmp.Or(b.step, firstBacklogStep)
	for to >= maxBacklogSteps*b.step {
		b.widen()
	}
	for b.at < to {
		end := min(to, (b.at/b.step+1)*b.step)
		b.stepOf(b.at).waited += float64(b.now) * (end - b.at).Seconds()
		b.at = end
	}
}

// stepOf returns the sum of the step that has an instant.
func (b *backlog) stepOf(at time.Duration) *backlogSum {
	k := int(at / b.step)
	for k >= len(b.sums) {
		b.sums = append(b.sums, backlogSum{})
	}
	return &b.sums[k]
}

// widen makes the steps twice as long.
func (b *backlog) widen() {
	b.step *= 2
	for k := range (len(b.sums) + 1) / 2 {
		sum := b.sums[2*k]
		if 2*k+1 < len(b.sums) {
			sum = sum.plus(b.sums[2*k+1], 1)
		}
		b.sums[k] = sum
	}
	b.sums = b.sums[:(len(b.sums)+1)/2]
}

// upTo returns the sum up to an instant. What a step adds up to counts as spread evenly over it.
func (b *backlog) upTo(at time.Duration) (sum backlogSum) {
	for k, x := range b.sums {
		begin := time.Duration(k) * b.step
		if at <= begin {
			break
		}
		share := 1.
		if end := begin + b.step; at < end {
			share = float64(at-begin) / float64(min(end, b.at)-begin)
		}
		sum = sum.plus(x, share)
	}
	return sum
}

// quarters returns the mean backlog, and the requests sent per second, over the four quarters of the time from the first to the last
// arrival; nil: that is one instant.
func (b *backlog) quarters() (waiting, sent measure.Quarters) {
	span := b.last - b.first
	if span < 4 {
		return nil, nil
	}
	from, seconds := b.upTo(b.first), span.Seconds()/4
	for k := range time.Duration(4) {
		to := b.upTo(b.first + span*(k+1)/4)
		waiting, sent = append(waiting, (to.waited-from.waited)/seconds), append(sent, (to.sent-from.sent)/seconds)
		from = to
	}
	return waiting, sent
}
