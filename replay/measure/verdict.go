package measure

// The reasons for which a run is not valid (doc/spec/replay.md 8.8).
const (
	UnsafeOverride      = "unsafe_override"                      // a conflict with the scenario was overridden
	OverflowRate        = "context_overflow_rate_exceeded"       // Summary.OverflowRate above MaxOverflowRate
	RunCancelled        = "run_cancelled"                        // Facts.Cancelled
	WedgedTree          = "wedged_tree"                          // a tree deadlocked; a reason also without a scenario
	BacklogGrew         = "backlog_grew"                         // what waited and what was in flight grew to the end of the arrivals; also without a scenario
	PartLost            = "part_lost"                            // Facts.LostParts; also without a scenario
	InsufficientMetrics = "insufficient_profile_metric_coverage" // Summary.Coverage below CoverageThreshold
)

// MaxOverflowRate is the largest share of overflows of the context that a valid run has.
const MaxOverflowRate = 0.01

// judge decides about a run that has ended. A run without a scenario is neither valid nor not, unless its backlog grew to the end,
// or a part of its load was lost.
func (s *Summary) judge(f *Facts) {
	sc := s.Run.Scenario
	s.Reasons = nil
	add := func(why string, is bool) {
		if is {
			s.Reasons = append(s.Reasons, why)
		}
	}
	add(UnsafeOverride, sc != nil && len(sc.Overridden) > 0)
	add(OverflowRate, sc != nil && s.OverflowRate > MaxOverflowRate)
	add(RunCancelled, sc != nil && f.Cancelled)
	add(WedgedTree, f.Branches.TreesDeadlocked > 0 || len(f.Deadlocks) > 0) // the reports are also of the warmup
	add(InsufficientMetrics, s.Coverage != nil && !s.Coverage.passes())
	grew := f.Arrivals != nil && backlogGrew(f.Arrivals.Backlog, f.Arrivals.SentRate)
	add(BacklogGrew, grew)
	add(PartLost, len(f.LostParts) > 0)
	if sc != nil || grew || len(f.LostParts) > 0 {
		valid := len(s.Reasons) == 0
		s.Valid = &valid
	}
}

// coverage returns how much of its phase a run covers. It is nil where the gate does not look: without the rule or a scenario,
// and for a phase that was asked to last less than the least of the scenario.
func (a *Aggregate) coverage(info *RunInfo) *Coverage {
	if sc := info.Scenario; !a.rules.CoverageGate || sc == nil || info.Facts.ExpectedDuration <= 0 || info.Facts.ExpectedDuration < sc.MinDuration {
		return nil
	}
	return a.latest.coverage(Nanos(info.Facts.ExpectedDuration))
}

// Deadlocked returns how many trees of the run deadlocked, those of its warmup included.
func (s *Summary) Deadlocked() int {
	if s.DeadlockedTrees.IsMissing() {
		return len(s.Deadlocks)
	}
	return max(int(s.DeadlockedTrees), len(s.Deadlocks))
}
