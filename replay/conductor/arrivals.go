package conductor

import (
	"errors"
	"fmt"
	"time"
)

// Trees open in one of two ways. In a closed loop every lane takes a tree at the start, or one after another along a ramp, and
// the next when that one is over. With OpenBy trees open when they arrive, whatever the lanes do.

// Arrivals says when trees arrive.
type Arrivals interface {
	// Next returns the instant of the next arrival, false when there is none. Instants do not go back.
	Next() (at time.Duration, ok bool)
}

// ErrTooManyWaiting is the error of a phase in which more than maxWaiting trees have arrived and wait for a lane.
var ErrTooManyWaiting = errors.New("too many trees have arrived and wait for a lane: let fewer arrive, or give them more lanes")

const maxWaiting = 1 << 24

// OpenBy makes trees open when they arrive, not when a lane takes its next tree. The number of lanes is the most trees that are
// open at a time. Call it before Start.
//
// A tree that arrives takes the lowest free lane. If there is none it waits, and the trees that wait take the lanes that become
// free in the order in which they arrived. Source.Next is asked when a tree takes its lane. When it returns false, trees arrive
// no more, and those that wait are abandoned. When it returns no tree, the arrival is skipped: its lane stays free.
//
// The first turn of a tree is due when the tree arrives: no wait for a lane, no answer and no hold moves that. Lanes do not
// finish: the next tree may be played where this one was refused.
//
// OpenBy panics on limits that would move arrivals or end lanes, SystemIdle and LaneRequests, and beside Ramp.
func (c *Conductor) OpenBy(a Arrivals) {
	switch {
	case c.limits.SystemIdle > 0:
		panic(fmt.Sprintf("conductor: a limit of system idle time, %v, would move arrivals", c.limits.SystemIdle))
	case c.limits.LaneRequests > 0:
		panic(fmt.Sprintf("conductor: a limit of requests of a lane, %d, would end lanes that arrivals need", c.limits.LaneRequests))
	case c.openings.ramp > 0 || c.maxLanes == 0:
		panic(fmt.Sprintf("conductor: arrivals on %d lanes with a ramp of %v: want a lane and no ramp", c.maxLanes, c.openings.ramp))
	}
	c.openings.source, c.openings.arriving, c.openings.max = a, true, maxWaiting
	c.openings.free = heap[int]{less: func(a, b int) bool { return a < b }, work: &c.work.entries}
	c.lanes, c.heldUntil, c.requests = nil, nil, nil // they grow with the lanes in use
}

// Ramp makes the lanes begin one after another: lane k of N takes its first tree at k*d/N. Call it before Start. Ramp panics
// beside OpenBy, and on a negative time.
func (c *Conductor) Ramp(d time.Duration) {
	if c.openings.arriving || d < 0 {
		panic(fmt.Sprintf("conductor: a ramp of %v, arrivals: %v: want a ramp of 0 or more and no arrivals", d, c.openings.arriving))
	}
	c.openings.ramp = d
}

// RampPart is Ramp for lanes that are every step-th, from the lane first on, of a load of more lanes: the k-th of all N lanes takes its
// first tree at k*d/N. RampPart panics where that are no lanes, or not those of the conductor.
func (c *Conductor) RampPart(d time.Duration, first, step, all int) {
	if step < 1 || first < 0 || (all-first+step-1)/step != c.maxLanes {
		panic(fmt.Sprintf("conductor: a ramp of lanes %d, %d, ... of %d: want %d lanes", first, first+step, all, c.maxLanes))
	}
	c.Ramp(d)
	c.openings.of = ramp{lane: first, step: step, lanes: all}
}

// Err returns what ended the phase from inside: ErrTooManyWaiting, with the numbers.
func (c *Conductor) Err() error { return c.openings.err }

// openings are the trees that open at an instant of their own: those that arrive, or the first of each lane. An opening is one
// more timer. No clock moves it.
type openings struct {
	source   Arrivals      // of the instants
	at       time.Duration // of the next
	more     bool          // there is a next
	arriving bool          // by OpenBy
	err      error

	ramp time.Duration // without arrivals
	of   ramp          // without arrivals: the lanes of RampPart; zero: all
	lane int           // that the next opening is of

	// With arrivals:
	free      heap[int]       // lanes that have been in use and are not
	freeSince []time.Duration // by lane in use: when its last tree ended
	waiting   fifo            // instants of the trees that have arrived and have no lane
	max       int             // of them
}

// begin prepares the first opening.
func (o *openings) begin(lanes int) {
	if !o.arriving {
		r := ramp{step: 1, lanes: lanes}
		if o.of.step > 0 {
			r = o.of
		}
		r.length = o.ramp
		o.source = &r
	}
	o.advance()
}

// advance prepares the next opening.
func (o *openings) advance() {
	last := o.at
	o.at, o.more = o.source.Next()
	if o.more && o.at < last {
		panic(fmt.Sprintf("conductor: an arrival at %v after one at %v", o.at, last))
	}
}

// ramp are the instants at which lanes take their first trees.
type ramp struct {
	lane, step int // the next, and from it to the one after
	lanes      int
	length     time.Duration
}

// Next returns when the next lane takes its first tree.
func (r *ramp) Next() (time.Duration, bool) {
	k, n := time.Duration(r.lane), time.Duration(r.lanes)
	r.lane += r.step
	if k >= n {
		return 0, false
	}
	return k*(r.length/n) + k*(r.length%n)/n, true // k*length/n without overflow
}

// nextOpening returns the instant of the next opening, false when there is none to come.
func (c *Conductor) nextOpening() (at time.Duration, ok bool) {
	return c.openings.at, c.openings.more && c.mayOpen()
}

// mayOpen reports whether the next opening may be done.
func (c *Conductor) mayOpen() bool {
	full := c.openings.arriving && c.limits.Trees > 0 && c.counts.TreesOpened+c.counts.TreesWaiting >= c.limits.Trees
	return !full && !c.stopped && !c.paused
}

// open does the next opening at its instant.
func (c *Conductor) open() {
	o := &c.openings
	at := o.at
	o.advance()
	if o.arriving {
		c.arrive(at)
		return
	}
	o.lane++
	c.idleSince = max(c.idleSince, at) // a ramp is no idle time
	c.openTree(o.lane-1, at, 0)
}

// openBefore does the openings before an instant at which a request ended: what happens then cannot delay them. Without it, a
// late call would let a tree wait for the lane that the request makes free.
func (c *Conductor) openBefore(end time.Duration) {
	for at, ok := c.nextOpening(); ok && at < end; at, ok = c.nextOpening() {
		c.open()
	}
}

// arrive gives a tree that arrives the lowest free lane, or lets it wait.
func (c *Conductor) arrive(at time.Duration) {
	c.replaceDrained() // lanes whose trees have ended before are free
	if lane, ok := c.takeLane(); ok {
		if next, ok := c.source.Next(lane); !ok {
			c.openings.free.push(lane)
			c.endArrivals()
		} else if c.countArrival(at); !c.openArrived(next, lane, at) {
			c.openings.free.push(lane)
		}
		return
	}
	c.countArrival(at)
	c.counts.TreesWaiting++
	c.openings.waiting.push(at)
	if most := c.openings.max; c.counts.TreesWaiting > most {
		c.openings.err = fmt.Errorf("more than %d trees at %v, with %d lanes: %w", most, at, c.maxLanes, ErrTooManyWaiting)
		c.stop(at)
	}
}

// countArrival counts a tree that has arrived, and reports it.
func (c *Conductor) countArrival(at time.Duration) {
	c.counts.TreesArrived++
	c.emit(Event{Kind: TreeArrived, At: at, Lane: -1, Tree: -1})
}

// takeLane returns the lowest lane without a tree.
func (c *Conductor) takeLane() (lane int, ok bool) {
	if c.openings.free.len() > 0 {
		return c.openings.free.remove(0), true
	}
	n := len(c.lanes)
	if n == c.maxLanes {
		return 0, false
	}
	c.lanes, c.heldUntil, c.requests = append(c.lanes, nil), append(c.heldUntil, 0), append(c.requests, 0)
	c.openings.freeSince = append(c.openings.freeSince, 0)
	return n, true
}

// freeLane gives a lane whose tree has ended to the tree that has waited longest.
func (c *Conductor) freeLane(lane int, end time.Duration) {
	c.openings.freeSince[lane] = end
	for c.counts.TreesWaiting > 0 && !c.stopped && !c.paused {
		next, ok := c.source.Next(lane)
		if !ok {
			c.endArrivals()
			break
		}
		c.counts.TreesWaiting--
		if c.openArrived(next, lane, c.openings.waiting.pop()) {
			return
		}
	}
	c.openings.free.push(lane)
}

// openArrived opens a tree that has arrived. It returns false for one that cannot be played.
func (c *Conductor) openArrived(next Assignment, lane int, arrived time.Duration) bool {
	at := max(arrived, c.openings.freeSince[lane])
	if next.Tree == nil {
		c.counts.TreesSkipped++
		c.emit(Event{Kind: TreeSkipped, At: at, Lane: -1, Tree: -1})
		return false
	}
	c.heldUntil[lane] = 0 // the hold was of the tree before
	c.play(next, lane, arrived, at)
	return true
}

// endArrivals ends the openings. The trees that wait are abandoned.
func (c *Conductor) endArrivals() {
	c.openings.more = false
	c.counts.TreesAbandoned += c.counts.TreesWaiting
	c.counts.TreesWaiting = 0
	c.openings.waiting = fifo{}
}

// fifo is a queue of instants.
type fifo struct {
	items []time.Duration
	head  int // of those that have not been taken
}

// push adds an instant. It moves the rest to the front where that avoids growing.
func (q *fifo) push(at time.Duration) {
	if len(q.items) == cap(q.items) && q.head > len(q.items)/2 { // rather than grow
		q.items = q.items[:copy(q.items, q.items[q.head:])]
		q.head = 0
	}
	q.items = append(q.items, at)
}

// pop takes the oldest instant.
func (q *fifo) pop() time.Duration {
	at := q.items[q.head]
	q.head++
	if q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
	}
	return at
}
