package conductor

import (
	"fmt"
	"math/bits"
	"reflect"
	"time"
)

// checker checks a conductor against the invariants of doc/spec/replay.md 1.6, from outside where that is possible: it keeps
// its own table of what was opened, sent, returned, spawned and closed. It checks each event against what the event touched.
// It compares all tables after every event while few sessions are live, else after every 4,096 events and at the end.
//
// INV-5, INV-6, INV-10 and INV-15 are invariants of package replay.
type checker struct {
	c      *Conductor
	broken []string // invariants that do not hold, at most ten

	assignment Assignment       // that the source gave last
	carried    map[int]*checked // by lane: the tree that a phase before handed over
	trees      map[int]*checked
	byLane     map[int]int // open tree by lane
	calls      int
	sent       int
	back       int
	skipped    time.Duration // by the cap on idle time of the system

	// edges counts the predecessors and joined branches of the turns that became the next of their session. See end.
	edges int

	requests map[int]int // by lane: sent

	arrivals *checkedArrivals // nil: a closed loop

	// Within one call:
	work  int
	units int
	found int // edges found done before it
	steps int // taken before it
	known int // sessions that were live when it began

	worst int // entries for a unit of work, among more than sweepBelow sessions
}

// checked is what the checker knows of an open tree.
type checked struct {
	tree     *Tree
	start    *StartState
	sessions map[int]*checkedSession // that are live
	over     map[int]bool            // that have been closed or will never be
	spawned  map[int]int             // branches, by the call in which they were
	flying   int
	deadlock bool
	skipped  time.Duration     // by its cap on idle time
	timers   map[int]seenTimer // at the sweep before, by session
}

type checkedSession struct {
	next     int // turn
	flying   bool
	deferred bool
	again    bool // its turn has come back as Throttled, and is not sent yet
	start    bool // of a start state, and nothing sent yet
	parked   map[int]bool
}

// seenTimer is a timer as it was at a sweep. Wake is when it would fire if no clock had been advanced.
type seenTimer struct {
	seq  int
	wake time.Duration
}

// sweepBelow is the number of live sessions below which the checker sweeps after every event.
const sweepBelow = 1000

func newChecker() *checker {
	return &checker{trees: map[int]*checked{}, byLane: map[int]int{}, requests: map[int]int{}}
}

// watchedSource is a source whose assignments the checker sees.
type watchedSource struct {
	Source
	k *checker
}

func (s watchedSource) Next(lane int) (o Assignment, ok bool) {
	o, ok = s.Source.Next(lane)
	s.k.assignment = o
	return o, ok
}

func (k *checker) watch(s Source) Source { return watchedSource{s, k} }

func (k *checker) fail(format string, args ...any) {
	if len(k.broken) < 10 {
		k.broken = append(k.broken, fmt.Sprintf(format, args...))
	}
}

func (k *checker) must(err error) {
	if err != nil {
		k.fail("%v", err)
	}
}

// begin and end are called before and after one call of the conductor.
func (k *checker) begin() {
	k.work, k.units, k.found, k.steps = k.c.work.entries, 0, k.c.work.edges, k.c.work.steps
	k.known = k.c.counts.ChildrenLive + k.c.Counts().TreesOpen
}

// end checks what holds after every call.
//
// Units of work (INV-17) are the sessions and turns that the call created, sent, retained, released or closed, by its events,
// and the sessions of a start state that are live or have turns that are done. A turn that is made due and a timer that fires
// are units too; no event reports them, so the conductor counts these steps. So are the edges of the recording: a turn with
// 40,000 predecessors cannot be released before each of them has been checked. An edge is a unit when it is found done, which
// must happen once: the checker compares the count with the edges of all turns that became the next of their session.
func (k *checker) end() {
	k.calls++
	n := max(k.known, k.c.counts.ChildrenLive+k.c.Counts().TreesOpen)
	k.units += k.c.work.edges - k.found + k.c.work.steps - k.steps
	if work, most := k.c.work.entries-k.work, k.most(n); work > most {
		k.fail("INV-17: %d entries for %d units of work among %d sessions: at most %d", work, k.units, n, most)
	}
	if n > sweepBelow {
		k.worst = max(k.worst, (k.c.work.entries-k.work)/(1+k.units))
	}
	if k.c.work.edges > k.edges {
		k.fail("INV-17: %d edges were found done, the turns that came up have %d", k.c.work.edges, k.edges)
	}
	c := k.c.Counts()
	if c.ChildrenResumed+c.ChildrenSpawned != c.ChildrenCompleted+c.ChildrenErrored+c.ChildrenTruncated+c.ChildrenLive ||
		c.ParentsSuspended != c.ParentsResumed+c.JoinsSuppressed+c.ParentsParked ||
		c.TreesOpened != c.TreesDrained+c.TreesReleased+c.TreesOpen {
		k.fail("INV-18: %+v", c)
	}
	if c.Sent != k.sent || c.InFlight != k.sent-k.back || len(k.c.inFlight) != c.InFlight {
		k.fail("INV-9: sent %d and %d, returned %d, in flight %d and %d", c.Sent, k.sent, k.back, c.InFlight, len(k.c.inFlight))
	}
	for _, f := range reflect.VisibleFields(reflect.TypeOf(c)) {
		if n := reflect.ValueOf(c).FieldByIndex(f.Index); !f.Anonymous && n.Int() < 0 {
			k.fail("INV-9: %s is %d", f.Name, n.Int())
		}
	}
	if c.TreesOpen > k.c.maxLanes || c.TreesOpen != len(k.trees) {
		k.fail("INV-7: %d trees are open, %d by the events, on %d lanes", c.TreesOpen, len(k.trees), k.c.maxLanes)
	}
	if k.arrivals != nil {
		k.arrivals.end(k, c)
	}
	if n <= sweepBelow || k.calls%4096 == 0 {
		k.sweep()
	}
}

// most returns how many entries a call may read or write, for its units of work and a number of live sessions.
func (k *checker) most(live int) int {
	if k.arrivals != nil {
		live += len(k.c.lanes) // some are free, and in a heap
	}
	return 8 * (1 + k.units) * bits.Len(uint(live+1)) // the length of n+1 is the logarithm of n+2, rounded up
}

// event checks what one event touched.
func (k *checker) event(e Event) {
	t := k.trees[e.Tree]
	switch e.Kind {
	case TreeArrived, TreeSkipped:
		k.units++
		k.arrivals.event(k, e)
	case TreeOpened:
		if k.arrivals != nil {
			k.arrivals.event(k, e)
		}
		k.opened(e)
	case SessionSpawned:
		k.spawned(e, t)
	case TurnRetained, TurnReleased, TurnRefused:
		k.units++
		if e.Kind == TurnReleased && k.c.paused {
			k.fail("4.7: tree %d, session %d: turn %d is released in a pause", e.Tree, e.Session, e.Turn)
		}
	case SessionParked:
		k.units++
		k.parked(e, t)
	case TurnDeferred:
		k.units++
		k.deferred(e, t)
	case TurnSent:
		k.units++
		if s := t.sessions[e.Session]; s != nil && s.again {
			s.again = false
			k.back--
		} else {
			k.sent++
			k.requests[e.Lane]++
		}
		k.send(e, t)
	case TurnReturned:
		k.back++
		k.units++
		s := t.sessions[e.Session]
		if s == nil || !s.flying || s.next != e.Turn {
			k.fail("INV-9: tree %d, session %d: turn %d returns, but is not in flight", e.Tree, e.Session, e.Turn)
			return
		}
		t.flying--
		s.flying = false
		if e.Outcome == Throttled && !k.c.stopped {
			s.again = true
			return
		}
		s.next++
		k.comes(t.tree, e.Session, s.next)
	case SessionClosed:
		k.units++
		s := t.sessions[e.Session]
		if t.over[e.Session] {
			k.fail("INV-14: tree %d: session %d is closed twice", e.Tree, e.Session)
		}
		if s != nil && s.flying {
			k.fail("INV-9: tree %d: session %d is closed in flight", e.Tree, e.Session)
		}
		if (s == nil) != (e.Reason == Unplayable || e.Reason == NeverSpawned) {
			k.fail("INV-14: tree %d: session %d is closed for reason %d, known: %v", e.Tree, e.Session, e.Reason, s != nil)
		}
		t.over[e.Session] = true
		delete(t.sessions, e.Session)
	case TreeDeadlocked:
		t.deadlock = true
		if k.c.stopped || k.c.paused || t.flying > 0 {
			k.fail("INV-11: tree %d is called deadlocked, %d in flight, after the end: %v", e.Tree, t.flying, k.c.stopped || k.c.paused)
		}
		for n, s := range t.sessions {
			if s.deferred {
				k.fail("INV-11: tree %d is called deadlocked, but session %d is deferred", e.Tree, n)
			}
		}
	case TreeDrained, TreeReleased:
		for n := range t.tree.Sessions {
			switch {
			case t.sessions[n] != nil:
				k.fail("INV-8: tree %d is over, session %d is not (%+v)", e.Tree, n, *t.sessions[n])
			case e.Kind == TreeDrained && !t.deadlock && !t.gone(n):
				k.fail("INV-20: tree %d has drained, no event says how session %d ended", e.Tree, n)
			}
		}
		delete(k.trees, e.Tree)
		delete(k.byLane, e.Lane)
		if k.arrivals != nil {
			k.arrivals.freeSince[e.Lane] = e.At
		}
	case TreeIdleSkipped:
		t.skipped += e.Skipped
		if t.flying > 0 || k.c.paused {
			k.fail("INV-19: the clock of tree %d is put forward with %d in flight, paused: %v", e.Tree, t.flying, k.c.paused)
		}
	case IdleSkipped:
		k.skipped += e.Skipped
		if k.sent != k.back || k.c.paused {
			k.fail("INV-19: the clock of all trees is put forward with %d in flight, paused: %v", k.sent-k.back, k.c.paused)
		}
	}
}

// opened checks a tree that is opened.
func (k *checker) opened(e Event) {
	k.units++
	if old, ok := k.byLane[e.Lane]; ok {
		k.fail("INV-8: lane %d takes tree %d and still has tree %d", e.Lane, e.Tree, old)
	}
	if k.c.stopped || k.c.paused {
		k.fail("INV-8: lane %d takes tree %d after the end", e.Lane, e.Tree)
	}
	t := k.carried[e.Lane]
	if t == nil {
		t = newChecked(k.assignment)
	}
	delete(k.carried, e.Lane)
	k.byLane[e.Lane], k.trees[e.Tree] = e.Tree, t
	for n, s := range t.sessions {
		k.comes(t.tree, n, s.next)
	}
	if start := k.assignment.Start; start != nil {
		k.units += len(start.Live)
		for _, over := range start.TurnsDone {
			k.units += min(1, over)
		}
	}
}

// newChecked returns what the checker knows of a tree before it begins.
func newChecked(a Assignment) *checked {
	t := &checked{
		tree: a.Tree, start: a.Start,
		sessions: map[int]*checkedSession{}, over: map[int]bool{}, spawned: map[int]int{}, timers: map[int]seenTimer{},
	}
	if t.start == nil {
		t.sessions[0] = &checkedSession{}
		return t
	}
	for n, over := range t.start.TurnsDone {
		if t.tree.isDone(n, over) {
			t.over[n] = true
		}
	}
	for _, l := range t.start.Live {
		t.sessions[l.Session] = &checkedSession{next: l.Turn, start: true}
		if l.Session > 0 {
			t.spawned[t.tree.Sessions[l.Session].Branch] = -1
		}
	}
	return t
}

// handOff compares the state that a lane hands over with the events of its tree. It returns what the checker of the next phase
// knows of the tree: so the invariants hold over both phases.
func (k *checker) handOff(lane int, state LaneState, ok bool) *checked {
	ordinal, open := k.byLane[lane]
	if open != ok || ok && state.Tree != ordinal {
		k.fail("INV-20: lane %d hands over tree %d: %v, its tree is %d: %v", lane, state.Tree, ok, ordinal, open)
	}
	if !open || !ok {
		return nil
	}
	t := k.trees[ordinal]
	next := map[int]int{}
	for _, s := range state.Sessions {
		next[s.Session] = s.Turn
	}
	for n := range t.tree.Sessions {
		turn, live := next[n]
		s, over := t.sessions[n], 0
		switch {
		case s != nil:
			over = s.next
		case t.gone(n):
			over = len(t.tree.Sessions[n].Turns)
		}
		if live != (s != nil) || live && turn != s.next || state.TurnsDone[n] < over {
			k.fail("INV-20: lane %d hands over session %d: %v, turn %d, %d turns done; it lives: %v, %d are done",
				lane, n, live, turn, state.TurnsDone[n], s != nil, over)
		}
	}
	t.skipped, t.timers = 0, map[int]seenTimer{}
	for b := range t.spawned {
		t.spawned[b] = -1
	}
	for _, s := range t.sessions {
		s.start, s.deferred, s.again, s.parked = true, false, false, nil
	}
	return t
}

// comes records that a turn has become the next of its session: its edges may be checked.
func (k *checker) comes(t *Tree, session, turn int) {
	if turns := t.Sessions[session].Turns; turn < len(turns) {
		k.edges += len(turns[turn].After) + len(turns[turn].Joins)
	}
}

// gone reports whether a session sends nothing more, by events and start state.
func (t *checked) gone(n int) bool { return t.over[n] || len(t.tree.Sessions[n].Turns) == 0 }

// done reports whether all sessions of a branch have ended.
func (t *checked) done(branch int) bool {
	for _, n := range t.tree.Branches[branch].Sessions {
		if !t.gone(n) {
			return false
		}
	}
	return true
}

// spawned checks a child that is spawned.
func (k *checker) spawned(e Event, t *checked) {
	k.units++
	b := t.tree.Sessions[e.Session].Branch
	if t.sessions[e.Session] != nil || t.over[e.Session] {
		k.fail("INV-14: tree %d: session %d is spawned again", e.Tree, e.Session)
	}
	if call, ok := t.spawned[b]; ok && call != k.calls {
		k.fail("INV-14: tree %d: branch %d is spawned again, with session %d", e.Tree, b, e.Session)
	}
	branch := t.tree.Branches[b]
	if p := t.sessions[branch.Parent]; p == nil || p.next != branch.Spawn && p.next != branch.Spawn+1 {
		k.fail("INV-14: tree %d: session %d is spawned by turn %d of session %d, which stands elsewhere", e.Tree, e.Session, branch.Spawn, branch.Parent)
	}
	t.spawned[b] = k.calls
	t.sessions[e.Session] = &checkedSession{}
	k.comes(t.tree, e.Session, 0)
}

// parked checks a session that parks: it has not parked at this turn before, and one of its branches is not done. A session of
// a start state may park for its deadline alone.
func (k *checker) parked(e Event, t *checked) {
	s := t.sessions[e.Session]
	if s == nil || s.flying || s.next != e.Turn {
		k.fail("INV-13: tree %d: session %d waits with turn %d, which is not its next", e.Tree, e.Session, e.Turn)
		return
	}
	if s.parked[e.Turn] {
		k.fail("INV-13: tree %d, session %d: there was a gate before turn %d already", e.Tree, e.Session, e.Turn)
	}
	s.parked = map[int]bool{e.Turn: true}
	for _, b := range t.tree.Sessions[e.Session].Turns[e.Turn].Joins {
		if !t.done(b) {
			return
		}
	}
	if !s.start {
		k.fail("INV-13: tree %d, session %d: the gate before turn %d is open, yet it waits", e.Tree, e.Session, e.Turn)
	}
}

// deferred checks a turn that is left for the next phase.
func (k *checker) deferred(e Event, t *checked) {
	s := t.sessions[e.Session]
	if s == nil || s.flying || s.deferred || s.next != e.Turn {
		k.fail("INV-4: tree %d: session %d defers turn %d, which is not its next", e.Tree, e.Session, e.Turn)
		return
	}
	if most := k.c.limits.LaneRequests; !k.c.paused && (most == 0 || k.requests[e.Lane] < most) {
		k.fail("INV-11: tree %d, session %d: turn %d is deferred, but its lane may send", e.Tree, e.Session, e.Turn)
	}
	s.deferred = true
}

// send checks a turn that is sent.
func (k *checker) send(e Event, t *checked) {
	s := t.sessions[e.Session]
	if s == nil {
		k.fail("INV-2: tree %d: session %d sends turn %d and is not live (over: %v)", e.Tree, e.Session, e.Turn, t.over[e.Session])
		return
	}
	if most := k.c.limits.LaneRequests; k.c.stopped || k.c.paused || most > 0 && k.requests[e.Lane] > most {
		k.fail("INV-8: tree %d, session %d: turn %d is sent after the end, as request %d of its lane", e.Tree, e.Session, e.Turn, k.requests[e.Lane])
	}
	if s.deferred {
		k.fail("INV-4: tree %d, session %d: turn %d is sent and was deferred", e.Tree, e.Session, e.Turn)
	}
	if s.flying {
		k.fail("INV-1: tree %d, session %d: turn %d is sent beside turn %d", e.Tree, e.Session, e.Turn, s.next)
	}
	if e.Turn != s.next {
		k.fail("INV-2: tree %d, session %d: turn %d is sent, next was %d", e.Tree, e.Session, e.Turn, s.next)
	}
	if !s.flying {
		t.flying++
	}
	s.flying, s.start, s.next = true, false, e.Turn
	u := t.tree.Sessions[e.Session].Turns[e.Turn]
	for _, b := range u.Joins {
		if !t.done(b) {
			k.fail("INV-3: tree %d, session %d: turn %d is sent before branch %d is done", e.Tree, e.Session, e.Turn, b)
		}
	}
	for _, r := range u.After {
		if o := t.sessions[r.Session]; !t.gone(r.Session) && (o == nil || o.next <= r.Turn) && (t.start == nil || t.start.TurnsDone[r.Session] <= r.Turn) {
			k.fail("4.7: tree %d, session %d: turn %d is sent before its predecessor, turn %d of session %d", e.Tree, e.Session, e.Turn, r.Turn, r.Session)
		}
	}
}

// sweep compares every table of the conductor with those of the checker.
func (k *checker) sweep() {
	var all struct{ trees, children, flying, timers, waiting, suspended, slots int }
	for lane, t := range k.c.lanes {
		if t == nil {
			continue
		}
		all.trees++
		counted, watched := map[state]int{}, 0
		for at, s := range t.alive {
			counted[s.state]++
			if s.aliveIndex != at || t.sessions[s.index] != s {
				k.fail("INV-16: lane %d: session %d is not where the table says", lane, s.index)
			}
			wantTimer := s.state == due || s.state == parked && s.timerIndex >= 0
			wantWatch := s.state == retained && (!k.c.paused || s.watchIndex >= 0)
			if (s.timerIndex >= 0) != wantTimer || (s.queueIndex >= 0) != (s.state == queued) || (s.watchIndex >= 0) != wantWatch {
				k.fail("INV-4: lane %d: session %d is %s, with places %d, %d, %d", lane, s.index, s.state, s.timerIndex, s.queueIndex, s.watchIndex)
			}
			all.children += min(1, s.index)
			all.suspended += count(s.suspended)
			all.slots += count(s.holdsSlot)
			if s.watchIndex >= 0 {
				watched++
			}
		}
		entries := 0
		for _, s := range t.sessions {
			entries += count(s != nil)
		}
		watching := 0
		for _, h := range t.barrier.waiters {
			watching += h.len()
		}
		if entries != len(t.alive) || watching != watched || int(t.deferred) != counted[deferred] ||
			t.waiting.len() != counted[queued] || t.waitingByDue.len() != counted[queued] || t.inFlight != counted[inFlight] ||
			counted[deciding] > 0 || counted[closed] > 0 {
			k.fail("INV-16: lane %d: %d entries for %d sessions, %d watched, %d queued: %v",
				lane, entries, len(t.alive), watching, t.waiting.len(), counted)
		}
		if len(t.alive) == 0 || t.inFlight == 0 && t.timers.len() == 0 && t.waiting.len() == 0 && t.deferred == 0 && !k.c.paused {
			k.fail("INV-11: lane %d is silently idle: %v", lane, counted)
		}
		left := make([]int, len(t.Branches))
		for _, s := range t.alive {
			if s.index > 0 {
				left[s.plan().Branch]++
			}
		}
		for n, b := range t.branches {
			if b.left != left[n] {
				k.fail("INV-3: lane %d: branch %d has %d sessions left, the table says %d", lane, n, left[n], b.left)
			}
		}
		all.flying += t.inFlight
		all.timers += min(1, t.timers.len())
		all.waiting += min(1, t.waiting.len())
		k.sweepTree(t)
	}
	c := k.c
	if all.trees != len(k.trees) || all.flying != c.counts.InFlight || all.timers != c.timers.trees.len() || all.waiting != c.prefill.trees.len() ||
		len(c.touched) != 0 || len(c.undecided) != 0 || len(c.drained) != 0 {
		k.fail("INV-16: %+v: %d in flight, %d trees with timers, %d in the queue; %d, %d, %d left over from the event",
			all, c.counts.InFlight, c.timers.trees.len(), c.prefill.trees.len(), len(c.touched), len(c.undecided), len(c.drained))
	}
	if all.children != c.counts.ChildrenLive || all.suspended != c.counts.ParentsParked {
		k.fail("INV-18: %+v: %+v", all, c.counts)
	}
	if c.prefill.inUse != all.slots || c.limits.Prefill > 0 && all.slots > c.limits.Prefill {
		k.fail("INV-7: %d slots are held, %d are taken, %d are allowed", all.slots, c.prefill.inUse, c.limits.Prefill)
	}
}

// sweepTree compares a tree with its events: no session is lost, and no timer has moved against another.
func (k *checker) sweepTree(t *tree) {
	seen := k.trees[t.ordinal]
	if seen == nil {
		k.fail("INV-16: tree %d is on lane %d, and is not open", t.ordinal, t.lane)
		return
	}
	for n := range seen.sessions {
		if t.sessions[n] == nil {
			k.fail("INV-20: tree %d: session %d is gone, and no event says so", t.ordinal, n)
		}
	}
	if len(seen.sessions) != len(t.alive) {
		k.fail("INV-16: tree %d: %d sessions are alive, %d by the events", t.ordinal, len(t.alive), len(seen.sessions))
	}
	timers := make(map[int]seenTimer, len(seen.timers))
	for _, s := range t.timers.items {
		now := seenTimer{s.seq, k.c.timers.realTime(s) + seen.skipped + k.skipped}
		if old, ok := seen.timers[s.index]; ok && old.seq == now.seq && old.wake != now.wake {
			k.fail("INV-19: tree %d: the timer of session %d was moved by %v, the others were not", t.ordinal, s.index, now.wake-old.wake)
		}
		timers[s.index] = now
	}
	seen.timers = timers
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}
