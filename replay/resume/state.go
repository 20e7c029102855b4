package resume

import (
	"math"
	"slices"
)

// Trace is what decides where a lane begins in a trace.
type Trace struct {
	Sessions []Session // the root first, every other one behind its parent
	Branches []Branch
}

// Session is one conversation of a trace.
type Session struct {
	Starts []float64 // by turn: when its request started, milliseconds; NaN: not known
	Parent int       // the session that spawns it; -1 for the root
	Depth  int       // as recorded; 0 reads as 1, but for the root
}

// Branch is a group of sessions that the same turn spawns. A session is in one branch.
type Branch struct {
	Parent   int     // the session that spawns it
	Spawn    int     // turn of the parent: the first that names the branch
	Joins    []int   // turns of the parent that wait for it; none: a background branch
	Sessions []int   // its children
	Start    float64 // as recorded, milliseconds; NaN: the earliest first turn of its children
}

// Place says what becomes of a session.
type Place uint8

const (
	Ahead Place = iota // its spawning turn is still to be sent, and spawns it with its turn 0
	Live               // it has a state
	Over               // it sends nothing: its turns are history, or the turn that would spawn it is, or its parent is over
)

func (p Place) String() string { return [...]string{"ahead", "live", "over"}[p] }

// Member says that a turn of the root waits for a session.
type Member struct{ Branch, Turn int }

// State is a session that is live at t*.
type State struct {
	Session, Next int     // Next: the turn it goes on with
	Offset        float64 // from t* to that turn, milliseconds
	Depth         int
	Waiting       bool     // a turn of the root that waits for a child with a state: it is not sent by itself
	Members       []Member // the gates that the session belongs to, also those behind the root's next turn
}

// Primer returns the turn that warmup sends for the state: the last one before t*. None is before it: false.
func (s *State) Primer() (turn int, ok bool) { return s.Next - 1, s.Next > 0 }

// Start is a trace at an instant: section 2.4 of the specification of the replay.
type Start struct {
	TStar    float64 // milliseconds; NaN: the trace has no times, or is played from a turn that was given
	States   []State // the root's first, then branch by branch
	Finished []int   // by session: how many turns are history for the barriers, whatever its place
	Places   []Place // by session
	// Rootless: the root is over, what is live are children that nobody waits for.
	Rootless bool
	// Spawnable: there is a state that can be sent. A lane cannot begin here otherwise.
	Spawnable bool
}

// Bounds returns the first and last start of a request of the trace, in milliseconds: section 2.4 of the specification of
// the replay, step 1. A trace without times has none.
func (t *Trace) Bounds() (first, last float64, ok bool) {
	first, last = math.Inf(1), math.Inf(-1)
	for _, s := range t.Sessions {
		for _, at := range s.Starts {
			if finite(at) {
				first, last = min(first, at), max(last, at)
			}
		}
	}
	return first, last, first <= last
}

// At returns the trace at t*: section 2.4 of the specification of the replay, steps 3 to 10. A request that had started
// before t* is history, also when it was still running.
//
// Only children of the root can be live. A branch that has a live child counts as dispatched: its other children are over,
// and its spawning turn starts none of them, even when it is still to be sent (H15). Neither does it start a child that
// had sent everything before t*.
func (t *Trace) At(tStar float64) *Start {
	s := &Start{TStar: tStar, Finished: make([]int, len(t.Sessions)), Places: make([]Place, len(t.Sessions))}
	if len(t.Sessions) == 0 {
		return s
	}
	for n := range t.Sessions {
		s.Finished[n] = t.Sessions[n].next(tStar)
	}
	next, rooted := s.Finished[0], s.goesOn(t, 0)
	if rooted {
		s.States = append(s.States, s.state(t, 0))
	}
	for b, branch := range t.Branches {
		if branch.Parent != 0 || !t.begun(branch, next, tStar) {
			continue
		}
		for _, n := range branch.Sessions {
			if !s.goesOn(t, n) {
				continue
			}
			child := s.state(t, n)
			for _, turn := range branch.Joins {
				child.Members = append(child.Members, Member{b, turn})
			}
			s.States = append(s.States, child)
			if rooted && slices.Contains(branch.Joins, next) {
				s.States[0].Waiting = true
			}
		}
	}
	s.Rootless = !rooted && len(s.States) > 0
	s.Spawnable = slices.ContainsFunc(s.States, func(c State) bool { return !c.Waiting })
	t.place(s)
	return s
}

// next returns the first turn that started at or after t*, and how many there are when none did.
func (s *Session) next(tStar float64) int {
	for k, at := range s.Starts {
		if finite(at) && at >= tStar {
			return k
		}
	}
	return len(s.Starts)
}

// begun reports whether children of a branch of the root are live at t*, where next is the root's next turn: it had
// started, or its spawning turn is history, so that nothing but the state would start it. A branch without any start had
// started.
func (t *Trace) begun(b Branch, next int, tStar float64) bool {
	if start := t.start(b); !(tStar < start) { // NaN too
		return true
	}
	at := t.Sessions[0].Starts[b.Spawn]
	return finite(at) && at <= tStar && next > b.Spawn
}

// start returns when a branch started, NaN where nothing tells.
func (t *Trace) start(b Branch) float64 {
	if finite(b.Start) {
		return b.Start
	}
	first := math.Inf(1)
	for _, n := range b.Sessions {
		if turns := t.Sessions[n].Starts; len(turns) > 0 && finite(turns[0]) {
			first = min(first, turns[0])
		}
	}
	if !finite(first) {
		return math.NaN()
	}
	return first
}

// goesOn reports whether a session has a next turn at t*.
func (s *Start) goesOn(t *Trace, n int) bool { return s.Finished[n] < len(t.Sessions[n].Starts) }

// state returns the state of a session that has a next turn, without gates.
func (s *Start) state(t *Trace, n int) State {
	session, next := t.Sessions[n], s.Finished[n]
	depth := 0
	if n > 0 {
		depth = max(1, session.Depth)
	}
	return State{Session: n, Next: next, Offset: max(0, session.Starts[next]-s.TStar), Depth: depth}
}

// place fills in the places of all sessions, of which those with a state are known.
func (t *Trace) place(s *Start) {
	next := make([]int, len(t.Sessions)) // of a session that is live or ahead
	spawn := make([]int, len(t.Sessions))
	for n := range spawn {
		spawn[n] = -1 // in no branch: nothing spawns it
	}
	for _, b := range t.Branches {
		for _, n := range b.Sessions {
			spawn[n] = b.Spawn
		}
	}
	for _, c := range s.States {
		s.Places[c.Session], next[c.Session] = Live, c.Next
	}
	for n, session := range t.Sessions {
		if s.Places[n] == Live {
			continue
		}
		p := session.Parent
		if n == 0 || s.Finished[n] == len(session.Starts) || s.Places[p] == Over || spawn[n] < next[p] {
			s.Places[n] = Over
		}
	}
}
