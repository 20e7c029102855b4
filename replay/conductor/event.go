package conductor

import (
	"slices"
	"time"
)

// EventKind is what happened.
type EventKind uint8

// The kinds of events.
const (
	TreeOpened      EventKind = iota // a lane took a tree
	TreeArrived                      // with OpenBy: a tree arrived, and takes a lane or waits for one. Lane and Tree are -1
	TreeSkipped                      // with OpenBy: a tree that arrived cannot be played. Lane and Tree are -1
	SessionSpawned                   // a child was spawned
	TurnRetained                     // a turn waits for its recorded predecessors
	TurnReleased                     // a retained turn waits no longer
	SessionParked                    // a session waits for its branches
	TurnSent                         // a turn was launched
	TurnRefused                      // launch returned an error
	TurnDeferred                     // a turn is left for the next phase
	TurnReturned                     // a request ended
	SessionClosed                    // a session sends nothing more
	TreeDeadlocked                   // nothing can happen in a tree any more
	TreeDrained                      // the last session of a tree was closed
	TreeReleased                     // the same, of a tree that was open when the phase ended
	LaneFinished                     // a lane has no tree left
	TreeIdleSkipped                  // the cap on idle time of a tree advanced its clock
	IdleSkipped                      // the cap on idle time of the system advanced all clocks
)

// EndReason says how a session ended.
type EndReason uint8

// The reasons.
const (
	Completed    EndReason = iota // its last turn returned OK
	Errored                       // its last turn failed
	Truncated                     // before its last turn: overflow, refusal, a limit, the end of the phase, a deadlock
	Unplayable                    // Session.Unplayable
	NeverSpawned                  // the turn that would have spawned it was not sent
)

// Event is one thing that happened. Which fields are set depends on its kind.
type Event struct {
	Kind    EventKind
	At      time.Duration
	Lane    int
	Tree    int
	Session int
	Turn    int

	Outcome  Outcome       // of TurnReturned
	Reason   EndReason     // of SessionClosed
	Skipped  time.Duration // of TreeIdleSkipped and IdleSkipped
	Err      error         // of TurnRefused; of LaneFinished: why the lane finished early
	Deadlock *Deadlock     // of TreeDeadlocked
}

// Deadlock says why nothing can happen in a tree any more: by a defect of the recording or of this program.
type Deadlock struct {
	Blocked []Blocked // by session
	Last    Event     // the last TurnSent or TurnReturned of the tree, else its TreeOpened
}

// Blocked is a session that waits for something that cannot happen.
type Blocked struct {
	Session, Turn int
	Branches      []int     // that its turn joins and that are not done; nil: it waits for predecessors
	After         []TurnRef // predecessors that are not done
}

// describeDeadlock describes a tree in which nothing can happen any more.
func (c *Conductor) describeDeadlock(t *tree) *Deadlock {
	d := &Deadlock{Last: t.lastEvent}
	for _, s := range t.alive {
		b := Blocked{Session: s.index, Turn: s.turn}
		switch s.state {
		case parked:
			for _, n := range s.nextTurn().Joins {
				if t.branches[n].left > 0 {
					b.Branches = append(b.Branches, n)
				}
			}
		case retained:
			for _, r := range s.nextTurn().After {
				if r.Turn >= t.barrier.turnsDone[r.Session] {
					b.After = append(b.After, r)
				}
			}
		}
		d.Blocked = append(d.Blocked, b)
	}
	slices.SortFunc(d.Blocked, func(a, b Blocked) int { return a.Session - b.Session })
	return d
}
