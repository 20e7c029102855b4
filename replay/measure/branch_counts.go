package measure

// BranchCounts count sessions, waits and trees by how they ended (doc/spec/replay.md 8.9). When a phase is over
//
//	ChildrenResumed + ChildrenSpawned = ChildrenCompleted + ChildrenErrored + ChildrenTruncated
//	ParentsSuspended = ParentsResumed + JoinsSuppressed
//	TreesOpened = TreesDrained + TreesReleased
type BranchCounts struct {
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

	IdleJumps   int     `json:"idle_jumps"`   // of the cap on idle time of the system
	IdleSkipped float64 `json:"idle_skipped"` // by those jumps, seconds
}
