// Package conductor decides which turn of which session goes out when. It owns all timing state of a replay and no
// clock: every method is told the time, as a duration since the start of the phase, and returns at once. Nothing in it
// runs concurrently, so no two decisions can race; tests play whole replays on a virtual clock. It gets numbers and
// trees, no options: those are resolved before it starts.
//
// A lane holds one tree at a time: a root session and the sessions it spawns, which may spawn others. A session goes from
// state to state,
//
//	fresh -> due -> retained -> queued -> in flight -> deciding -> closed
//	                                                       |  \--> due, with its next turn
//	                                                       \-----> parked -> retained or queued
//
// and each arrow (transitions.go) checks the state it leaves, so that an attempt to send a turn a second time is found and
// not made. Due means that its time has not come, retained that recorded predecessors are not over (barrier.go), queued
// that it waits for a slot (slots.go), parked that it waits for the branches its turn joins, or for the recorded time
// of that turn. Whatever will lead to a request has its timer in one queue (timers.go), where caps on idle time act.
// When the last session of a tree is closed the tree has drained, and its lane takes the next (lanes.go).
//
// Numbers of sections, invariants (INV) and hazards (H) are those of the specification of the replay.
package conductor

import (
	"fmt"
	"time"
)

// Assignment is what a lane plays next: a tree from its first turn, or from the state in Start.
type Assignment struct {
	Tree  *Tree
	Start *StartState
}

// Source hands out trees. It is asked for the next tree of a lane, and says no when there is none left.
type Source interface {
	Next(lane int) (o Assignment, ok bool)
}

// Dispatch is an order to put one turn on the wire.
type Dispatch struct {
	ID      int // of the request, dense from 0
	Lane    int
	Tree    int // ordinal of the tree in the run
	Session int // in the tree
	Turn    int // in the session
	Due     time.Duration
	Issued  time.Duration // when the order was given: after Due for what had to wait for a slot
}

// Limits are the numbers that bound a phase; 0 means no bound.
type Limits struct {
	Requests   int           // sent in all
	Trees      int           // opened in all
	Prefill    int           // requests without a first token
	SystemIdle time.Duration // longest time without a request in flight, as long as one is to come
	TreeIdle   time.Duration // the same for each tree
}

// Outcome is what became of a request.
type Outcome uint8

// The outcomes. Only Overflow ends a session: every later prompt of it is longer.
const (
	OK Outcome = iota
	Failed
	Overflow  // the prompt does not fit the context
	Cancelled // by us
)

// Conductor plays trees on lanes.
type Conductor struct {
	source  Source
	limits  Limits
	launch  func(Dispatch) error
	observe func(Event)

	lanes   []*tree         // what each holds, nil: nothing
	held    []time.Duration // by lane: it sends nothing before
	lull    time.Duration   // the latest of these
	flying  map[int]*session
	timers  *timers
	slots   *slots
	counts  Counts
	idle    time.Duration // since when nothing has been in flight
	stopped bool
	work    int // entries of trees read or written, for INV-17
	edges   int // predecessors and joined branches found done: each once for a turn
	steps   int // turns made due, and timers that fired: units of work that no event tells of

	// Within one event:
	touched  []*tree
	deciding []*session
	drained  []*tree
	refused  []error // by lane, while starting
	starting bool
}

// New returns a conductor for so many lanes. launch is called from inside its methods and must return at once; its error
// says that the turn cannot be sent, which ends its session. observe is told of everything that happens; it may be nil.
func New(lanes int, source Source, limits Limits, launch func(Dispatch) error, observe func(Event)) *Conductor {
	return &Conductor{
		source: source, limits: limits, launch: launch, observe: observe,
		lanes: make([]*tree, lanes), held: make([]time.Duration, lanes), flying: map[int]*session{}, timers: newTimers(), slots: newSlots(limits.Prefill),
	}
}

// Start opens a tree on every lane at the start of the phase, and only then sends what is due. However late it is called,
// first turns are due at 0, or as their start states say. The error is the first lane's whose first turns could not be
// launched; every other lane has been started all the same, and goes on.
func (c *Conductor) Start(now time.Duration) error {
	c.starting = true
	c.refused = make([]error, len(c.lanes))
	for lane := range c.lanes {
		c.open(lane, 0, 0)
	}
	c.settle(now)
	c.starting = false
	for lane, err := range c.refused {
		if err != nil {
			return fmt.Errorf("lane %d: %w", lane, err)
		}
	}
	c.refused = nil
	return nil
}

// FirstToken says that the answer to a request has begun.
func (c *Conductor) FirstToken(id int, now time.Duration) {
	if s := c.flying[id]; s != nil {
		c.slots.release(s)
		c.settle(now)
	}
}

// Returned says that a request is over since the instant at. The error is about a request that is not in flight: its
// return has been given before, or it was never sent.
func (c *Conductor) Returned(id int, at, now time.Duration, outcome Outcome) error {
	s := c.flying[id]
	if s == nil {
		return fmt.Errorf("conductor: request %d returns, but is not in flight", id)
	}
	t := s.tree
	s.move(inFlight, deciding)
	c.land(s, at)
	c.touch(t)
	t.last = Event{Kind: TurnReturned, At: at, Lane: t.lane, Tree: t.ordinal, Session: s.index, Turn: s.turn, Outcome: outcome}
	c.tell(t.last)
	last := s.turn+1 == len(s.plan().Turns)
	switch {
	case last && outcome != Cancelled:
		if !c.stopped {
			c.spawn(s, at, false)
		}
		why := Completed
		if outcome != OK {
			why = Errored
		}
		c.close(s, at, why)
	case outcome == Overflow || outcome == Cancelled || c.stopped: // a dead parent neither spawns nor parks
		c.close(s, at, Truncated)
	default:
		c.spawn(s, at, false)
		c.advance(s, at)
	}
	c.settle(now)
	return nil
}

// Wake sends what has become due.
func (c *Conductor) Wake(now time.Duration) { c.settle(now) }

// NextWake returns when Wake has something to do; ok is false when nothing is due but returns are awaited.
func (c *Conductor) NextWake() (at time.Duration, ok bool) {
	s := c.timers.next()
	if s == nil {
		return 0, false
	}
	return c.timers.real(s), true
}

// Hold keeps a lane from sending before an instant. What would have gone out earlier is due then, trees that the lane opens
// meanwhile as well; time does not go by faster for it.
func (c *Conductor) Hold(lane int, until time.Duration) {
	c.held[lane] = max(c.held[lane], until)
	c.lull = max(c.lull, until)
}

// Stop ends the sending: what can no longer be sent is closed, what is in flight may return.
func (c *Conductor) Stop(now time.Duration) {
	c.stop(now)
	c.settle(now)
}

func (c *Conductor) stop(now time.Duration) {
	if c.stopped {
		return
	}
	c.stopped = true
	for _, t := range c.lanes {
		if t != nil {
			c.touch(t)
			c.closeAll(t, now)
		}
	}
}

// Stopped reports whether the sending has ended: nothing is sent any more.
func (c *Conductor) Stopped() bool { return c.stopped }

// Done reports whether nothing is in flight and nothing will be.
func (c *Conductor) Done() bool { return c.counts.InFlight == 0 && c.timers.next() == nil }

// Counts returns what has happened so far.
func (c *Conductor) Counts() Counts {
	n := c.counts
	n.TreesOpen = n.TreesOpened - n.TreesDrained - n.TreesReleased
	return n
}

// settle does what can be done at this instant, until nothing changes any more.
func (c *Conductor) settle(now time.Duration) {
	for {
		for s := c.timers.next(); s != nil && c.timers.real(s) <= now; s = c.timers.next() {
			c.fire(s, c.timers.real(s))
		}
		for s := c.slots.grant(); s != nil; s = c.slots.grant() {
			if until := c.held[s.tree.lane]; until > now {
				c.putOff(s, until)
				continue
			}
			c.issue(s, now)
		}
		if c.decide() || c.recycle(now) {
			continue
		}
		c.reportWedges(now)
		if len(c.drained) > 0 {
			continue
		}
		if c.capIdle(now) {
			continue
		}
		if s := c.timers.next(); s == nil || c.timers.real(s) > now {
			break
		}
	}
	for _, t := range c.touched {
		t.touched = false
	}
	clear(c.touched) // no reference to a tree that is over
	c.touched = c.touched[:0]
}

// touch notes that an event concerns a tree.
func (c *Conductor) touch(t *tree) {
	if !t.touched {
		t.touched = true
		c.touched = append(c.touched, t)
	}
}

func (c *Conductor) tell(e Event) {
	if c.observe != nil {
		c.observe(e)
	}
}
