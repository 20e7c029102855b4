package resume

import (
	"time"

	"github.com/agentx/agentx/replay/conductor"
)

// Handoff says when the sessions of a tree that the pressure stage leaves unfinished go on: doc/spec/replay.md 3.6.
type Handoff struct {
	// SinceReturn counts the recorded delay of a turn from the return before it, without the time that has passed since. Else a
	// turn is due at its recorded time, which counts from Origin.
	SinceReturn bool

	Origin  float64       // t* of the tree, or the start of its first turn, in milliseconds; NaN: not known
	End     time.Duration // of the stage; without SinceReturn not used
	Longest time.Duration // until a turn is due, with SinceReturn; 0: no limit
}

// Resume returns the state in which the next phase takes up a tree: with every session that is not finished. Due times count
// from the start of that phase.
func (h Handoff) Resume(t *Trace, s conductor.LaneState) *conductor.StartState {
	state := &conductor.StartState{TurnsDone: s.TurnsDone}
	for _, session := range s.Sessions {
		l := conductor.LiveSession{Session: session.Session, Turn: session.Turn, Parked: session.Parked}
		switch {
		case session.Parked && t.ImmediateJoins:
		case h.SinceReturn:
			l.Due = h.afterReturn(t, session)
		default:
			l.Due = h.asRecorded(t, session)
		}
		state.Live = append(state.Live, l)
	}
	return state
}

// asRecorded returns when a turn is due by its recorded time: without one after its recorded delay.
func (h Handoff) asRecorded(t *Trace, s conductor.HandedSession) time.Duration {
	after := t.Starts[s.Session][s.Turn] - h.Origin
	if !finite(after) {
		return delay(t, s)
	}
	return t.played(after)
}

// afterReturn returns when a turn is due by its delay. A session that returned nothing in the stage did so before it.
func (h Handoff) afterReturn(t *Trace, s conductor.HandedSession) time.Duration {
	if s.Retained {
		return 0
	}
	due := max(0, delay(t, s)-(h.End-max(0, s.ReturnedAt)))
	if h.Longest > 0 {
		due = min(due, h.Longest)
	}
	return due
}

// delay returns the recorded delay of the next turn of a session.
func delay(t *Trace, s conductor.HandedSession) time.Duration {
	turn := t.Sessions[s.Session].Turns[s.Turn]
	if s.Parked {
		return turn.JoinDelay
	}
	return turn.Delay
}
