package conductor

import (
	"fmt"
	"time"
)

// The arrows between the states of a session, in the order in which it takes them.

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
		if t.Sessions[k].Unplayable {
			c.counts.ChildrenErrored++
			c.tell(Event{Kind: SessionClosed, At: at, Lane: t.lane, Tree: t.ordinal, Session: k, Reason: Unplayable})
			c.skip(t, k, 0, at)
			continue
		}
		born = append(born, c.register(t, k))
		t.branch(n).left++
		c.counts.ChildrenLive++
		c.tell(Event{Kind: SessionSpawned, At: at, Lane: t.lane, Tree: t.ordinal, Session: k})
	}
	return born
}

// fire is a timer whose time has come at an instant.
func (c *Conductor) fire(s *session, at time.Duration) {
	c.timers.stop(s)
	c.steps++
	c.touch(s.tree)
	if s.state == parked {
		s.due = at
		c.unpark(s, at) // if its branches are done
		return
	}
	s.due = at
	if s.putOff {
		s.putOff = false
		s.move(due, queued)
		c.slots.wait(s)
		return
	}
	c.admit(s, due)
}

// putOff lets a turn that could go wait until its lane is no longer held.
func (c *Conductor) putOff(s *session, until time.Duration) {
	c.slots.release(s)
	s.move(queued, due)
	s.putOff = true
	c.steps++
	c.timers.set(s, until)
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
	c.tell(Event{Kind: TurnRetained, At: s.due, Lane: s.tree.lane, Tree: s.tree.ordinal, Session: s.index, Turn: s.turn})
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
	order := Dispatch{ID: s.id, Lane: t.lane, Tree: t.ordinal, Session: s.index, Turn: s.turn, Due: s.due, Issued: now}
	if err := c.launch(order); err != nil {
		c.refuse(s, now, resumed, born, err)
		return
	}
	t.sent++
	t.last = Event{Kind: TurnSent, At: now, Lane: t.lane, Tree: t.ordinal, Session: s.index, Turn: s.turn, Due: s.due}
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
	c.tell(Event{Kind: TurnRefused, At: now, Lane: t.lane, Tree: t.ordinal, Session: s.index, Turn: s.turn, Err: err})
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
	c.tell(Event{Kind: SessionParked, At: s.due, Lane: s.tree.lane, Tree: s.tree.ordinal, Session: s.index, Turn: s.turn})
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
		c.tell(Event{Kind: TurnReleased, At: at, Lane: t.lane, Tree: t.ordinal, Session: s.index, Turn: s.turn})
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
					c.tell(Event{Kind: SessionClosed, At: at, Lane: t.lane, Tree: t.ordinal, Session: k, Reason: NeverSpawned})
					c.skip(t, k, 0, at)
				}
			}
		}
	}
}

// close ends a session, tells its parent, and ends the tree with its last session.
func (c *Conductor) close(s *session, at time.Duration, why EndReason) {
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
	c.tell(Event{Kind: SessionClosed, At: at, Lane: t.lane, Tree: t.ordinal, Session: s.index, Turn: s.turn, Reason: why})
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
