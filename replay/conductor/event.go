package conductor

import (
	"slices"
	"time"
)

// Kind is what happened.
type Kind uint8

// What an observer is told of.
const (
	Opened       Kind = iota // a lane took a tree
	Spawned                  // a child was registered
	Retained                 // a turn waits for recorded predecessors
	Released                 // and need no longer
	Parked                   // a session waits for its branches
	Sent                     // a turn is handed to the transport
	Refused                  // which could not take it
	Returned                 // a request is over
	Closed                   // a session sends nothing more
	Wedged                   // nothing can happen in a tree any more
	Drained                  // a tree is over
	ReleasedTree             // a tree is over because the phase is
	Finished                 // a lane has no tree left
	Skipped                  // the clock of a tree was put forward
	SkippedAll               // the clock of all trees was put forward
)

// Why says how a session ended.
type Why uint8

// How sessions end.
const (
	Completed    Why = iota // its last turn returned well
	Errored                 // its last turn failed
	Truncated               // before its last turn: overflow, refusal, a limit, the deadline, a wedge
	Unplayable              // it could not be played
	NeverSpawned            // what would have spawned it was not sent
)

// Event is one thing that happened. Which fields are set depends on its kind.
type Event struct {
	Kind    Kind
	At      time.Duration
	Lane    int
	Tree    int
	Session int
	Turn    int

	Due     time.Duration // of what was sent
	Outcome Outcome       // of what returned
	Why     Why           // of what closed
	Skipped time.Duration
	Err     error  // of what was refused, or why a lane has finished before its time
	Wedge   *Wedge // of what wedged
}

// Wedge says why nothing can happen in a tree any more: a defect of the recording or of this program.
type Wedge struct {
	Blocked []Blocked
	Last    Event // the last send or return of the tree, or that it was opened
}

// Blocked is a session that waits in vain.
type Blocked struct {
	Session, Turn int
	Branches      []int // that its turn joins and that are not done; nil for one that waits for predecessors
	After         []Ref // predecessors that are not over
}

// wedge describes a tree in which nothing can happen any more.
func (c *Conductor) wedge(t *tree) *Wedge {
	w := &Wedge{Last: t.last}
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

	TreesOpened   int
	TreesDrained  int
	TreesReleased int // open when the phase ended
	TreesOpen     int
	TreesWedged   int // of those drained

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

	Jumps   int           // of the cap on idle time of the system
	Skipped time.Duration // by them
}

// child books the end of a child that was live.
func (n *Counts) child(why Why) {
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
