package scenario

import (
	"fmt"
	"slices"
)

// Reason is the word for a kind of conflict: doc/spec/replay.md 8.7.
type Reason string

// The reasons.
const (
	IgnoreDelays     Reason = "ignore_delays"     // recorded gaps are left out
	Speed            Reason = "speed"             // recorded gaps are divided
	GapCap           Reason = "gap_cap"           // recorded gaps are cut
	TraceIdleCap     Reason = "trace_idle_cap"    // recorded times are compressed
	SystemIdleCap    Reason = "system_idle_cap"   // is not that of the scenario
	Marker           Reason = "marker"            // is not that of the scenario
	Streaming        Reason = "streaming"         // answers are not streamed
	IgnoreEOS        Reason = "ignore_eos"        // answers may end before their recorded length
	ShortDuration    Reason = "duration"          // is below the least of the scenario
	EarlyBound       Reason = "early_bound"       // the run may end before its duration
	CoverageGate     Reason = "coverage_gate"     // nothing would judge a run that ends before its duration
	Sweep            Reason = "sweep"             // several loads, one run each
	InputTruncation  Reason = "input_truncation"  // recorded requests are left out
	UnknownCorpus    Reason = "unknown_corpus"    // the dataset is not made of the files of a pinned corpus
	SyntheticDataset Reason = "synthetic_dataset" // the dataset was not recorded: no override helps
)

// Conflict is a setting of a run that its scenario does not allow.
type Conflict struct {
	Reason Reason
	What   string // the setting and its value, such as "--system-idle-cap is 5s"
	Want   string // what the scenario allows, such as "10s"
	Try    string // what to do
}

// Error returns the conflict as one line.
func (c Conflict) Error() string {
	return fmt.Sprintf("%s: %s: want %s: %s", c.Reason, c.What, c.Want, c.Try)
}

// Overridable reports whether a run with these conflicts may start as an invalid one.
func Overridable(conflicts []Conflict) bool {
	return !slices.ContainsFunc(conflicts, func(c Conflict) bool { return c.Reason == SyntheticDataset })
}
