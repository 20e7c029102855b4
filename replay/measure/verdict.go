package measure

// The reasons for which a run is not valid (doc/spec/replay.md 8.8).
const (
	UnsafeOverride = "unsafe_override" // a conflict with the scenario was overridden
	RunCancelled   = "run_cancelled"   // Facts.Cancelled
	WedgedTree     = "wedged_tree"     // a tree deadlocked; a reason also without a scenario
)

// judge decides about a run that has ended. Only a run with a scenario is valid or not.
func (s *Summary) judge(f *Facts) {
	sc := s.Run.Scenario
	s.Reasons = nil
	if sc != nil && len(sc.Overridden) > 0 {
		s.Reasons = append(s.Reasons, UnsafeOverride)
	}
	if sc != nil && f.Cancelled {
		s.Reasons = append(s.Reasons, RunCancelled)
	}
	if f.Branches.TreesDeadlocked > 0 || len(f.Deadlocks) > 0 { // the reports are also of the warmup
		s.Reasons = append(s.Reasons, WedgedTree)
	}
	if sc != nil {
		valid := len(s.Reasons) == 0
		s.Valid = &valid
	}
}

// Deadlocked returns how many trees of the run deadlocked, those of its warmup included.
func (s *Summary) Deadlocked() int {
	if s.DeadlockedTrees.IsMissing() {
		return len(s.Deadlocks)
	}
	return max(int(s.DeadlockedTrees), len(s.Deadlocks))
}
