package conductor

import (
	"slices"
	"time"
)

// EventKind is what happened.
type EventKind uint8

// What an observer is told of.
const (
	TreeOpened      EventKind = iota // a lane took a tree
	SessionSpawned                   // a child was registered
	TurnRetained                     // a turn waits for recorded predecessors
	TurnReleased                     // and need no longer
	SessionParked                    // a session waits for its branches
	TurnSent                         // a turn is handed to the transport
	TurnRefused                      // which could not take it
	TurnReturned                     // a request is over
	SessionClosed                    // a session sends nothing more
	TreeDeadlocked                   // nothing can happen in a tree any more
	TreeDrained                      // a tree is over
	TreeReleased                     // a tree is over because the phase is
	LaneFinished                     // a lane has no tree left
	TreeIdleSkipped                  // the clock of a tree was put forward
	IdleSkipped                      // the clock of all trees was put forward
)

// EndReason says how a session ended.
type EndReason uint8

// How sessions end.
const (
	Completed    EndReason = iota // its last turn returned well
	Errored                       // its last turn failed
	Truncated                     // before its last turn: overflow, refusal, a limit, the deadline, a wedge
	Unplayable                    // it could not be played
	NeverSpawned                  // what would have spawned it was not sent
)

// Event is one thing that happened. Which fields are set depends on its kind.
type Event struct {
	Kind    EventKind
	At      time.Duration
	Lane    int
	Tree    int
	Session int
	Turn    int

	Due      time.Duration // of what was sent
	Outcome  Outcome       // of what returned
	Reason   EndReason     // of what closed
	Skipped  time.Duration
	Err      error     // of what was refused, or why a lane has finished before its time
	Deadlock *Deadlock // of what wedged
}

// Deadlock says why nothing can happen in a tree any more: a defect of the recording or of this program.
type Deadlock struct {
	Blocked []Blocked
	Last    Event // the last send or return of the tree, or that it was opened
}

// Blocked is a session that waits in vain.
type Blocked struct {
	Session, Turn int
	Branches      []int     // that its turn joins and that are not done; nil for one that waits for predecessors
	After         []TurnRef // predecessors that are not over
}

// wedge describes a tree in which nothing can happen any more.
func (c *Conductor) wedge(t *tree) *Deadlock {
	w := &Deadlock{Last: t.last}
	for _, s := range t.alive {
		b := Blocked{Session: s.index, Turn: s.turn}
		switch s.state {
		case parked:
			for _, n := range s.next().Joins {
				if t.branches[n].left > 0 {
					b.Branches = append(b.Branches, n)
				}
			}
		case retained:
			for _, r := range s.next().After {
				if r.Turn >= t.barrier.over[r.Session] {
					b.After = append(b.After, r)
				}
			}
		}
		w.Blocked = append(w.Blocked, b)
	}
	slices.SortFunc(w.Blocked, func(a, b Blocked) int { return a.Session - b.Session })
	return w
}

// Counts are what a conductor has done so far: section 8.9. At every instant
//
//	ChildrenResumed + ChildrenSpawned = ChildrenCompleted + ChildrenErrored + ChildrenTruncated + ChildrenLive
//	ParentsSuspended = ParentsResumed + JoinsSuppressed + ParentsParked
//	TreesOpened = TreesDrained + TreesReleased + TreesOpen
type Counts struct {
	Sent     int
	InFlight int

	TreesOpened     int
	TreesDrained    int
	TreesReleased   int // open when the phase ended
	TreesOpen       int
	TreesDeadlocked int // of those drained

	ChildrenResumed   int // of start states
	ChildrenSpawned   int
	ChildrenDelayed   int // of those spawned: with an offset
	ChildrenCompleted int
	ChildrenErrored   int
	ChildrenTruncated int
	ChildrenLive      int

	ParentsSuspended int // parkings
	ParentsResumed   int // turns of parked parents handed to the transport
	JoinsSuppressed  int // parkings that ended without
	ParentsParked    int

	IdleJumps   int           // of the cap on idle time of the system
	IdleSkipped time.Duration // by them
}

// child books the end of a child that was live.
func (n *Counts) child(why EndReason) {
	n.ChildrenLive--
	switch why {
	case Completed:
		n.ChildrenCompleted++
	case Errored:
		n.ChildrenErrored++
	default:
		n.ChildrenTruncated++
	}
}
