package conductor

import "time"

// Counts count what a conductor has done so far (doc/spec/replay.md 8.9). At every instant
//
//	ChildrenResumed + ChildrenSpawned = ChildrenCompleted + ChildrenErrored + ChildrenTruncated + ChildrenLive
//	ParentsSuspended = ParentsResumed + JoinsSuppressed + ParentsParked
//	TreesOpened = TreesDrained + TreesReleased + TreesOpen
//	TreesArrived = TreesOpened + TreesSkipped + TreesWaiting + TreesAbandoned (with OpenBy)
type Counts struct {
	Sent     int
	InFlight int

	TreesOpened     int
	TreesDrained    int
	TreesReleased   int // open when the phase ended
	TreesOpen       int
	TreesDeadlocked int // of those drained

	TreesArrived   int // by OpenBy
	TreesWaiting   int // for a lane
	TreesSkipped   int // that could not be played
	TreesAbandoned int // that waited when the arrivals ended

	ChildrenResumed   int // live in start states
	ChildrenSpawned   int
	ChildrenDelayed   int // of those spawned: with an offset
	ChildrenCompleted int
	ChildrenErrored   int
	ChildrenTruncated int
	ChildrenLive      int

	ParentsSuspended int // parkings
	ParentsResumed   int // parkings that ended with a request
	JoinsSuppressed  int // parkings that ended without
	ParentsParked    int

	IdleJumps   int           // of the cap on idle time of the system
	IdleSkipped time.Duration // by those jumps
}

// endChild counts the end of a live child.
func (n *Counts) endChild(reason EndReason) {
	n.ChildrenLive--
	switch reason {
	case Completed:
		n.ChildrenCompleted++
	case Errored:
		n.ChildrenErrored++
	default:
		n.ChildrenTruncated++
	}
}
