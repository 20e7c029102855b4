package measure

import (
	"fmt"
	"slices"

	"github.com/agentx/agentx/replay/preset"
)

// The reasons for which a run is not valid (doc/spec/replay.md 8.8).
const (
	UnsafeOverride      = "unsafe_override"                      // a conflict with the scenario was overridden
	OverflowRate        = "context_overflow_rate_exceeded"       // Summary.OverflowRate above maxOverflowRate
	RunCancelled        = "run_cancelled"                        // Facts.Cancelled
	WedgedTree          = "wedged_tree"                          // a tree deadlocked; a reason also without a scenario
	BacklogGrew         = "backlog_grew"                         // what waited and what was in flight grew to the end of the arrivals; also without a scenario
	PartLost            = "part_lost"                            // Facts.LostParts; also without a scenario
	InsufficientMetrics = "insufficient_profile_metric_coverage" // Summary.Coverage below coverageThreshold
)

// maxOverflowRate is the largest share of overflows of the context that a valid run has.
const maxOverflowRate = 0.01

// Deadlocked returns how many trees of the run deadlocked, those of its warmup included.
func (s *Summary) Deadlocked() int {
	if s.DeadlockedTrees.IsMissing() {
		return len(s.Deadlocks)
	}
	return max(int(s.DeadlockedTrees), len(s.Deadlocks))
}

// Verdict judges a run by its records.
type Verdict struct {
	ended, failed, overflows int // ended well; failed, without the next
	latest                   latest
}

// Add adds a record, which it does not keep.
func (v *Verdict) Add(r *Record, rules Rules) {
	if r.Phase == WarmupPhase {
		return
	}
	v.latest.add(r, rules)
	switch {
	case r.Bucket == ContextOverflow:
		v.overflows++
	case r.Bucket == CancelledAtEnd:
	case r.Error != nil:
		v.failed++
	default:
		v.ended++
	}
}

// Join adds the records of another part of a load.
func (v *Verdict) Join(o Verdict) {
	v.ended, v.failed, v.overflows = v.ended+o.ended, v.failed+o.failed, v.overflows+o.overflows
	v.latest = latest{max(v.latest.firstToken, o.latest.firstToken), max(v.latest.itl, o.latest.itl), max(v.latest.content, o.latest.content)}
}

// Judge decides about a run that has facts. One without a scenario is neither valid nor not (nil), unless its backlog grew to the end, or a
// part of its load was lost. A part of a load has no verdict of its own: it is not valid for a reason that holds for the whole load, else
// nil.
func (v *Verdict) Judge(info *RunInfo, rules Rules) (valid *bool, reasons []string, coverage *Coverage) {
	sc, f, whole := info.Scenario, info.Facts, !info.isPart()
	add := func(why string, is bool) {
		if is {
			reasons = append(reasons, why)
		}
	}
	coverage = v.latest.of(info, rules)
	add(UnsafeOverride, sc != nil && len(sc.Overridden) > 0)
	add(OverflowRate, whole && sc != nil && shareOf(v.overflows, v.ended+v.failed+v.overflows) > maxOverflowRate)
	add(RunCancelled, sc != nil && f.Cancelled)
	add(WedgedTree, f.Branches.TreesDeadlocked > 0 || len(f.Deadlocks) > 0) // the reports are also of the warmup
	add(InsufficientMetrics, coverage != nil && coverage.largest() < coverageThreshold)
	grew := whole && f.Arrivals != nil && backlogGrew(f.Arrivals.Backlog, f.Arrivals.SentRate)
	add(BacklogGrew, grew)
	lost := len(f.LostParts) > 0
	add(PartLost, lost)
	if is := len(reasons) == 0; (sc != nil || grew || lost) && (whole || !is) {
		valid = &is
	}
	return valid, reasons, coverage
}

// Advice says what to try after a run that trees arrived in faster than they were served, or whose servers went silent before its end;
// "": nothing.
func (s *Summary) Advice() string {
	switch {
	case slices.Contains(s.Reasons, BacklogGrew) && s.Arrivals != nil:
		slower := preset.Text("a lower {rate}")
		if s.Arrivals.Mode == RecordedArrivals {
			slower = "a lower {speed}"
		}
		if s.Arrivals.Cap > 0 {
			slower += ", or a higher {concurrency}"
		}
		return slower.String() + ": trees arrived faster than they were served, so latencies depend on how long the run lasted; a run not longer than a few requests says nothing"
	case slices.Contains(s.Reasons, InsufficientMetrics) && s.Coverage != nil:
		return fmt.Sprintf("the logs of the servers: their last answer that counts came after %.1f %% of the duration, and %.0f %% are wanted", 100*s.Coverage.largest(), 100*coverageThreshold)
	}
	return ""
}

// coverageThreshold is the least share of a phase that its answers must cover (doc/spec/replay.md 8.8).
const coverageThreshold = 0.95

// Coverage says how far into a phase the server answered: the latest instants of three kinds, as shares of the duration that the
// phase was asked to last, 0 to 1.
type Coverage struct {
	FirstToken float64 `json:"first_token"` // of a request that ended well
	ITL        float64 `json:"itl"`         // end of a request that has an inter-token latency
	Content    Number  `json:"content"`     // content message of any request, also of one that failed or was cancelled; missing: it does not count

	Expected float64 `json:"expected_duration"` // of the phase, seconds
	Required float64 `json:"required"`          // share that the largest of the three must reach
}

// largest returns the share that decides.
func (c *Coverage) largest() float64 {
	largest := max(c.FirstToken, c.ITL)
	if !c.Content.IsMissing() {
		largest = max(largest, float64(c.Content))
	}
	return largest
}

// latest are the latest instants of a phase that a Coverage needs, 0: there is none.
type latest struct{ firstToken, itl, content Time }

// add adds a record, which is not of the warmup.
func (l *latest) add(r *Record, rules Rules) {
	l.content = max(l.content, r.LastToken)
	if r.Error != nil {
		return
	}
	l.firstToken = max(l.firstToken, r.FirstToken)
	if _, ok := rules.ITL(&r.Numbers); ok {
		l.itl = max(l.itl, r.End)
	}
}

// of returns how much of its phase a run covers. It is nil where the gate does not look: without the rule or a scenario, for a
// part of a load, for a run that was cancelled, and for a phase that was asked to last less than the least of the scenario.
func (l *latest) of(info *RunInfo, rules Rules) *Coverage {
	sc, f := info.Scenario, info.Facts
	if !rules.CoverageGate || sc == nil || info.isPart() || f.Cancelled || f.ExpectedDuration <= 0 || f.ExpectedDuration < sc.MinDuration {
		return nil
	}
	expected := At(f.ExpectedDuration)
	share := func(at Time) float64 { return min(max(0, float64(at)/float64(expected)), 1) }
	c := &Coverage{share(l.firstToken), share(l.itl), Number(share(l.content)), expected.Seconds(), coverageThreshold}
	if rules.LatenciesOnly {
		c.Content = Missing
	}
	return c
}
