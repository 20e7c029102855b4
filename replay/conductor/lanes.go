package conductor

import (
	"fmt"
	"slices"
	"time"
)

// ErrEmptyTrees is the error of a lane that has finished because maxEmptyTrees trees in a row sent nothing.
var ErrEmptyTrees = fmt.Errorf("%d trees in a row sent nothing, so the lane takes no other", maxEmptyTrees)

// maxEmptyTrees is how many trees in a row a lane opens that end without a request. Such trees end at the instant at which
// they are opened: with an endless source the lane would never stop opening them.
const maxEmptyTrees = 1000

// openTree opens the next tree of a lane, if there is one. Without a start state its first turn is due at once. emptyTrees
// trees in a row before it sent nothing.
func (c *Conductor) openTree(lane int, at time.Duration, emptyTrees int) {
	if c.stopped || c.paused {
		return
	}
	var next Assignment
	ok := c.limits.Trees == 0 || c.counts.TreesOpened < c.limits.Trees
	if ok {
		next, ok = c.source.Next(lane)
	}
	if !ok {
		c.finishLane(lane, at, nil)
		return
	}
	c.play(next, lane, at, at).emptyTrees = emptyTrees
}

// play lets a lane play a tree that counts from one instant and is opened at another.
func (c *Conductor) play(next Assignment, lane int, from, at time.Duration) *tree {
	t := c.newTree(next.Tree, lane, from, at)
	t.until = next.Until
	c.lanes[lane] = t
	c.counts.TreesOpened++
	c.touch(t)
	t.lastEvent = Event{Kind: TreeOpened, At: at, Lane: lane, Tree: t.ordinal}
	c.emit(t.lastEvent)
	if next.Start == nil {
		c.schedule(c.addSession(t, 0), from)
	} else {
		c.resume(t, next.Start, from)
	}
	return t
}

// newTree returns a tree without a session, which a lane opens at one instant and whose times count from another.
func (c *Conductor) newTree(plan *Tree, lane int, from, at time.Duration) *tree {
	sessions := len(plan.Sessions)
	t := &tree{
		Tree: plan, lane: lane, ordinal: c.counts.TreesOpened, opened: at, from: c.timers.systemTime(from), idleSince: at, end: at,
		sessionTable: sessionTable{sessions: make([]*session, sessions), branches: make([]branchState, len(plan.Branches)), work: &c.work},
		barrier:      barrier{turnsDone: make([]int, sessions), lastDone: make([]completion, sessions), work: &c.work},
	}
	c.timers.attach(t)
	c.prefill.attach(t)
	return t
}

// resume starts a tree in the middle (doc/spec/replay.md 6.6). A branch with a live session counts as spawned, and so does
// one whose sessions are all done. So a gate sees the same whether its branches ended before or after this instant (bug 4,
// hazards H1 and H15). Its due times count from the instant from.
func (c *Conductor) resume(t *tree, start *StartState, from time.Duration) {
	for n, turns := range start.TurnsDone {
		if turns > 0 {
			t.barrier.seed(n, turns)
		}
	}
	for _, l := range start.Live {
		s := c.addSession(t, l.Session)
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
		begun := slices.ContainsFunc(b.Sessions, func(k int) bool { return live[k] })
		if begun || !slices.ContainsFunc(b.Sessions, func(k int) bool { return !t.isDone(k, start.TurnsDone[k]) }) {
			t.branch(n).spawned = true
		}
	}
	for _, l := range start.Live {
		s := t.session(l.Session)
		if !l.Parked {
			c.schedule(s, from+l.Due)
			continue
		}
		s.move(fresh, deciding)
		s.due = from + l.Due
		c.park(s)
	}
}

// replaceDrained opens the next tree on the lanes whose trees have drained. It reports whether there were any.
func (c *Conductor) replaceDrained() bool {
	list := c.drained
	c.drained = nil
	for _, t := range list {
		c.endTree(t)
		emptyTrees := 0
		if !t.sent {
			emptyTrees = t.emptyTrees + 1
		}
		switch {
		case c.openings.arriving:
			c.freeLane(t.lane, t.end)
		case t.firstRefusal != nil && !t.sent: // the next tree may be refused too, and the next, all at this instant
			c.finishLane(t.lane, t.end, t.firstRefusal)
		case emptyTrees == maxEmptyTrees:
			c.finishLane(t.lane, t.end, ErrEmptyTrees)
		default:
			c.openTree(t.lane, t.end, emptyTrees)
		}
	}
	return len(list) > 0
}

// finishLane ends a lane that takes no other tree.
func (c *Conductor) finishLane(lane int, at time.Duration, err error) {
	c.emit(Event{Kind: LaneFinished, At: at, Lane: lane, Err: err})
	if c.mayRequest(lane) {
		c.endLaneRequests()
	}
}

// endTree takes a drained tree off its lane.
func (c *Conductor) endTree(t *tree) {
	c.lanes[t.lane] = nil
	kind := TreeDrained
	if t.openAtEnd {
		kind = TreeReleased
		c.counts.TreesReleased++
	} else {
		c.counts.TreesDrained++
	}
	c.emit(Event{Kind: kind, At: t.end, Lane: t.lane, Tree: t.ordinal})
}

// closeDeadlocked reports and closes the trees in which nothing can happen any more (doc/spec/replay.md 4.10). Only a tree that
// the present call concerns can have become one.
func (c *Conductor) closeDeadlocked(now time.Duration) {
	for k := 0; k < len(c.touched); k++ {
		t := c.touched[k]
		if len(t.alive) == 0 || t.inFlight > 0 || t.undecided > 0 || t.timers.len() > 0 || t.waiting.len() > 0 || t.deferred > 0 {
			continue
		}
		c.counts.TreesDeadlocked++
		c.emit(Event{Kind: TreeDeadlocked, At: now, Lane: t.lane, Tree: t.ordinal, Deadlock: c.describeDeadlock(t)})
		t.end = now
		c.closeTree(t, now)
	}
}

// closeTree closes the sessions of a tree that are not in flight. It unparks and releases none of them.
func (c *Conductor) closeTree(t *tree, at time.Duration) {
	t.closing = true
	for _, s := range slices.Clone(t.alive) {
		if s.state != inFlight && s.state != closed { // a child that waits for a turn of its parent is closed with it
			c.close(s, at, Truncated)
		}
	}
}
