package measure

import (
	"fmt"
	"strings"
)

// MaxDeadlocks is how many deadlocked trees a summary names.
const MaxDeadlocks = 100

// DeadlockReport is a tree in which nothing could happen any more, by a defect of the recording or of this program. The files of
// a run call it wedged.
type DeadlockReport struct {
	Phase   string           `json:"phase"`
	At      float64          `json:"at"` // seconds since the start of the phase
	Lane    int              `json:"lane"`
	Tree    int              `json:"tree"`
	Trace   string           `json:"trace"`
	Root    string           `json:"root_correlation_id"`
	Blocked []BlockedSession `json:"blocked"`
	Last    LastEvent        `json:"last"`
}

// BlockedSession is a session that waits for something that cannot happen.
type BlockedSession struct {
	Session       string   `json:"session"`
	CorrelationID string   `json:"correlation_id"`
	Turn          int      `json:"turn"`
	BlockedBy     string   `json:"why"`       // gate or predecessor
	WaitsFor      []string `json:"waits_for"` // names of branches, or SESSION#TURN
}

// LastEvent is the last event of a tree.
type LastEvent struct {
	At      float64 `json:"at"`
	Kind    string  `json:"what"` // sent, returned, or opened: nothing was sent
	Session string  `json:"session"`
	Turn    int     `json:"turn"`
}

// maxBlocked is how many blocked sessions, and how many things that one waits for, a line names.
const maxBlocked = 5

// String describes the deadlock in one line.
func (d *DeadlockReport) String() string {
	var b strings.Builder
	if d.Phase == WarmupPhase {
		b.WriteString("warmup: ")
	}
	fmt.Fprintf(&b, "lane %d: trace %q is deadlocked after %.3f s:", d.Lane, d.Trace, d.At)
	for k, s := range d.Blocked {
		if k == maxBlocked {
			fmt.Fprintf(&b, " and %d more", len(d.Blocked)-k)
			break
		}
		fmt.Fprintf(&b, " turn %d of %s waits for %s %s;", s.Turn, s.Session, s.BlockedBy, strings.Join(s.WaitsFor[:min(maxBlocked, len(s.WaitsFor))], ", "))
	}
	b.WriteString(" it was closed, its lane goes on")
	return b.String()
}
