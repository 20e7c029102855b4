// Package resume decides where lanes begin in their first traces: doc/spec/replay.md 2.1 to 2.5 and 4.1. It computes with
// numbers, has no clock and reads no files. Its results are what package conductor takes:
//
//	seed := resume.LaneSeed("42", "trace-1", lane)
//	first, last, ok := trace.Bounds()
//	tStar := resume.Ratios{Min: 0.25, Max: 0.75}.Instant(first, last, seed)
//	state := trace.At(tStar) // *conductor.StartState
//	skipped := resume.Spread.Align(states, false, limit)
//
// alignment.go decides whether a run may have more lanes than traces, gives each lane its random numbers, draws t* with them, and
// moves the lanes of a run to the start of the phase; it also draws where a trace without times begins. state.go finds the sessions
// of a trace that are live at t*.
//
// Recorded times are milliseconds on the clock of the recording. A time that is not finite is not known.
package resume

import (
	"math"
	"slices"
	"time"

	"github.com/agentx/agentx/replay/conductor"
)

// finite reports whether a time is known.
func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// Trace is a tree and the recorded times of its requests, in milliseconds on the clock of the recording. A time that is
// not finite is not known.
type Trace struct {
	*conductor.Tree
	Starts       [][]float64 // by session and turn: when the request started
	BranchStarts []float64   // by branch: when it started; not known: with the earliest first turn of its sessions

	// Pace returns how long a recorded time in milliseconds is played; nil: as long as recorded.
	Pace func(milliseconds float64) time.Duration

	ImmediateJoins bool // a session that waits for branches has no deadline
}

// Bounds returns the first and the last start of a request: doc/spec/replay.md 2.4, step 1. ok is false for a trace
// without times.
func (t *Trace) Bounds() (first, last float64, ok bool) {
	first, last = math.Inf(1), math.Inf(-1)
	for _, starts := range t.Starts {
		for _, at := range starts {
			if finite(at) {
				first, last = min(first, at), max(last, at)
			}
		}
	}
	return first, last, first <= last
}

// At returns the state of the trace at t*, where a lane begins it: doc/spec/replay.md 2.4, steps 3 to 10. The root
// comes first among the live sessions, then one branch after the other. Their due times count from t*. Without a live
// session nothing can be sent, and no lane can begin there.
//
// A request that started before t* is done, even if it was still running. Only children of the root can be live. A branch
// with a live child counts as spawned: its other children are over, and its spawning turn starts none of them, even if
// that turn is still to be sent (hazard H15). Nor does that turn start a child that sent everything before t*.
func (t *Trace) At(tStar float64) *conductor.StartState {
	done := make([]int, len(t.Sessions))
	for n := range done {
		done[n] = t.started(n, tStar)
	}
	state := &conductor.StartState{}
	root := t.unfinished(0, done)
	if root {
		state.Live = append(state.Live, t.live(0, done, tStar))
	}
	for b := range t.Branches {
		if !t.spawned(b, done, tStar) {
			continue
		}
		for _, n := range t.Branches[b].Sessions {
			if !t.unfinished(n, done) {
				continue
			}
			state.Live = append(state.Live, t.live(n, done, tStar))
			if root && slices.Contains(t.Sessions[0].Turns[done[0]].Joins, b) {
				state.Live[0].Parked = true
				if t.ImmediateJoins {
					state.Live[0].Due = 0
				}
			}
		}
	}
	t.finish(state, done)
	return state
}

// started returns how many turns of a session come before the first one that started at or after t*.
func (t *Trace) started(session int, tStar float64) int {
	for k, at := range t.Starts[session] {
		if finite(at) && at >= tStar {
			return k
		}
	}
	return len(t.Starts[session])
}

// unfinished reports whether a session has turns that are not done.
func (t *Trace) unfinished(session int, done []int) bool {
	return session < len(t.Sessions) && done[session] < len(t.Sessions[session].Turns)
}

// live returns the state of a session with a next turn.
func (t *Trace) live(session int, done []int, tStar float64) conductor.LiveSession {
	next := done[session]
	return conductor.LiveSession{Session: session, Turn: next, Due: t.played(t.Starts[session][next] - tStar)}
}

// played returns how long a recorded time in milliseconds is played: as long as recorded, but at most 146 years, without a
// Pace. A negative time is 0.
func (t *Trace) played(milliseconds float64) time.Duration {
	if milliseconds = max(0, milliseconds); t.Pace != nil {
		return t.Pace(milliseconds)
	}
	return time.Duration(min(milliseconds*1e6, 1<<62))
}

// spawned reports whether the sessions of a branch can be live at t*: the branch hangs on the root, and had started.
func (t *Trace) spawned(b int, done []int, tStar float64) bool {
	branch := t.Branches[b]
	if branch.Parent != 0 {
		return false
	}
	if start := t.branchStart(b); !(tStar < start) { // NaN too
		return true
	}
	at := t.Starts[0][branch.Spawn]
	return finite(at) && at <= tStar && done[0] > branch.Spawn
}

// branchStart returns when a branch started, NaN if that is not known.
func (t *Trace) branchStart(b int) float64 {
	if finite(t.BranchStarts[b]) {
		return t.BranchStarts[b]
	}
	first := math.NaN()
	for _, n := range t.Branches[b].Sessions {
		if starts := t.Starts[n]; len(starts) > 0 && finite(starts[0]) && !(starts[0] >= first) {
			first = starts[0]
		}
	}
	return first
}

// finish sets how many turns of each session are done. All turns are for a session that is over: it sent everything, the
// turn that spawns it is done, or its parent is over. No turn is for one that will be spawned.
func (t *Trace) finish(state *conductor.StartState, done []int) {
	state.TurnsDone = make([]int, len(t.Sessions))
	live := make([]bool, len(t.Sessions))
	for _, s := range state.Live {
		live[s.Session], state.TurnsDone[s.Session] = true, s.Turn
	}
	over := make([]bool, len(t.Sessions))
	for n := range t.Sessions { // parents come first
		if live[n] {
			continue
		}
		over[n] = n == 0 || !t.unfinished(n, done)
		if !over[n] {
			branch := t.Branches[t.Sessions[n].Branch]
			over[n] = over[branch.Parent] || branch.Spawn < state.TurnsDone[branch.Parent]
		}
		if over[n] {
			state.TurnsDone[n] = len(t.Sessions[n].Turns)
		}
	}
}

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
