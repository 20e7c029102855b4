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
	SystemIdle  time.Duration // the only --system-idle-cap that is allowed
	Marker      string        // the only --marker that is allowed
	Seed        string        // by default; "": one is drawn for every run

	// Harness makes the locks those of agentx-harness 1.0.12. It refuses several loads in one run. It has no lock on the
	// --trace-idle-cap, nor on bounds beside the duration: the coverage judges a run that one of them ends, so there the coverage
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
