package replay

import (
	"time"

	"github.com/agentx/agentx/replay/conductor"
	"github.com/agentx/agentx/replay/measure"
)

// backlog keeps how many trees wait to be opened, plus requests in flight, over the time of a phase in which trees arrive. Its
// memory is bounded: it adds up over steps of time, which become twice as long when there are too many.
type backlog struct {
	step        time.Duration // length of each
	sums        []float64     // by step: the number times seconds
	at          time.Duration // up to which they are added up
	now         int           // the number since then
	arrived     int
	first, last time.Duration // of the arrivals
	mostOpen    int
	mostWaiting int
}

const (
	firstBacklogStep = time.Millisecond
	maxBacklogSteps  = 4096
)

// set notes the numbers at an instant, which is not before the last.
func (b *backlog) set(at time.Duration, n conductor.Counts) {
	b.advance(at)
	b.now = n.TreesWaiting + n.InFlight
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
	return &measure.ArrivalFacts{
		Arrived: n.TreesArrived, Opened: n.TreesOpened, Skipped: n.TreesSkipped, Waiting: n.TreesWaiting + n.TreesAbandoned,
		MostOpen: b.mostOpen, MostWaiting: b.mostWaiting, Backlog: b.quarters(),
	}
}

// advance adds up to an instant.
func (b *backlog) advance(to time.Duration) {
	if b.step == 0 {
		b.step = firstBacklogStep
	}
	for to >= maxBacklogSteps*b.step {
		b.widen()
	}
	for b.at < to {
		k := int(b.at / b.step)
		end := min(to, time.Duration(k+1)*b.step)
		for k >= len(b.sums) {
			b.sums = append(b.sums, 0)
		}
		b.sums[k] += float64(b.now) * (end - b.at).Seconds()
		b.at = end
	}
}

// widen makes the steps twice as long.
func (b *backlog) widen() {
	b.step *= 2
	for k := range (len(b.sums) + 1) / 2 {
		sum := b.sums[2*k]
		if 2*k+1 < len(b.sums) {
			sum += b.sums[2*k+1]
		}
		b.sums[k] = sum
	}
	b.sums = b.sums[:(len(b.sums)+1)/2]
}

// upTo returns the sum up to an instant. Within a step the number counts as constant.
func (b *backlog) upTo(at time.Duration) (sum float64) {
	for k, x := range b.sums {
		begin := time.Duration(k) * b.step
		if end := begin + b.step; at < end {
			return sum + x*float64(max(0, at-begin))/float64(min(end, b.at)-begin)
		}
		sum += x
	}
	return sum
}

// quarters returns the means over the four quarters of the time from the first to the last arrival; nil: that is one instant.
func (b *backlog) quarters() (means []float64) {
	span := b.last - b.first
	if span < 4 {
		return nil
	}
	from := b.upTo(b.first)
	for k := range time.Duration(4) {
		to := b.upTo(b.first + span*(k+1)/4)
		means = append(means, (to-from)/(span.Seconds()/4))
		from = to
	}
	return means
}
