package conductor

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

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
