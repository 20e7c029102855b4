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

	Branches
	ChildrenLive  int
	ParentsParked int
	TreesOpen     int

	TreesArrived   int // by OpenBy
	TreesWaiting   int // for a lane
	TreesSkipped   int // that could not be played
	TreesAbandoned int // that waited when the arrivals ended

	IdleSkipped time.Duration // by IdleJumps
}

// Branches are those counts that the results of a run have, by their keys there.
type Branches struct {
	ChildrenResumed   int `json:"children_resumed"`   // child sessions that were live when their tree was taken up
	ChildrenSpawned   int `json:"children_spawned"`   // child sessions that a turn spawned
	ChildrenDelayed   int `json:"children_delayed"`   // of those spawned: with an offset
	ChildrenCompleted int `json:"children_completed"` // their last turn was answered
	ChildrenErrored   int `json:"children_errored"`   // their last turn failed
	ChildrenTruncated int `json:"children_truncated"` // ended before their last turn
	ParentsSuspended  int `json:"parents_suspended"`  // waits of a session for its branches
	ParentsResumed    int `json:"parents_resumed"`    // waits that ended with a request
	JoinsSuppressed   int `json:"joins_suppressed"`   // waits that ended without
	TreesOpened       int `json:"trees_opened"`
	TreesDrained      int `json:"trees_drained"`  // played to their end
	TreesReleased     int `json:"trees_released"` // open when the phase ended
	TreesDeadlocked   int `json:"trees_wedged"`   // of those drained: nothing could happen in them any more

	IdleJumps int `json:"idle_jumps"` // of the cap on idle time of the system
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
