// Package scenario holds the scenarios of a replay: doc/spec/replay.md 8.7. A scenario sets options of a run and locks
// some of them, so that results of different machines can be compared.
//
// A caller lays the defaults of a scenario over those of the preset, lets files, the environment and flags change them, and
// then asks which of the values the scenario does not allow:
//
//	s := scenario.InferenceXAgentX()
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
	SystemIdle  time.Duration // the only SystemIdleCap that is allowed
	Marker      string        // the only Marker that is allowed

	// Values are the defaults that no lock has a say in, by name, as --set takes them.
	Values []Value
}

// Value is the value of an option or a switch, as --set takes it.
type Value struct{ Name, Value string }

// All returns the scenarios.
func All() []Scenario { return []Scenario{InferenceXAgentX()} }

// InferenceXAgentX returns the scenario of InferenceX, as AIPerf 0.13.0 and its line agentx-1.0.12 have it.
func InferenceXAgentX() Scenario {
	return Scenario{
		Name:        "inferencex-agentx-mvp",
		Duration:    1800 * time.Second,
		MinDuration: 900 * time.Second,
		SystemIdle:  10 * time.Second,
		Marker:      "first_turn_prefix",
		Values: []Value{
			{"Start", "sampled"},
			{"StartMinRatio", "0"},
			{"StartMaxRatio", "1"},
			{"Warmup", "primers"},
			{"MarkerPermitsWrap", "true"}, // every tree has a marker: doc/spec/replay.md 2.1
		},
	}
}

// Defaults returns every value that the scenario sets. The seed is drawn from a source of secure random bytes.
func (s Scenario) Defaults(random io.Reader) ([]Value, error) {
	seed, err := DrawSeed(random)
	if err != nil {
		return nil, fmt.Errorf("scenario %s: seed: %w", s.Name, err)
	}
	return append(slices.Clone(s.Values),
		Value{"SystemIdleCap", seconds(s.SystemIdle)},
		Value{"Marker", s.Marker},
		Value{"Duration", seconds(s.Duration)},
		Value{"Seed", seed},
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
