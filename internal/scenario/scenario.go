// Package scenario holds the scenarios of a replay: doc/spec/replay.md 8.7. A scenario sets options of a run and locks
// some of them, so that results of different machines can be compared.
//
// A caller lays the defaults of a scenario over those of the preset, lets files, the environment and flags change them, and
// then asks which of the values the scenario does not allow:
//
//	s := scenario.AgentX()
//	defaults, err := s.Defaults(rand.Reader)
//	...
//	conflicts := append(s.Check(settings), s.CheckDataset(dataset, scenario.Corpora())...)
//
// A run with conflicts does not start, unless [Overridable] says that the caller may start it as an invalid one. Values are
// known here by the names of doc/spec/replay.md 0.3: the package knows nothing of how they are played.
package scenario

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"
)

// Scenario is a set of defaults and locks.
type Scenario struct {
	Name        string
	Duration    time.Duration // of the profiling phase, by default
	MinDuration time.Duration // shortest duration that is allowed
	SystemIdle  time.Duration // the only system-idle-cap that is allowed
	Marker      string        // the only marker that is allowed
	Seed        string        // by default; "": one is drawn for every run

	// Harness makes the locks those of agentx-harness 1.0.12. It refuses several loads in one run. It has no lock on the
	// trace-idle-cap, nor on bounds beside the duration: the coverage judges a run that one of them ends, so there the coverage
	// must be looked at.
	Harness bool

	// ByName lets the name of a repository pin a corpus, as the harness does, beside the content of its files.
	ByName bool

	// Values are the defaults that no lock has a say in, by name.
	Values []Value
}

// Value is the value of a setting. That of a kind of words is its word.
type Value struct {
	Name  string
	Value any
}

// All returns the scenarios.
func All() []Scenario { return []Scenario{AgentX(), InferenceXAgentX()} }

// AgentX returns the scenario agentx of agentx-harness 1.0.12, as far as its values mean something here.
func AgentX() Scenario {
	return Scenario{
		Name:        "agentx",
		Duration:    time.Hour,
		MinDuration: 900 * time.Second,
		SystemIdle:  10 * time.Second,
		Marker:      "first_turn_prefix",
		Seed:        "42",
		Harness:     true,
		ByName:      true,
		Values: []Value{
			{"start", "sampled"},
			{"start-min-ratio", 0.25},
			{"start-max-ratio", 0.75},
			{"warmup", "requests=10"},
			{"warmup-grace", 1800 * time.Second},
			{"trace-idle-cap", 300 * time.Second},
			{"max-error-rate", 0.1},
			{"tcp-user-timeout", 900 * time.Second},
			{"stats-interval", 30 * time.Second},
			{"limit-traces", 393},
			{"slice-duration", time.Second},
			{"marker-permits-wrap", true}, // every tree has a marker: doc/spec/replay.md 2.1
			{"coverage-gate", true},
			{"coverage-by", "latencies"},
		},
	}
}

// InferenceXAgentX returns the scenario of InferenceX, as AIPerf 0.13.0 and agentx-harness 1.0.12 have it. Its locks are
// stricter than theirs.
func InferenceXAgentX() Scenario {
	return Scenario{
		Name:        "inferencex-agentx-mvp",
		Duration:    1800 * time.Second,
		MinDuration: 900 * time.Second,
		SystemIdle:  10 * time.Second,
		Marker:      "first_turn_prefix",
		Values: []Value{
			{"start", "sampled"},
			{"start-min-ratio", 0.0},
			{"start-max-ratio", 1.0},
			{"warmup", "primers"},
			{"marker-permits-wrap", true}, // every tree has a marker: doc/spec/replay.md 2.1
		},
	}
}

// Defaults returns every value that the scenario sets. A seed that it draws is of a source of secure random bytes.
func (s Scenario) Defaults(random io.Reader) (list []Value, err error) {
	seed := s.Seed
	if seed == "" {
		if seed, err = DrawSeed(random); err != nil {
			return nil, fmt.Errorf("scenario %s: seed: %w", s.Name, err)
		}
	}
	return append(slices.Clone(s.Values),
		Value{"system-idle-cap", s.SystemIdle},
		Value{"marker", s.Marker},
		Value{"duration", s.Duration},
		Value{"seed", seed},
	), nil
}

// DrawSeed returns a seed of a run: a number of 63 random bits, in digits.
func DrawSeed(random io.Reader) (string, error) {
	var b [8]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return "", err
	}
	return strconv.FormatUint(binary.BigEndian.Uint64(b[:])>>1, 10), nil
}

// seconds writes a duration as --set takes it.
func seconds(d time.Duration) string {
	if d == 0 {
		return "off"
	}
	return strconv.FormatFloat(d.Seconds(), 'g', -1, 64) + "s"
}

// Settings are the values of a run that a scenario may lock, after every layer. A duration of 0 is off.
type Settings struct {
	ASAP          bool
	Speed         float64
	MaxGap        time.Duration
	TraceIdleCap  time.Duration
	TraceCap      string // how TraceIdleCap acts: run or load
	SystemIdleCap time.Duration
	Marker        string

	// Unstreamed and EndsEarly say what asks for answers in one piece, and what lets the model end them, each such as
	// "{no-ignore-eos}".
	Unstreamed, EndsEarly []string

	Duration        time.Duration
	Requests, Trees int // bounds; 0: none
	Once, Until     bool
	CoverageGate    bool   // the coverage of the run is looked at
	Sweep           string // what asks for several loads, such as "{concurrency} 1,2"; "": nothing
}

// Check returns all conflicts between the scenario and the settings of a run: those about recorded times first, then about requests and
// their answers, then about what ends a run.
func (s Scenario) Check(p Settings) (list []Conflict) {
	add := func(found bool, c Conflict) {
		if found {
			list = append(list, c)
		}
	}
	add(p.ASAP, Conflict{IgnoreDelays, "{asap} is true", "false", "leave out {asap}"})
	add(p.Speed != 1, Conflict{Speed, "{speed} is " + strconv.FormatFloat(p.Speed, 'g', -1, 64), "1", "leave out {speed}"})
	add(p.MaxGap != 0, Conflict{GapCap, "{max-gap} is " + seconds(p.MaxGap), "off", "leave out {max-gap}; {tree-idle-cap} may be set"})
	add(p.TraceIdleCap != 0 && p.TraceCap == "load" && !s.Harness, // with trace-cap run it is the tree-idle-cap
		Conflict{TraceIdleCap, "{trace-idle-cap} is " + seconds(p.TraceIdleCap) + ", and {trace-cap} is load", "off", "leave out {trace-idle-cap}; {tree-idle-cap} may be set"})
	add(p.SystemIdleCap != s.SystemIdle, Conflict{SystemIdleCap, "{system-idle-cap} is " + seconds(p.SystemIdleCap), seconds(s.SystemIdle), "leave out {system-idle-cap}"})
	add(p.Marker != s.Marker, Conflict{Marker, "{marker} is " + p.Marker, s.Marker, "leave out {marker}"})
	for _, by := range p.Unstreamed {
		add(true, Conflict{Streaming, by, "streamed answers", "leave it out"})
	}
	for _, by := range p.EndsEarly {
		add(true, Conflict{IgnoreEOS, by, "ignore_eos true and a length in every body", "leave it out"})
	}
	add(p.Duration < s.MinDuration, Conflict{ShortDuration, "{duration} is " + seconds(p.Duration), "at least " + seconds(s.MinDuration), "leave out {duration}, for " + seconds(s.Duration)})
	if s.Harness {
		add(!p.CoverageGate, Conflict{CoverageGate, "{coverage-gate} is false", "true", "leave out {coverage-gate}"})
		add(p.Sweep != "", Conflict{Sweep, p.Sweep + " is several runs", "one run", "give one number of lanes"})
		return list
	}
	for _, bound := range []struct {
		setting string
		set     bool
	}{{"requests", p.Requests > 0}, {"trees", p.Trees > 0}, {"once", p.Once}, {"until", p.Until}} {
		add(bound.set, Conflict{EarlyBound, "{" + bound.setting + "} may end the run before its duration", "no bound beside {duration}", "leave it out"})
	}
	return list
}

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

// Conflict is a setting of a run that its scenario does not allow. Settings stand in braces in its texts.
type Conflict struct {
	Reason Reason
	What   string // the setting and its value, such as "{system-idle-cap} is 5s"
	Want   string // what the scenario allows, such as "10s"
	Try    string // what to do
}

// Error returns the conflict as one line, in which settings stand in braces.
func (c Conflict) Error() string {
	return fmt.Sprintf("%s: %s: want %s: %s", c.Reason, c.What, c.Want, c.Try)
}

// Overridable reports whether a run with these conflicts may start as an invalid one.
func Overridable(conflicts []Conflict) bool {
	return !slices.ContainsFunc(conflicts, func(c Conflict) bool { return c.Reason == SyntheticDataset })
}
