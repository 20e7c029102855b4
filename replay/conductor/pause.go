package conductor

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// A phase that leaves its trees to the next one ends in a pause: the pressure stage of doc/spec/replay.md 3.6.

// Pause ends the sending, but closes nothing: the sessions wait for the next phase, to which Handoff gives them. From then on
// no timer fires, every turn that could be sent is deferred or stays retained, and a lane whose tree drains takes no other.
// Requests in flight may return; a session whose request is cancelled goes on with its next turn. Done reports when nothing
// is in flight any more. Stop closes what a pause has kept.
func (c *Conductor) Pause(now time.Duration) {
	c.pause()
	c.settle(now)
}

// pause is Pause without the sending of what is due.
func (c *Conductor) pause() {
	c.paused = true
	c.endArrivals()
	for _, t := range c.lanes {
		if t != nil {
			t.barrier.paused = true
		}
	}
}

// mayRequest reports whether a lane has sent fewer requests than Limits.LaneRequests.
func (c *Conductor) mayRequest(lane int) bool {
	return c.limits.LaneRequests == 0 || c.requests[lane] < c.limits.LaneRequests
}

// countLaneRequest counts a request that a lane has sent.
func (c *Conductor) countLaneRequest(lane int) {
	c.requests[lane]++
	if c.requests[lane] == c.limits.LaneRequests {
		c.endLaneRequests()
	}
}

// endLaneRequests pauses the phase when the last lane has sent its requests, or has finished before.
func (c *Conductor) endLaneRequests() {
	c.below--
	if c.below == 0 && c.limits.LaneRequests > 0 {
		c.pause()
	}
}

// LaneState is the tree of a lane at the end of a paused phase. The next phase takes it up with a StartState of the same
// sessions, due when it decides, and the same TurnsDone: then it goes on exactly here.
type LaneState struct {
	Tree      int // ordinal
	Sessions  []HandedSession
	TurnsDone []int // as in StartState
}

// HandedSession is a session that is not finished.
type HandedSession struct {
	Session, Turn int           // the next turn
	Parked        bool          // it waits for branches that its turn joins
	Retained      bool          // it waits for recorded predecessors, or did when the phase was paused
	ReturnedAt    time.Duration // when its last request of this phase ended; below 0: it sent none
}

// Handoff returns the state of a lane's tree, with all sessions that are not finished, by depth and name: also those that
// sent nothing in this phase (hazard H19). It returns false if the lane has no tree. It panics when a request of the tree is
// in flight: call it when Done reports true, and before Stop.
func (c *Conductor) Handoff(lane int) (state LaneState, ok bool) {
	if lane >= len(c.lanes) || c.lanes[lane] == nil {
		return LaneState{}, false
	}
	t := c.lanes[lane]
	if t.inFlight > 0 {
		panic(fmt.Sprintf("conductor: lane %d, tree %d: hand-off with %d requests in flight", lane, t.ordinal, t.inFlight))
	}
	state = LaneState{Tree: t.ordinal, TurnsDone: slices.Clone(t.barrier.turnsDone)}
	for n, s := range t.Sessions {
		if n > 0 && len(s.Turns) == 0 && t.branches[s.Branch].spawned {
			state.TurnsDone[n] = 1 // has no turn that could say it is over
		}
	}
	for _, s := range t.alive {
		state.Sessions = append(state.Sessions, HandedSession{
			Session: s.index, Turn: s.turn, ReturnedAt: s.returnedAt, Retained: s.state == retained,
			Parked: s.state == parked && slices.ContainsFunc(s.nextTurn().Joins, func(n int) bool { return t.branches[n].left > 0 }),
		})
	}
	slices.SortFunc(state.Sessions, func(a, b HandedSession) int {
		x, y := &t.Sessions[a.Session], &t.Sessions[b.Session]
		return cmp.Or(cmp.Compare(x.Depth, y.Depth), cmp.Compare(x.Rank, y.Rank))
	})
	return state, true
}
