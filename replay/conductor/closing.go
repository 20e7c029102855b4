package conductor

import (
	"fmt"
	"time"
)

// The transitions that end a session, and what they do to others.

// completeTurns records that the first turns of a session are done, and queues the turns that waited for them.
func (c *Conductor) completeTurns(t *tree, session, turns int, at time.Duration) {
	for _, s := range t.barrier.complete(session, turns, at) {
		s.due = max(s.due, s.unblockedAt, at)
		s.move(retained, queued)
		c.prefill.enqueue(s)
		c.emit(Event{Kind: TurnReleased, At: at, Lane: t.lane, Tree: t.ordinal, Session: s.index, Turn: s.turn})
	}
}

// skipTurns records that a session will not send its turns from one on: they are done, and what they would have spawned is
// closed (hazards H9 and H16).
func (c *Conductor) skipTurns(t *tree, session, from int, at time.Duration) {
	if t.closing {
		return
	}
	turns := t.Sessions[session].Turns
	c.completeTurns(t, session, len(turns), at)
	for _, u := range turns[min(from, len(turns)):] {
		for _, n := range u.Spawns {
			if b := t.branch(n); !b.spawned {
				b.spawned = true
				c.skipBranch(t, n, at)
			}
		}
	}
}

// skipBranch closes the sessions of a branch that will not be spawned.
func (c *Conductor) skipBranch(t *tree, n int, at time.Duration) {
	for _, k := range t.Branches[n].Sessions {
		if t.isDone(k, t.barrier.turnsDone[k]) { // before the tree was opened
			continue
		}
		c.emit(Event{Kind: SessionClosed, At: at, Lane: t.lane, Tree: t.ordinal, Session: k, Reason: NeverSpawned})
		c.skipTurns(t, k, 0, at)
	}
}

// close ends a session, unparks its parent if that waited for it alone, and drains the tree with its last session.
func (c *Conductor) close(s *session, at time.Duration, reason EndReason) {
	t := s.tree
	c.closePendingChildren(s, at)
	c.leaveState(s)
	s.state = closed
	t.remove(s)
	t.end = max(t.end, at)
	c.touch(t)
	if s.suspended {
		s.suspended = false
		c.counts.ParentsParked--
		c.counts.JoinsSuppressed++
	}
	c.emit(Event{Kind: SessionClosed, At: at, Lane: t.lane, Tree: t.ordinal, Session: s.index, Turn: s.turn, Reason: reason})
	c.skipTurns(t, s.index, s.turn, at)
	if s.index > 0 {
		c.endChild(s, at, reason)
	}
	if len(t.alive) == 0 {
		t.openAtEnd = c.stopped
		c.drained = append(c.drained, t)
	}
}

// closePendingChildren closes the children that wait for the return of a session's turn.
func (c *Conductor) closePendingChildren(s *session, at time.Duration) {
	list := s.pendingChildren
	s.pendingChildren = nil
	for _, child := range list {
		if child.state == fresh { // not closed with its tree
			c.close(child, at, Truncated)
		}
	}
}

// leaveState removes a session from all that it waits in.
func (c *Conductor) leaveState(s *session) {
	t := s.tree
	switch s.state {
	case retained:
		t.barrier.drop(s)
	case queued:
		c.prefill.dequeue(s)
	case deferred:
		t.deferred--
	case deciding:
		if s.undecided {
			s.undecided = false
			t.undecided--
		}
	case closed, inFlight:
		panic(fmt.Sprintf("conductor: lane %d, tree %d, session %d is %s and cannot be closed", t.lane, t.ordinal, s.index, s.state))
	}
	c.timers.stop(s)
}

// endChild counts the end of a child in its branch, and unparks the parent if the branch is done by that.
func (c *Conductor) endChild(s *session, at time.Duration, reason EndReason) {
	t := s.tree
	c.counts.endChild(reason)
	n := s.plan().Branch
	b := t.branch(n)
	b.left--
	b.end = max(b.end, at)
	parent := t.session(t.Branches[n].Parent)
	if b.left == 0 && !t.closing && parent != nil && parent.state == parked {
		c.unpark(parent, at)
	}
}
