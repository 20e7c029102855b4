package measure

import (
	"fmt"
	"strings"
)

// BranchCounts counts what became of sessions, of waits and of trees: section 8.9 of the specification of the replay. When a
// phase is over
//
//	ChildrenResumed + ChildrenSpawned = ChildrenCompleted + ChildrenErrored + ChildrenTruncated
//	ParentsSuspended = ParentsResumed + JoinsSuppressed
//	TreesOpened = TreesDrained + TreesReleased
type BranchCounts struct {
	ChildrenResumed   int `json:"children_resumed"`   // child sessions of a start in the middle of a trace
	ChildrenSpawned   int `json:"children_spawned"`   // child sessions of branches that a turn spawned
	ChildrenDelayed   int `json:"children_delayed"`   // of those spawned: not at once
	ChildrenCompleted int `json:"children_completed"` // their last turn was answered
	ChildrenErrored   int `json:"children_errored"`   // their last turn failed
	ChildrenTruncated int `json:"children_truncated"` // ended before their last turn
	ParentsSuspended  int `json:"parents_suspended"`  // waits of a session for others
	ParentsResumed    int `json:"parents_resumed"`    // waits that ended with a request
	JoinsSuppressed   int `json:"joins_suppressed"`   // waits that ended without
	TreesOpened       int `json:"trees_opened"`
	TreesDrained      int `json:"trees_drained"`  // played to their end
	TreesReleased     int `json:"trees_released"` // open when the phase ended
	TreesDeadlocked   int `json:"trees_wedged"`   // of those drained: nothing could happen in them any more

	IdleJumps   int     `json:"idle_jumps"`   // of the cap on idle time of the system
	IdleSkipped float64 `json:"idle_skipped"` // by them, seconds
}

// LaneReport is what a lane did, as one line of the file of lanes. Durations are in seconds, instants are counted from the
// start of the phase.
type LaneReport struct {
	Lane         int     `json:"lane"`
	Trace        string  `json:"trace"`         // its first
	TStar        Number  `json:"t_star"`        // where in it the lane began, on the clock of the recording; null: with the first turn
	StartSkipped float64 `json:"start_skipped"` // by how much its first request was brought forward
	Skipped      float64 `json:"skipped"`       // time without a request that was skipped later
	FirstRequest Number  `json:"first_request"` // null: it sent nothing
	Finished     Number  `json:"finished"`      // no trace was left for it, from the start for a lane too many; null: it played to the end of the phase
	Requests     int     `json:"requests"`
	Trees        int     `json:"trees"` // opened
}

// DescribeSilence says of a lane that had something to play that it sent nothing.
func (l *LaneReport) DescribeSilence() string {
	where := ""
	if !l.TStar.IsMissing() {
		where = fmt.Sprintf(" from t* = %.3f s", float64(l.TStar))
	}
	return fmt.Sprintf("lane %d sent nothing: it played trace %q%s", l.Lane, l.Trace, where)
}

// MaxDeadlocks is how many wedged trees a summary names.
const MaxDeadlocks = 100

// DeadlockReport is a tree in which nothing could happen any more: a defect of the recording, or of this program.
type DeadlockReport struct {
	At      float64          `json:"at"` // seconds from the start of the phase
	Lane    int              `json:"lane"`
	Tree    int              `json:"tree"`
	Trace   string           `json:"trace"`
	Root    string           `json:"root_correlation_id"`
	Blocked []BlockedSession `json:"blocked"`
	Last    LastEvent        `json:"last"`
}

// BlockedSession is a session that waits in vain.
type BlockedSession struct {
	Session       string   `json:"session"`
	CorrelationID string   `json:"correlation_id"`
	Turn          int      `json:"turn"`
	BlockedBy     string   `json:"why"`       // gate or predecessor
	WaitsFor      []string `json:"waits_for"` // names of branches, or SESSION#TURN
}

// LastEvent is the last that happened in a tree.
type LastEvent struct {
	At      float64 `json:"at"`
	Kind    string  `json:"what"` // sent, returned, or opened: nothing was sent
	Session string  `json:"session"`
	Turn    int     `json:"turn"`
}

// String says it in one line.
func (w *DeadlockReport) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "lane %d: trace %q is wedged after %.3f s:", w.Lane, w.Trace, w.At)
	for k, s := range w.Blocked {
		if k == 5 {
			fmt.Fprintf(&b, " and %d more", len(w.Blocked)-k)
			break
		}
		fmt.Fprintf(&b, " turn %d of %s waits for %s %s;", s.Turn, s.Session, s.BlockedBy, strings.Join(s.WaitsFor[:min(5, len(s.WaitsFor))], ", "))
	}
	b.WriteString(" it was closed, its lane goes on")
	return b.String()
}
