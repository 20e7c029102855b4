package scenario

import (
	"fmt"
	"slices"
	"strconv"
	"time"
)

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
	// "--no-ignore-eos".
	Unstreamed, EndsEarly []string

	Duration        time.Duration
	Requests, Trees int // bounds; 0: none
	Once, Until     bool
	CoverageGate    bool   // the coverage of the run is looked at
	Sweep           string // what asks for several loads, such as "--concurrency 1,2"; "": nothing
}

// Check returns all conflicts between the scenario and the settings of a run.
func (s Scenario) Check(p Settings) []Conflict {
	return slices.Concat(s.checkTiming(p), s.checkBodies(p), s.checkLength(p))
}

// checkTiming checks what changes recorded times.
func (s Scenario) checkTiming(p Settings) (list []Conflict) {
	if p.ASAP {
		list = append(list, Conflict{IgnoreDelays, "--asap is true", "false", "leave out --asap"})
	}
	if p.Speed != 1 {
		list = append(list, Conflict{Speed, "--speed is " + strconv.FormatFloat(p.Speed, 'g', -1, 64), "1", "leave out --speed"})
	}
	if p.MaxGap != 0 {
		list = append(list, Conflict{GapCap, "--max-gap is " + seconds(p.MaxGap), "off", "leave out --max-gap; --tree-idle-cap may be set"})
	}
	if p.TraceIdleCap != 0 && p.TraceCap == "load" && !s.Harness { // with --trace-cap run it is the --tree-idle-cap
		what := fmt.Sprintf("--trace-idle-cap is %s, and --trace-cap is load", seconds(p.TraceIdleCap))
		list = append(list, Conflict{TraceIdleCap, what, "off", "leave out --trace-idle-cap; --tree-idle-cap may be set"})
	}
	if p.SystemIdleCap != s.SystemIdle {
		list = append(list, Conflict{SystemIdleCap, "--system-idle-cap is " + seconds(p.SystemIdleCap), seconds(s.SystemIdle), "leave out --system-idle-cap"})
	}
	return list
}

// checkBodies checks what changes requests and their answers.
func (s Scenario) checkBodies(p Settings) (list []Conflict) {
	if p.Marker != s.Marker {
		list = append(list, Conflict{Marker, "--marker is " + p.Marker, s.Marker, "leave out --marker"})
	}
	for _, by := range p.Unstreamed {
		list = append(list, Conflict{Streaming, by, "streamed answers", "leave it out"})
	}
	for _, by := range p.EndsEarly {
		list = append(list, Conflict{IgnoreEOS, by, "ignore_eos true and a length in every body", "leave it out"})
	}
	return list
}

// checkLength checks what ends a run.
func (s Scenario) checkLength(p Settings) (list []Conflict) {
	if p.Duration < s.MinDuration {
		what := "--duration is " + seconds(p.Duration)
		list = append(list, Conflict{ShortDuration, what, "at least " + seconds(s.MinDuration), "leave out --duration, for " + seconds(s.Duration)})
	}
	if s.Harness {
		return append(list, s.checkHarness(p)...)
	}
	for _, bound := range []struct {
		flag string
		set  bool
	}{{"requests", p.Requests > 0}, {"trees", p.Trees > 0}, {"once", p.Once}, {"until", p.Until}} {
		if bound.set {
			list = append(list, Conflict{EarlyBound, "--" + bound.flag + " may end the run before its duration", "no bound beside --duration", "leave it out"})
		}
	}
	return list
}

// checkHarness checks what the harness has a lock on and another scenario has not.
func (s Scenario) checkHarness(p Settings) (list []Conflict) {
	if !p.CoverageGate {
		list = append(list, Conflict{CoverageGate, "--coverage-gate is false", "true", "leave out --coverage-gate"})
	}
	if p.Sweep != "" {
		list = append(list, Conflict{Sweep, p.Sweep + " is several runs", "one run", "give one number of lanes"})
	}
	return list
}
