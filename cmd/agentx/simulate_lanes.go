package main

import (
	"maps"
	"slices"

	"github.com/spf13/pflag"

	"github.com/agentx/agentx/simulate"
)

// laneSettings are the settings of a replay that lanes of a simulation have too: all that decide which turn leaves when.
var laneSettings = []string{
	"Start", "StartMinRatio", "StartMaxRatio", "BurstStart", "SamplerOrder", "Recycle", "MaxLivePerTrace", "AllowWrap",
	"Speed", "GapCap", "IgnoreDelays", "IgnoreDelaysKeepsOrder", "ThinkTimeOnly", "SystemIdleCap", "TraceIdleCap", "LaneStartCap",
	"SpawnOffset", "JoinTiming", "Anchor", "TreeIdleCap", "TraceCap",
}

// isLaneSetting reports whether a setting of a replay is one of lanes in a simulation.
func isLaneSetting(s *setting) bool { return s != nil && slices.Contains(laneSettings, s.name) }

// giveLane takes a value of a setting of lanes.
func (f *simulateFlags) giveLane(s *setting, text, shown string, from origin) {
	f.lanes.give(given{s, text, shown, from})
}

// settleLanes finds the value of every setting of lanes, of which flags and --set have given some.
func (f *simulateFlags) settleLanes() {
	f.flags.VisitAll(func(one *pflag.Flag) {
		if a, ok := one.Value.(aliasValue); ok && one.Changed {
			shown := flagText(one.Name, *a.text)
			switch from := originOf(one); from.kind {
			case fromEnvironment:
				shown = from.at + "=" + *a.text
			case fromFile:
				shown = named(one) + ": " + *a.text
			}
			f.giveLane(a.setting, *a.text, shown, originOf(one))
		}
	})
	f.lanes.settle()
	f.lanes.checkStart()
}

// lanesOf returns how lanes play.
func (f *simulateFlags) lanesOf() (l simulate.Lanes) {
	f.lanes.apply(&l.Options)
	l.Options.Warn = f.warnLane
	l.Set = map[string]string{}
	for _, line := range f.laneLines() {
		l.Set[line.name] = textOf(line.value)
	}
	return l
}

// warnLane prints what is odd about lanes; several runs say the same once.
func (f *simulateFlags) warnLane(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.warned == nil {
		f.warned = map[string]bool{}
	}
	if !f.warned[text] {
		f.warned[text] = true
		printError(f.stderr, "agentx: warning: "+text)
	}
}

// laneLines are the settings of lanes that something sets.
func (f *simulateFlags) laneLines() (list []configLine) {
	set := map[string]settled{}
	for name, v := range f.lanes.values {
		if v.from.kind != fromDefault && v.from.kind != fromPreset {
			set[name] = v
		}
	}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		list = append(list, configLine{name: name, value: set[name].value, from: set[name].from})
	}
	return list
}
