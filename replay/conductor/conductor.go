package conductor

import (
	"fmt"
	"time"
)

// Assignment is what a lane plays next: a tree from its first turn, or from the state in Start.
type Assignment struct {
	Tree  *Tree       // nil, with OpenBy: what arrives cannot be played
	Start *StartState // nil: from the first turn
	Until []int       // by session: its first turn that is deferred, as beyond Limits.LaneRequests; nil: none is
}

// Source hands out trees.
type Source interface {
	// Next returns the next tree of a lane, false when none is left for it.
	Next(lane int) (next Assignment, ok bool)
}

// Dispatch is an order to put one turn on the wire.
type Dispatch struct {
	ID      int // of the request: 0, 1, 2, ... in the order of sending
	Lane    int
	Tree    int           // ordinal of the tree, of those of this conductor
	Session int           // in the tree
	Turn    int           // in the session
	Due     time.Duration // when the turn could be sent first
	Queued  time.Duration // from Due until its tree had a lane: not 0 only for the first turn of a tree that waited for one
	Issued  time.Duration // when the order was given: after Due and Queued when the turn had to wait for a slot
}

// Outcome is how a request ended.
type Outcome uint8

// The outcomes. Overflow ends the session, because every later prompt of it is longer; so does Cancelled. After Throttled the turn is
// sent again, with the ID that it had, when its lane is not held: Hold before says until when. After the end of the phase that is Failed.
const (
	OK Outcome = iota
	Failed
	Overflow  // the prompt does not fit the context
	Cancelled // by the caller
	Throttled // the server asks to send it later
)

// Conductor plays trees on lanes. It is not safe for concurrent use.
type Conductor struct {
	source  Source
	limits  Limits
	launch  func(Dispatch) error
	observe func(Event)

	maxLanes   int
	openings   openings
	lanes      []*tree         // by lane: its tree; nil: none
	heldUntil  []time.Duration // by lane: it sends nothing before
	latestHold time.Duration   // of heldUntil
	requests   []int           // by lane: sent
	below      int             // lanes that may still send, by Limits.LaneRequests
	inFlight   map[int]*session
	timers     *timers
	prefill    *prefillLimiter
	counts     Counts
	idleSince  time.Duration // when the last request in flight ended
	stopped    bool
	paused     bool // by Pause, or because every lane has sent Limits.LaneRequests or has finished
	work       workCounts

	// Within one call:
	touched   []*tree    // trees that the call concerns
	undecided []*session // whose next turn may have to park
	drained   []*tree
	refusals  []error // by lane, in Start: the first
	starting  bool    // refusals are kept
}

// workCounts count the work of a conductor. The checker of the tests holds them against INV-17: no call costs more than its
// own units of work times a logarithm.
type workCounts struct {
	entries int // of tables, heaps and barriers, read or written
	edges   int // predecessors and joined branches found done: each once for a turn
	steps   int // turns made due and timers fired: work that no event reports
}

// New returns a conductor for a number of lanes. It calls launch from inside its methods; launch must return at once, and its
// error says that the turn cannot be sent, which ends the session. It calls observe with every event; observe may be nil.
func New(lanes int, source Source, limits Limits, launch func(Dispatch) error, observe func(Event)) *Conductor {
	c := &Conductor{
		source: source, limits: limits, launch: launch, observe: observe,
		maxLanes: lanes, lanes: make([]*tree, lanes), heldUntil: make([]time.Duration, lanes), requests: make([]int, lanes), below: lanes,
		inFlight: map[int]*session{},
		prefill:  newPrefillLimiter(limits.Prefill, limits.InOrder),
	}
	c.timers = newTimers(&c.work.entries)
	return c
}

// Start opens a tree on every lane at instant 0, then sends what is due at now. First turns are due at 0, or as their start
// states say, however late Start is called. The error is that of the first lane whose first turns were refused; all other
// lanes are started all the same. After OpenBy or Ramp, Start opens only what is to be open at now. After OpenBy it returns nil.
func (c *Conductor) Start(now time.Duration) error {
	c.starting = !c.openings.arriving
	c.refusals = make([]error, len(c.lanes))
	c.openings.begin(c.maxLanes)
	c.settle(now)
	c.starting = false
	for lane, err := range c.refusals {
		if err != nil {
			return fmt.Errorf("lane %d: %w", lane, err)
		}
	}
	c.refusals = nil
	return nil
}

// FirstToken reports that the answer to a request has begun. It ignores a request that is not in flight.
func (c *Conductor) FirstToken(id int, now time.Duration) {
	if s := c.inFlight[id]; s != nil {
		c.prefill.release(s)
		c.settle(now)
	}
}

// Returned reports that a request ended at the instant at. The error is about a request that is not in flight: its return was
// reported before, or it was never sent.
func (c *Conductor) Returned(id int, at, now time.Duration, outcome Outcome) error {
	s := c.inFlight[id]
	if s == nil {
		return fmt.Errorf("conductor: request %d returns, but is not in flight", id)
	}
	if c.openings.more {
		c.openBefore(at)
	}
	t := s.tree
	s.move(inFlight, deciding)
	s.returnedAt = at
	c.removeInFlight(s, at)
	c.touch(t)
	t.lastEvent = Event{Kind: TurnReturned, At: at, Lane: t.lane, Tree: t.ordinal, Session: s.index, Turn: s.turn, Outcome: outcome}
	c.emit(t.lastEvent)
	if outcome == Cancelled && c.paused && !c.stopped { // the session is handed off
		outcome = Failed
	}
	last := s.turn+1 == len(s.plan().Turns)
	switch {
	case outcome == Throttled && !c.stopped:
		c.sendAgain(s, at)
	case last && outcome != Cancelled:
		if !c.stopped {
			c.spawn(s, at, false)
		}
		reason := Completed
		if outcome != OK {
			reason = Errored
		}
		c.close(s, at, reason)
	case outcome == Overflow || outcome == Cancelled || c.stopped: // a session that ends neither spawns nor parks
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

// NextWake returns when Wake has something to do. It returns false when nothing will become due before a request returns.
func (c *Conductor) NextWake() (at time.Duration, ok bool) {
	at, ok = c.nextOpening()
	if s := c.nextTimer(); s != nil {
		if timer := c.timers.realTime(s); !ok || timer < at {
			return timer, true
		}
	}
	return at, ok
}

// Hold keeps a lane from sending before an instant. Turns that would be sent earlier become due then, also those of trees that
// the lane opens meanwhile. A hold is no idle time: the caps do not act on it. With OpenBy a hold is of the tree that the lane
// plays: it ends with the tree, and the first turn of a tree is not held.
func (c *Conductor) Hold(lane int, until time.Duration) {
	c.heldUntil[lane] = max(c.heldUntil[lane], until)
	c.latestHold = max(c.latestHold, until)
}

// Stop ends the sending: sessions that are not in flight are closed, requests in flight may return.
func (c *Conductor) Stop(now time.Duration) {
	c.stop(now)
	c.settle(now)
}

// stop is Stop without the sending of what is due.
func (c *Conductor) stop(now time.Duration) {
	if c.stopped {
		return
	}
	c.stopped = true
	c.endArrivals()
	for _, t := range c.lanes {
		if t != nil {
			c.touch(t)
			c.closeTree(t, now)
		}
	}
}

// Stopped reports whether the sending has ended, by Stop or by Limits.Requests.
func (c *Conductor) Stopped() bool { return c.stopped }

// Done reports whether nothing is in flight and nothing will be sent.
func (c *Conductor) Done() bool {
	_, more := c.NextWake()
	return c.counts.InFlight == 0 && !more
}

// nextTimer returns the session whose timer fires next, nil when none will: while the phase is paused, none does.
func (c *Conductor) nextTimer() *session {
	if c.paused {
		return nil
	}
	return c.timers.first()
}

// Counts returns what the conductor has done so far.
func (c *Conductor) Counts() Counts {
	n := c.counts
	n.TreesOpen = n.TreesOpened - n.TreesDrained - n.TreesReleased
	return n
}

// settle does all that can be done at an instant: it fires timers, grants slots, parks, opens and closes trees and applies the
// caps on idle time until nothing changes.
func (c *Conductor) settle(now time.Duration) {
	for {
		c.fireDue(now)
		c.sendQueued(now)
		if c.decide() || c.replaceDrained() {
			continue
		}
		if c.paused { // no tree is deadlocked, no clock goes on
			break
		}
		c.closeDeadlocked(now)
		if len(c.drained) > 0 {
			continue
		}
		if c.capIdle(now) {
			continue
		}
		if s := c.nextTimer(); s != nil && c.timers.realTime(s) <= now {
			continue
		}
		if at, opens := c.nextOpening(); !opens || at > now {
			break
		}
	}
	for _, t := range c.touched {
		t.touched = false
	}
	clear(c.touched) // a drained tree must not be referred to
	c.touched = c.touched[:0]
}

// fireDue fires the timers whose time has come, and does the openings, in the order of their instants.
func (c *Conductor) fireDue(now time.Duration) {
	for at, ok := c.nextOpening(); ok && at <= now; at, ok = c.nextOpening() {
		c.fireBefore(at)
		c.open()
	}
	c.fireBefore(now + 1)
}

// fireBefore fires the timers of the time before an instant.
func (c *Conductor) fireBefore(end time.Duration) {
	for s := c.nextTimer(); s != nil && c.timers.realTime(s) < end; s = c.nextTimer() {
		c.fire(s, c.timers.realTime(s))
	}
}

// sendQueued sends the queued turns that get a slot, except those of lanes that may send no more or are held.
func (c *Conductor) sendQueued(now time.Duration) {
	for s := c.prefill.grant(); s != nil; s = c.prefill.grant() {
		switch until := c.heldUntil[s.tree.lane]; {
		case c.paused || !s.again && !c.mayRequest(s.tree.lane) || s.tree.until != nil && s.turn >= s.tree.until[s.index]:
			c.deferTurn(s, now)
		case until > now && !(c.openings.arriving && !s.tree.sent):
			c.hold(s, until)
		default:
			c.issue(s, now)
		}
	}
}

// touch adds a tree to those that the call concerns.
func (c *Conductor) touch(t *tree) {
	if !t.touched {
		t.touched = true
		c.touched = append(c.touched, t)
	}
}

// emit reports an event to the observer, if there is one.
func (c *Conductor) emit(e Event) {
	if c.observe != nil {
		c.observe(e)
	}
}

// Limits are the numbers that bound a phase. 0 is no bound, so the zero value bounds nothing.
type Limits struct {
	Requests     int           // sent in all
	LaneRequests int           // sent by each lane: its other turns are deferred, and the phase is paused when all lanes are done
	Trees        int           // opened in all
	Prefill      int           // requests in flight without a first token
	InOrder      bool          // of a tree the turn that could be sent first goes first; else that of the shallowest session
	SystemIdle   time.Duration // longest time without a request in flight, as long as one is to come
	TreeIdle     time.Duration // the same for each tree
}

// Counts count what a conductor has done so far (doc/spec/replay.md 8.9). At every instant
//
//	ChildrenResumed + ChildrenSpawned = ChildrenCompleted + ChildrenErrored + ChildrenTruncated + ChildrenLive
//	ParentsSuspended = ParentsResumed + JoinsSuppressed + ParentsParked
//	TreesOpened = TreesDrained + TreesReleased + TreesOpen
//	TreesArrived = TreesOpened + TreesSkipped + TreesWaiting + TreesAbandoned (with OpenBy)
type Counts struct {
	Sent     int
	InFlight int

	Branches
	ChildrenLive  int
	ParentsParked int
	TreesOpen     int

	TreesArrived   int // by OpenBy
	TreesWaiting   int // for a lane
	TreesSkipped   int // that could not be played
	TreesAbandoned int // that waited when the arrivals ended

	IdleSkipped time.Duration // by IdleJumps
}

// Branches are those counts that the results of a run have, by their keys there.
type Branches struct {
	ChildrenResumed   int `json:"children_resumed"`   // child sessions that were live when their tree was taken up
	ChildrenSpawned   int `json:"children_spawned"`   // child sessions that a turn spawned
	ChildrenDelayed   int `json:"children_delayed"`   // of those spawned: with an offset
	ChildrenCompleted int `json:"children_completed"` // their last turn was answered
	ChildrenErrored   int `json:"children_errored"`   // their last turn failed
	ChildrenTruncated int `json:"children_truncated"` // ended before their last turn
	ParentsSuspended  int `json:"parents_suspended"`  // waits of a session for its branches
	ParentsResumed    int `json:"parents_resumed"`    // waits that ended with a request
	JoinsSuppressed   int `json:"joins_suppressed"`   // waits that ended without
	TreesOpened       int `json:"trees_opened"`
	TreesDrained      int `json:"trees_drained"`  // played to their end
	TreesReleased     int `json:"trees_released"` // open when the phase ended
	TreesDeadlocked   int `json:"trees_wedged"`   // of those drained: nothing could happen in them any more

	IdleJumps int `json:"idle_jumps"` // of the cap on idle time of the system
}

// endChild counts the end of a live child.
func (n *Counts) endChild(reason EndReason) {
	n.ChildrenLive--
	switch reason {
	case Completed:
		n.ChildrenCompleted++
	case Errored:
		n.ChildrenErrored++
	default:
		n.ChildrenTruncated++
	}
}
