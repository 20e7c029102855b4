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
// and each arrow checks the state it leaves, so that an attempt to send a turn a second time is found and not made. Due
// means that its time has not come, retained that recorded predecessors are not over (barrier.go), queued that it waits
// for a slot (slots.go), parked that it waits for the branches its turn joins, or for the recorded time of that turn.
// Whatever will lead to a request has its timer in one queue (timers.go), where caps on idle time act. When the last
// session of a tree is closed the tree has drained, and its lane takes the next.
//
// Numbers of sections, invariants (INV) and hazards (H) are those of the specification of the replay.
package conductor

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Opening is what a lane plays next: a tree from its first turn, or from the state in Start.
type Opening struct {
	Tree  *Tree
	Start *Start
}

// Source hands out trees. It is asked for the next tree of a lane, and says no when there is none left.
type Source interface {
	Next(lane int) (o Opening, ok bool)
}

// Send is an order to put one turn on the wire.
type Send struct {
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
	launch  func(Send) error
	observe func(Event)

	lanes   []*tree // what each holds, nil: nothing
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
func New(lanes int, source Source, limits Limits, launch func(Send) error, observe func(Event)) *Conductor {
	return &Conductor{
		source: source, limits: limits, launch: launch, observe: observe,
		lanes: make([]*tree, lanes), flying: map[int]*session{}, timers: newTimers(), slots: newSlots(limits.Prefill),
	}
}

// Start opens a tree on every lane, and only then sends what is due. The error is the first lane's whose first turns could
// not be launched; every other lane has been started all the same, and goes on.
func (c *Conductor) Start(now time.Duration) error {
	c.idle, c.starting = now, true
	c.refused = make([]error, len(c.lanes))
	for lane := range c.lanes {
		c.open(lane, now, 0)
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

// mostBarren is how many trees in a row a lane opens that end without a request, as recordings do whose first turn waits
// for itself. They end at the instant they are opened: with a source that never runs dry this would go on for ever.
const mostBarren = 1000

var errBarren = errors.New("too many trees in a row sent nothing")

// open takes the next tree for a lane, if there is one. A tree that is not taken up in the middle is due at once. So many
// before it sent nothing.
func (c *Conductor) open(lane int, at time.Duration, barren int) {
	if c.stopped {
		return
	}
	var o Opening
	ok := c.limits.Trees == 0 || c.counts.TreesOpened < c.limits.Trees
	if ok {
		o, ok = c.source.Next(lane)
	}
	if !ok {
		c.tell(Event{Kind: Finished, At: at, Lane: lane})
		return
	}
	t := &tree{Tree: o.Tree, lane: lane, ordinal: c.counts.TreesOpened, barren: barren, idle: at, end: at}
	t.table = table{sessions: make([]*session, len(t.Sessions)), branches: make([]branch, len(t.Branches)), work: &c.work}
	t.barrier = barrier{over: make([]int, len(t.Sessions)), ended: make([]ending, len(t.Sessions)), work: &c.work, edges: &c.edges}
	c.timers.attach(t)
	c.slots.attach(t)
	c.lanes[lane] = t
	c.counts.TreesOpened++
	c.touch(t)
	c.tell(Event{Kind: Opened, At: at, Lane: lane, Tree: t.ordinal})
	if o.Start == nil {
		c.schedule(c.register(t, 0), at)
		return
	}
	c.resume(t, o.Start)
}

// resume takes up a tree in the middle: section 6.6. A branch of which nothing is ahead is spawned; what is over counts as
// done; so a gate sees the same whether its branches ended before or after this instant (bug 4, H1, H15).
func (c *Conductor) resume(t *tree, start *Start) {
	for n, turns := range start.Over {
		if turns > 0 {
			if err := t.barrier.seed(n, turns); err != nil {
				panic(err)
			}
		}
	}
	for _, l := range start.Live {
		s := c.register(t, l.Session)
		s.turn = l.Turn
		if l.Session > 0 {
			t.branch(s.plan().Branch).left++
			c.counts.ChildrenResumed++
			c.counts.ChildrenLive++
		}
	}
	live := make([]bool, len(t.Sessions))
	for _, l := range start.Live {
		live[l.Session] = true
	}
	for n, b := range t.Branches {
		if !slices.ContainsFunc(b.Sessions, func(k int) bool { return !live[k] && !t.done(k, start.Over[k]) }) {
			t.branch(n).spawned = true
		}
	}
	for _, l := range start.Live {
		s := t.session(l.Session)
		if !l.Waits {
			c.schedule(s, l.Due)
			continue
		}
		s.move(fresh, deciding)
		s.due = l.Due
		c.park(s)
	}
}

// register makes a session. It has no timer yet.
func (c *Conductor) register(t *tree, n int) *session {
	s := &session{tree: t, index: n, timer: -1, queued: -1, age: -1, watch: -1}
	t.add(s)
	return s
}

// schedule lets a session's turn wait for its time.
func (c *Conductor) schedule(s *session, at time.Duration) {
	s.move(fresh, due)
	s.due = at
	c.steps++
	c.timers.set(s, at)
}

// spawn starts the branches that hang on a turn: at its issue those of which a session begins before its return, at the
// return all others, and the rest of those. Everything is registered before anything is sent. It returns whom it
// registered.
func (c *Conductor) spawn(s *session, at time.Duration, issue bool) (born []*session) {
	t := s.tree
	for _, n := range s.next().Spawns {
		if issue && !t.Branches[n].OnIssue {
			continue
		}
		b := t.branch(n)
		if b.spawned { // it has a start state, or began at the issue
			continue
		}
		b.spawned = true
		born = c.registerBranch(t, n, at, born)
	}
	begin := born
	if !issue {
		begin = append(s.later, born...)
		s.later = nil
	}
	for _, child := range begin {
		if issue && !child.plan().OnIssue {
			s.later = append(s.later, child)
			continue
		}
		if child.plan().Offset > 0 {
			c.counts.ChildrenDelayed++
		}
		c.schedule(child, at+child.plan().Offset)
	}
	return born
}

// registerBranch makes the sessions of a branch and appends them to a list. One that cannot be played is over at once,
// with all that it would have spawned (H16).
func (c *Conductor) registerBranch(t *tree, n int, at time.Duration, born []*session) []*session {
	for _, k := range t.Branches[n].Sessions {
		if !t.ahead(k) { // of a start state
			continue
		}
		c.counts.ChildrenSpawned++
		if t.Sessions[k].Broken {
			c.counts.ChildrenErrored++
			c.tell(Event{Kind: Closed, At: at, Lane: t.lane, Tree: t.ordinal, Session: k, Why: Unplayable})
			c.skip(t, k, 0, at)
			continue
		}
		born = append(born, c.register(t, k))
		t.branch(n).left++
		c.counts.ChildrenLive++
		c.tell(Event{Kind: Spawned, At: at, Lane: t.lane, Tree: t.ordinal, Session: k})
	}
	return born
}

// settle does what can be done at this instant, until nothing changes any more.
func (c *Conductor) settle(now time.Duration) {
	for {
		for s := c.timers.next(); s != nil && c.timers.real(s) <= now; s = c.timers.next() {
			c.fire(s)
		}
		for s := c.slots.grant(); s != nil; s = c.slots.grant() {
			c.issue(s, now)
		}
		if c.decide() || c.recycle(now) {
			continue
		}
		c.reportWedges(now)
		if len(c.drained) > 0 {
			continue
		}
		c.capIdle(now)
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

// fire is a timer whose time has come.
func (c *Conductor) fire(s *session) {
	at := c.timers.real(s)
	c.timers.stop(s)
	c.steps++
	c.touch(s.tree)
	if s.state == parked {
		s.due = at
		c.unpark(s, at) // if its branches are done
		return
	}
	s.due = at
	c.admit(s, due)
}

// admit lets a turn whose time has come wait for its predecessors, or for a slot.
func (c *Conductor) admit(s *session, from state) {
	s.after = 0
	if s.tree.barrier.pass(s) {
		s.due = max(s.due, s.free)
		s.move(from, queued)
		c.slots.wait(s)
		return
	}
	s.move(from, retained)
	c.tell(Event{Kind: Retained, At: s.due, Lane: s.tree.lane, Tree: s.tree.ordinal, Session: s.index, Turn: s.turn})
}

// issue hands a turn to the transport. All that depends on its having been issued is booked before (H3).
func (c *Conductor) issue(s *session, now time.Duration) {
	t := s.tree
	s.move(queued, inFlight)
	s.id = c.counts.Sent
	c.counts.Sent++
	c.counts.InFlight++
	c.flying[s.id] = s
	t.flying++
	c.touch(t)
	resumed := s.suspended
	if resumed {
		s.suspended = false
		c.counts.ParentsParked--
		c.counts.ParentsResumed++
	}
	born := c.spawn(s, now, true)
	order := Send{ID: s.id, Lane: t.lane, Tree: t.ordinal, Session: s.index, Turn: s.turn, Due: s.due, Issued: now}
	if err := c.launch(order); err != nil {
		c.refuse(s, now, resumed, born, err)
		return
	}
	t.sent++
	t.last = Event{Kind: Sent, At: now, Lane: t.lane, Tree: t.ordinal, Session: s.index, Turn: s.turn, Due: s.due}
	c.tell(t.last)
	if c.limits.Requests > 0 && c.counts.Sent >= c.limits.Requests {
		c.stop(now)
	}
}

// refuse takes back the issue of a turn that cannot be sent, and ends its session and those that were born at that issue.
func (c *Conductor) refuse(s *session, now time.Duration, resumed bool, born []*session, err error) {
	t := s.tree
	if resumed {
		s.suspended = true
		c.counts.ParentsParked++
		c.counts.ParentsResumed--
	}
	idle, idleTree := c.idle, t.idle
	c.land(s, now)
	c.idle, t.idle = idle, idleTree // nothing was on the wire
	c.counts.Sent--
	c.tell(Event{Kind: Refused, At: now, Lane: t.lane, Tree: t.ordinal, Session: s.index, Turn: s.turn, Err: err})
	if t.refused == nil {
		t.refused = err
	}
	if c.starting && c.refused[t.lane] == nil {
		c.refused[t.lane] = err
	}
	s.move(inFlight, deciding)
	for _, child := range born {
		c.close(child, now, Truncated)
	}
	c.close(s, now, Truncated)
}

// land takes a session's request off the wire.
func (c *Conductor) land(s *session, at time.Duration) {
	t := s.tree
	delete(c.flying, s.id)
	c.slots.release(s)
	c.counts.InFlight--
	if c.counts.InFlight == 0 {
		c.idle = at
	}
	t.flying--
	if t.flying == 0 {
		t.idle = at
	}
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
	t.last = Event{Kind: Returned, At: at, Lane: t.lane, Tree: t.ordinal, Session: s.index, Turn: s.turn, Outcome: outcome}
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

// advance makes a session's next turn due. One that joins branches which are not done is decided on when what is due now
// has been sent: they may all be refused, and then nothing holds it up (bug 5).
func (c *Conductor) advance(s *session, at time.Duration) {
	c.over(s.tree, s.index, s.turn+1, at)
	s.turn++
	s.free = 0
	u := s.next()
	if c.joined(s) {
		s.move(deciding, fresh)
		c.schedule(s, at+u.Delay)
		return
	}
	s.due = at // of the return, until it is decided
	s.tree.undecided++
	s.undecided = true
	c.deciding = append(c.deciding, s)
}

// decide parks those that have to wait for branches. It reports whether there were any.
func (c *Conductor) decide() bool {
	list := c.deciding
	for _, s := range list {
		if !s.undecided { // closed since
			continue
		}
		s.undecided = false
		s.tree.undecided--
		u := s.next()
		if c.joined(s) {
			s.move(deciding, fresh)
			c.schedule(s, s.due+u.Delay)
			continue
		}
		s.due += u.Deadline
		c.park(s)
	}
	some := len(list) > 0
	clear(list) // no reference to what is over
	c.deciding = list[:0]
	return some
}

// joined reports whether the branches that a session's turn joins are done.
func (c *Conductor) joined(s *session) bool {
	joins := s.next().Joins
	for s.joins < len(joins) {
		b := s.tree.branch(joins[s.joins])
		if b.left > 0 {
			return false
		}
		s.free = max(s.free, b.end)
		s.joins++
		c.edges++
	}
	s.joins = 0
	return true
}

// park lets a session wait until its branches are done and its deadline, which is in its due time, has passed.
func (c *Conductor) park(s *session) {
	s.move(deciding, parked)
	s.suspended = true
	c.counts.ParentsSuspended++
	c.counts.ParentsParked++
	c.timers.set(s, s.due)
	c.tell(Event{Kind: Parked, At: s.due, Lane: s.tree.lane, Tree: s.tree.ordinal, Session: s.index, Turn: s.turn})
}

// unpark lets a parked session go on if its branches are done and its deadline has passed, the later of them at an
// instant.
func (c *Conductor) unpark(s *session, at time.Duration) {
	if s.timer >= 0 || !c.joined(s) {
		return
	}
	s.free = max(s.free, at)
	c.admit(s, parked)
}

// over books that so many turns of a session are over, and lets go whom that lets go.
func (c *Conductor) over(t *tree, session, turns int, at time.Duration) {
	for _, s := range t.barrier.complete(session, turns, at) {
		s.due = max(s.due, s.free, at)
		s.move(retained, queued)
		c.slots.wait(s)
		c.tell(Event{Kind: Released, At: at, Lane: t.lane, Tree: t.ordinal, Session: s.index, Turn: s.turn})
	}
}

// skip books what a session will not send from a turn on, and all that those turns would have spawned, as over (H9, H16).
func (c *Conductor) skip(t *tree, session, from int, at time.Duration) {
	if t.ending {
		return
	}
	turns := t.Sessions[session].Turns
	c.over(t, session, len(turns), at)
	for _, u := range turns[min(from, len(turns)):] {
		for _, n := range u.Spawns {
			if b := t.branch(n); !b.spawned {
				b.spawned = true
				for _, k := range t.Branches[n].Sessions {
					if t.done(k, t.barrier.over[k]) { // before the tree was taken up
						continue
					}
					c.tell(Event{Kind: Closed, At: at, Lane: t.lane, Tree: t.ordinal, Session: k, Why: NeverSpawned})
					c.skip(t, k, 0, at)
				}
			}
		}
	}
}

// close ends a session, tells its parent, and ends the tree with its last session.
func (c *Conductor) close(s *session, at time.Duration, why Why) {
	t := s.tree
	c.leave(s, at)
	switch s.state {
	case retained:
		t.barrier.drop(s)
	case queued:
		c.slots.leave(s)
	case deciding:
		if s.undecided {
			s.undecided = false
			t.undecided--
		}
	case closed, inFlight:
		panic(fmt.Sprintf("conductor: lane %d, tree %d, session %d is %s and cannot be closed", t.lane, t.ordinal, s.index, s.state))
	}
	c.timers.stop(s)
	s.state = closed
	t.remove(s)
	t.end = max(t.end, at)
	c.touch(t)
	if s.suspended {
		s.suspended = false
		c.counts.ParentsParked--
		c.counts.JoinsSuppressed++
	}
	c.tell(Event{Kind: Closed, At: at, Lane: t.lane, Tree: t.ordinal, Session: s.index, Turn: s.turn, Why: why})
	c.skip(t, s.index, s.turn, at)
	if s.index > 0 {
		c.counts.child(why)
		n := s.plan().Branch
		b := t.branch(n)
		b.left--
		b.end = max(b.end, at)
		parent := t.session(t.Branches[n].Parent)
		if b.left == 0 && !t.ending && parent != nil && parent.state == parked {
			c.unpark(parent, at)
		}
	}
	if len(t.alive) == 0 {
		t.released = c.stopped
		c.drained = append(c.drained, t)
	}
}

// leave closes the children that were registered at the issue of a session's turn and wait for its return, which will not
// have them.
func (c *Conductor) leave(s *session, at time.Duration) {
	list := s.later
	s.later = nil
	for _, child := range list {
		if child.state == fresh { // not closed with its tree
			c.close(child, at, Truncated)
		}
	}
}

// recycle lets the lanes of drained trees take the next. It reports whether there were any.
func (c *Conductor) recycle(now time.Duration) bool {
	list := c.drained
	c.drained = nil
	for _, t := range list {
		c.lanes[t.lane] = nil
		kind := Drained
		if t.released {
			kind = ReleasedTree
			c.counts.TreesReleased++
		} else {
			c.counts.TreesDrained++
		}
		c.tell(Event{Kind: kind, At: t.end, Lane: t.lane, Tree: t.ordinal})
		if t.refused != nil && t.sent == 0 { // the next might be as well, and the next, all at this instant
			c.tell(Event{Kind: Finished, At: t.end, Lane: t.lane, Err: t.refused})
			continue
		}
		barren := 0
		if t.sent == 0 {
			barren = t.barren + 1
		}
		if barren == mostBarren {
			c.tell(Event{Kind: Finished, At: t.end, Lane: t.lane, Err: errBarren})
			continue
		}
		c.open(t.lane, t.end, barren)
	}
	return len(list) > 0
}

// reportWedges finds the trees that are open and in which nothing can happen any more, reports and closes them: section
// 4.10.
func (c *Conductor) reportWedges(now time.Duration) {
	for k := 0; k < len(c.touched); k++ {
		t := c.touched[k]
		if len(t.alive) == 0 || t.flying > 0 || t.undecided > 0 || t.timers.len() > 0 || t.queue.len() > 0 {
			continue
		}
		c.counts.TreesWedged++
		c.tell(Event{Kind: Wedged, At: now, Lane: t.lane, Tree: t.ordinal, Wedge: c.wedge(t)})
		t.end = now
		c.closeAll(t, now)
	}
}

// closeAll closes the sessions of a tree that are not in flight, as a whole: nobody is told and nothing let go.
func (c *Conductor) closeAll(t *tree, at time.Duration) {
	t.ending = true
	for _, s := range slices.Clone(t.alive) {
		if s.state != inFlight {
			c.close(s, at, Truncated)
		}
	}
}

// capIdle lets time that nobody uses go by faster: sections 4.4 and 4.5.
func (c *Conductor) capIdle(now time.Duration) {
	if c.limits.TreeIdle > 0 {
		for _, t := range c.touched {
			if t.flying == 0 && t.queue.len() == 0 && t.timers.len() > 0 {
				next := c.timers.real(t.timers.items[0])
				if d := excess(next, t.idle, c.limits.TreeIdle, now); d > 0 {
					c.timers.skipTree(t, d)
					c.tell(Event{Kind: Skipped, At: now, Lane: t.lane, Tree: t.ordinal, Skipped: d})
				}
			}
		}
	}
	if next := c.timers.next(); c.limits.SystemIdle > 0 && c.counts.InFlight == 0 && c.slots.trees.len() == 0 && next != nil {
		if d := excess(c.timers.real(next), c.idle, c.limits.SystemIdle, now); d > 0 {
			c.timers.skip(d)
			c.counts.Jumps++
			c.counts.Skipped += d
			c.tell(Event{Kind: SkippedAll, At: now, Skipped: d})
		}
	}
}

// Wake sends what has become due.
func (c *Conductor) Wake(now time.Duration) { c.settle(now) }

// Next returns when Wake has something to do; ok is false when nothing is due but returns are awaited.
func (c *Conductor) Next() (at time.Duration, ok bool) {
	s := c.timers.next()
	if s == nil {
		return 0, false
	}
	return c.timers.real(s), true
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

// Done reports whether nothing is in flight and nothing will be.
func (c *Conductor) Done() bool { return c.counts.InFlight == 0 && c.timers.next() == nil }

// Counts returns what has happened so far.
func (c *Conductor) Counts() Counts {
	n := c.counts
	n.TreesOpen = n.TreesOpened - n.TreesDrained - n.TreesReleased
	return n
}

func (c *Conductor) tell(e Event) {
	if c.observe != nil {
		c.observe(e)
	}
}
