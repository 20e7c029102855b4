package conductor

import (
	"fmt"
	"time"
)

// The transitions between the states of a session, in the order in which a session makes them.

// addSession adds a fresh session to a tree.
func (c *Conductor) addSession(t *tree, n int) *session {
	s := &session{tree: t, index: n, returnedAt: -1, timerIndex: -1, queueIndex: -1, ageIndex: -1, watchIndex: -1}
	t.add(s)
	return s
}

// schedule makes a session's turn due at an instant.
func (c *Conductor) schedule(s *session, at time.Duration) {
	s.move(fresh, due)
	s.due = at
	c.work.steps++
	c.timers.set(s, at)
}

// spawn spawns the branches of a turn: at its issue those with a child that counts from the issue, at its return the others.
// All children are added before a turn is sent. It returns those that it added.
func (c *Conductor) spawn(s *session, at time.Duration, issue bool) (added []*session) {
	t := s.tree
	for _, n := range s.nextTurn().Spawns {
		if issue && !t.Branches[n].OnIssue {
			continue
		}
		b := t.branch(n)
		if b.spawned { // by the start state, or at the issue
			continue
		}
		b.spawned = true
		added = c.addBranch(t, n, at, added)
	}
	begin := added
	if !issue {
		begin = append(s.pendingChildren, added...)
		s.pendingChildren = nil
	}
	for _, child := range begin {
		if issue && !child.plan().OnIssue {
			s.pendingChildren = append(s.pendingChildren, child)
			continue
		}
		start := c.dueAfter(child, at, child.plan().Offset)
		if start > at {
			c.counts.ChildrenDelayed++
		}
		c.schedule(child, start)
	}
	return added
}

// dueAfter returns when the next turn of a session is due: some time after an instant at which what it follows was done, or at
// its recorded instant if that is later.
func (c *Conductor) dueAfter(s *session, done, gap time.Duration) time.Duration {
	if s.tree.Absolute {
		return max(done, c.timers.recordedTime(s.tree, s.nextTurn().At))
	}
	return done + gap
}

// addBranch adds the sessions of a branch and appends them to a list. One that is unplayable is closed at once, with all
// that it would have spawned (hazard H16).
func (c *Conductor) addBranch(t *tree, n int, at time.Duration, added []*session) []*session {
	for _, k := range t.Branches[n].Sessions {
		if !t.isUnspawned(k) { // of the start state
			continue
		}
		c.counts.ChildrenSpawned++
		if t.Sessions[k].Unplayable {
			c.counts.ChildrenErrored++
			c.emit(Event{Kind: SessionClosed, At: at, Lane: t.lane, Tree: t.ordinal, Session: k, Reason: Unplayable})
			c.skipTurns(t, k, 0, at)
			continue
		}
		added = append(added, c.addSession(t, k))
		t.branch(n).left++
		c.counts.ChildrenLive++
		c.emit(Event{Kind: SessionSpawned, At: at, Lane: t.lane, Tree: t.ordinal, Session: k})
	}
	return added
}

// fire handles a timer whose time came at an instant.
func (c *Conductor) fire(s *session, at time.Duration) {
	c.timers.stop(s)
	c.work.steps++
	c.touch(s.tree)
	s.due = at
	switch {
	case s.state == parked:
		c.unpark(s, at) // if its branches are done
	case s.onHold:
		s.onHold = false
		s.move(due, queued)
		c.prefill.enqueue(s)
	default:
		c.queueOrRetain(s, due)
	}
}

// deferTurn leaves a queued turn that was granted a slot for the next phase.
func (c *Conductor) deferTurn(s *session, now time.Duration) {
	t := s.tree
	c.prefill.release(s)
	s.move(queued, deferred)
	t.deferred++
	c.emit(Event{Kind: TurnDeferred, At: now, Lane: t.lane, Tree: t.ordinal, Session: s.index, Turn: s.turn})
}

// hold makes a queued turn due again when its lane is no longer held.
func (c *Conductor) hold(s *session, until time.Duration) {
	c.prefill.release(s)
	s.move(queued, due)
	s.onHold = true
	c.work.steps++
	c.timers.set(s, until)
}

// sendAgain queues a turn that was sent and that its server did not take: it is held with its lane.
func (c *Conductor) sendAgain(s *session, at time.Duration) {
	s.again = true
	s.due = max(at, c.heldUntil[s.tree.lane])
	s.move(deciding, queued)
	c.prefill.enqueue(s)
}

// queueOrRetain queues a turn whose time has come, or retains it until its predecessors are done.
func (c *Conductor) queueOrRetain(s *session, from state) {
	s.predecessorsDone = 0
	if s.tree.barrier.pass(s) {
		s.due = max(s.due, s.unblockedAt)
		s.move(from, queued)
		c.prefill.enqueue(s)
		return
	}
	s.move(from, retained)
	c.emit(Event{Kind: TurnRetained, At: s.due, Lane: s.tree.lane, Tree: s.tree.ordinal, Session: s.index, Turn: s.turn})
}

// issue launches a turn. All that depends on its issue is recorded before, because launch may fail (hazard H3).
func (c *Conductor) issue(s *session, now time.Duration) {
	t := s.tree
	s.move(queued, inFlight)
	if !s.again {
		s.id = c.counts.Sent
		c.counts.Sent++
	}
	c.counts.InFlight++
	c.inFlight[s.id] = s
	t.inFlight++
	c.touch(t)
	resumed := s.suspended
	if resumed {
		s.suspended = false
		c.counts.ParentsParked--
		c.counts.ParentsResumed++
	}
	added := c.spawn(s, now, true)
	d := Dispatch{ID: s.id, Lane: t.lane, Tree: t.ordinal, Session: s.index, Turn: s.turn, Due: s.due, Queued: c.waitedForLane(s), Issued: now}
	if err := c.launch(d); err != nil {
		c.undoIssue(s, now, resumed, added, err)
		return
	}
	t.sent = true
	t.lastEvent = Event{Kind: TurnSent, At: now, Lane: t.lane, Tree: t.ordinal, Session: s.index, Turn: s.turn}
	c.emit(t.lastEvent)
	if s.again {
		s.again = false
		return
	}
	c.countLaneRequest(t.lane)
	if c.limits.Requests > 0 && c.counts.Sent >= c.limits.Requests {
		c.stop(now)
	}
}

// waitedForLane returns how long a turn was due before its tree had a lane.
func (c *Conductor) waitedForLane(s *session) time.Duration {
	if !c.openings.arriving {
		return 0
	}
	return max(0, s.tree.opened-s.due)
}

// undoIssue takes back the issue of a turn that launch refused. It closes the session and the children that were added at that
// issue.
func (c *Conductor) undoIssue(s *session, now time.Duration, resumed bool, added []*session, err error) {
	t := s.tree
	if resumed {
		s.suspended = true
		c.counts.ParentsParked++
		c.counts.ParentsResumed--
	}
	idle, idleTree := c.idleSince, t.idleSince
	c.removeInFlight(s, now)
	c.idleSince, t.idleSince = idle, idleTree // nothing was on the wire
	if !s.again {
		c.counts.Sent--
	}
	c.emit(Event{Kind: TurnRefused, At: now, Lane: t.lane, Tree: t.ordinal, Session: s.index, Turn: s.turn, Err: err})
	if t.firstRefusal == nil {
		t.firstRefusal = err
	}
	if c.starting && c.refusals[t.lane] == nil {
		c.refusals[t.lane] = err
	}
	s.move(inFlight, deciding)
	for _, child := range added {
		c.close(child, now, Truncated)
	}
	c.close(s, now, Truncated)
}

// removeInFlight removes a session's request from those in flight, with its slot.
func (c *Conductor) removeInFlight(s *session, at time.Duration) {
	t := s.tree
	delete(c.inFlight, s.id)
	c.prefill.release(s)
	c.counts.InFlight--
	if c.counts.InFlight == 0 {
		c.idleSince = at
	}
	t.inFlight--
	if t.inFlight == 0 {
		t.idleSince = at
	}
}

// advance makes a session's next turn due. A turn that joins branches that are not done stays undecided until all that is due
// now has been sent: all children of those branches may be refused, and then the turn need not park (bug 5).
func (c *Conductor) advance(s *session, at time.Duration) {
	c.completeTurns(s.tree, s.index, s.turn+1, at)
	s.turn++
	s.unblockedAt = 0
	if c.passJoins(s) {
		s.move(deciding, fresh)
		c.schedule(s, c.dueAfter(s, at, s.nextTurn().Delay))
		return
	}
	s.due = at // of the return, until decide
	s.tree.undecided++
	s.undecided = true
	c.undecided = append(c.undecided, s)
}

// decide parks the undecided sessions whose branches are still not done. It reports whether there were undecided sessions.
func (c *Conductor) decide() bool {
	list := c.undecided
	for _, s := range list {
		if !s.undecided { // closed since
			continue
		}
		s.undecided = false
		s.tree.undecided--
		u := s.nextTurn()
		if c.passJoins(s) {
			s.move(deciding, fresh)
			c.schedule(s, c.dueAfter(s, s.due, u.Delay))
			continue
		}
		s.due = c.dueAfter(s, s.due, u.JoinDelay)
		c.park(s)
	}
	clear(list) // a closed session must not be referred to
	c.undecided = list[:0]
	return len(list) > 0
}

// passJoins reports whether the branches that a session's turn joins are done.
func (c *Conductor) passJoins(s *session) bool {
	joins := s.nextTurn().Joins
	for s.joinsDone < len(joins) {
		b := s.tree.branch(joins[s.joinsDone])
		if b.left > 0 {
			return false
		}
		s.unblockedAt = max(s.unblockedAt, b.end)
		s.joinsDone++
		c.work.edges++
	}
	s.joinsDone = 0
	return true
}

// park lets a session wait until its branches are done and its deadline, which is in s.due, has passed.
func (c *Conductor) park(s *session) {
	s.move(deciding, parked)
	s.suspended = true
	c.counts.ParentsSuspended++
	c.counts.ParentsParked++
	c.timers.set(s, s.due)
	c.emit(Event{Kind: SessionParked, At: s.due, Lane: s.tree.lane, Tree: s.tree.ordinal, Session: s.index, Turn: s.turn})
}

// unpark queues or retains a parked session if its branches are done and its deadline has passed; at is when the later of the two
// happened.
func (c *Conductor) unpark(s *session, at time.Duration) {
	if s.timerIndex >= 0 || !c.passJoins(s) {
		return
	}
	s.unblockedAt = max(s.unblockedAt, at)
	c.queueOrRetain(s, parked)
}

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
