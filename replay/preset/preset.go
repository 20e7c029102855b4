// Package preset names the settings in which agentx and AIPerf differ in a way that changes results: doc/spec/replay.md 0.3.
//
// A preset is a name for one value of all [Switches]. A run starts from a preset and may then set any switch by itself:
//
//	s, ok := preset.Named("aiperf-0.13")
//	s.BranchSpawns = false
//
// Package replay resolves every switch before a run starts. Package replay/conductor cannot name a switch.
package preset

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/agentx/agentx/internal/lazyregexp"
)

// Names are the presets, the default first.
var Names = []string{Default, AIPerf, AgentX}

// The names of the presets.
const (
	Default = "default"       // faithful to the recording
	AIPerf  = "aiperf-0.13"   // AIPerf 0.13.0 as released
	AgentX  = "agentx-1.0.12" // agentx-harness 1.0.12, whose command is `agentx profile`: AgentX results are made with it
)

// aliases are other names of presets, by which nothing is recorded. agentx-v1.0.5 was inferred from documents of the line of AIPerf
// that the harness grew from.
var aliases = map[string]string{"agentx-v1.0.5": AgentX}

// Canonical returns the name of a preset by one of its names, and whether the one given is another.
func Canonical(name string) (canonical string, alias bool) {
	if c, ok := aliases[name]; ok {
		return c, true
	}
	return name, false
}

// Switches are all switches. Their names and values as JSON are those of doc/spec/replay.md 0.3. The tags of a field say all about it: words are
// its values, of one that is true or false the second is true; under is its value under each of Names; about is its help. A switch of duration
// is off where it is nil.
type Switches struct {
	BranchSpawns       bool     `json:"spawn-offset" words:"recorded branch" under:"recorded branch branch" about:"when a child starts: recorded offset, or return of its parent"`
	ImmediateJoins     bool     `json:"join-timing" words:"timed immediate" under:"timed immediate timed" about:"when a turn joins: not early, or with its last child"`
	AnchorZero         bool     `json:"anchor" words:"phase zero" under:"phase zero phase" about:"start of a spread phase: its first request, or t*"`
	TreeIdleCap        *Seconds `json:"tree-idle-cap" under:"300 off off" about:"longest time of a tree without a request in flight"`
	TraceCapAtLoad     bool     `json:"trace-cap" words:"run load" under:"run load run" about:"when trace-idle-cap acts: in the run, or on the recording"`
	LeadCapOfTrace     bool     `json:"warmup-lead-cap" words:"system trace" under:"system trace system" about:"what caps leads: system-idle-cap, or trace-idle-cap"`
	StageByDuration    bool     `json:"warmup-stage" words:"requests-or-duration duration" under:"requests-or-duration duration requests-or-duration" about:"bounds that the pressure stage may have"`
	HandoffSinceReturn bool     `json:"handoff-offset" words:"recorded since-return" under:"recorded since-return recorded" about:"how sessions go on after the pressure stage"`
	HandoffByArrival   bool     `json:"handoff-order" words:"seed arrival" under:"seed arrival arrival" about:"what orders the pressure stage: the seed alone, or answers"`
	OverflowFails      bool     `json:"warmup-overflow" words:"redraw fail" under:"redraw redraw fail" about:"a primer that overflows: another trace, or a failed warmup"`
	MarkerPermitsWrap  bool     `json:"marker-permits-wrap" under:"true true true" about:"a marker permits more lanes than traces"`
	SubtractNegative   bool     `json:"negative-duration" words:"zero subtract" under:"zero subtract subtract" about:"only shown: fixed when the cache is built"`
	CountGrace         bool     `json:"count-grace" under:"true true true" about:"requests that end in the grace are headline"`
	LenientStreams     bool     `json:"lenient-streams" under:"false true true" about:"status 200 with any content is a success"`
	AIPerfForms        bool     `json:"answer-forms" words:"servers aiperf" under:"servers aiperf aiperf" about:"forms of an answer that are read: those of all servers, or AIPerf's"`
	TextTokens         bool     `json:"token-signs" words:"all text" under:"all text text" about:"messages that tell of tokens: all that do, or those with text"`
	OverflowWords      Choice   `json:"overflow-words" words:"servers aiperf none" under:"servers aiperf aiperf" about:"texts of a context overflow: of all servers, or AIPerf's"`
	ShareOfRecords     bool     `json:"failed-share" words:"ended records" under:"ended ended records" about:"what failures are a share of: ended requests, or records"`
	ThroughputWindow   Choice   `json:"throughput-window" words:"benchmark phase delivered" under:"delivered phase phase" about:"denominator of throughputs, time of effective curves"`
	ITLOverAllButOne   bool     `json:"itl-divisor" words:"first-chunk osl-1" under:"first-chunk first-chunk osl-1" about:"tokens that an ITL divides by"`
	FlowCurve          Choice   `json:"flow-curve" words:"chunks" under:"chunks chunks chunks" about:"how tokens spread over time"`
	AIPerfCurves       bool     `json:"curves" words:"own aiperf" under:"own aiperf aiperf" about:"curves of tokens over time, and failed requests in them"`
	CoverageGate       bool     `json:"coverage-gate" under:"true false true" about:"a valid run has tokens in 95 % of its duration"`
	CoverByLatencies   bool     `json:"coverage-by" words:"contents latencies" under:"contents latencies latencies" about:"which tokens: of any request, or of those with a latency"`
	AffinityHeader     bool     `json:"affinity-header" under:"true true false" about:"requests have the header X-Session-Affinity"`
	SchemaVersion      Choice   `json:"schema-version" words:"1.4 1.5" under:"1.5 1.4 1.4" about:"of the files for readers of AIPerf's"`
}

// Choice is a value of a switch that is a word.
type Choice string

// Seconds is a duration; its JSON is a number of seconds.
type Seconds float64

// Duration returns s as a duration; 0 for nil, which is off.
func (s *Seconds) Duration() time.Duration {
	if s == nil {
		return 0
	}
	return time.Duration(float64(*s) * float64(time.Second))
}

// OverflowWords says by which texts an error is an overflow of the context; those of all servers otherwise.
const (
	WordsOfAIPerf Choice = "aiperf" // the four of AIPerf
	NoWords       Choice = "none"   // only those of Options.OverflowPatterns, in package replay
)

// ThroughputWindow says what every throughput is of and divides by, and the time of the effective curves.
const (
	WindowBenchmark Choice = "benchmark" // from the first request sent to the last token
	WindowPhase     Choice = "phase"     // from the start to the end of the phase
	WindowDelivered Choice = "delivered" // from the start to the deadline: what came in that time
)

// FlowChunks is the one FlowCurve: the tokens of a request are spread over the gaps between chunks.
const FlowChunks Choice = "chunks"

// Switch is one of Switches.
type Switch struct {
	Name, About string
	Words       []string // its values; none: it is a duration, true or false
	To          any      // where its value is: *bool, *Choice or **Seconds
	under       []string
}

// List returns the switches in their order.
func (s *Switches) List() (list []Switch) {
	for f, v := range reflect.ValueOf(s).Elem().Fields() {
		list = append(list, Switch{f.Tag.Get("json"), f.Tag.Get("about"), strings.Fields(f.Tag.Get("words")), v.Addr().Interface(), strings.Fields(f.Tag.Get("under"))})
	}
	return list
}

// set gives a switch a value as tags have it.
func (x *Switch) set(text string) {
	switch to := x.To.(type) {
	case *bool:
		*to = text == "true" || len(x.Words) == 2 && text == x.Words[1]
	case *Choice:
		*to = Choice(text)
	case **Seconds:
		if n, err := strconv.ParseFloat(text, 64); err == nil { // else off
			*to = (*Seconds)(&n)
		}
	}
}

// value returns the value as JSON has it.
func (x *Switch) value() any {
	if to, is := x.To.(*bool); is && len(x.Words) == 2 {
		return map[bool]string{false: x.Words[0], true: x.Words[1]}[*to]
	}
	return reflect.ValueOf(x.To).Elem().Interface()
}

// UnmarshalJSON reads the value.
func (x *Switch) UnmarshalJSON(text []byte) error {
	if _, is := x.To.(*bool); !is || len(x.Words) == 0 {
		return json.Unmarshal(text, x.To)
	}
	var word string
	err := json.Unmarshal(text, &word)
	x.set(word)
	return err
}

// Named returns the switches of a preset. ok is false for an unknown name.
func Named(name string) (s Switches, ok bool) {
	name, _ = Canonical(name)
	k := slices.Index(Names, name)
	if k < 0 {
		return s, false
	}
	for _, x := range s.List() {
		x.set(x.under[k])
	}
	return s, true
}

// Prefix stands before the names of settings in all errors, hints and remarks of package replay and of those below it. A command whose
// settings are flags sets it to "--", before it calls them.
var Prefix string

// Setting returns the name of a setting for an error, a hint or a remark.
func Setting(name string) string { return Prefix + name }

// Text is an error, a hint or a remark in which the names of settings stand in braces: {speed}, or {speed=} for one that Told shows with its
// value.
type Text string

var named = lazyregexp.New(`\{([a-z-]+)(=?)\}`)

// String returns the text with the names of the settings, each behind the Prefix.
func (t Text) String() string { return named().ReplaceAllString(string(t), Prefix+"$1") }

// Error returns String.
func (t Text) Error() string { return t.String() }

// Told returns the text with settings as a function shows them.
func (t Text) Told(show func(name string, valued bool) string) string {
	return named().ReplaceAllStringFunc(string(t), func(text string) string {
		part := named().FindStringSubmatch(text)
		return show(part[1], part[2] != "")
	})
}

// renamed are the settings of a replay whose names of before are not those of now in another spelling.
var renamed = map[string]string{
	"GapCap": "max-gap", "IgnoreDelays": "asap", "IgnoreDelaysKeepsOrder": "asap-keeps-order", "RequestTimeout": "timeout", "FailedRequestThreshold": "max-error-rate",
	"ArrivalProcess": "arrival", "WindowFrom": "from", "WindowTo": "to", "SessionHeaders": "session-header", "StopOnWedge": "stop-on-deadlock",
}

// Meant returns the name of now of a setting that a name of before stands for, in any spelling, such as gap_cap; "" if there is none.
func Meant(name string) string {
	for before, now := range renamed {
		if strings.EqualFold(before, strings.NewReplacer("-", "", "_", "").Replace(name)) {
			return now
		}
	}
	return ""
}

// Renamed returns the name of a switch or another setting by the one that results before November 2026 have, such as SpawnOffset. Another
// name stays as it is.
func Renamed(name string) string {
	if n, ok := renamed[name]; ok {
		return n
	}
	if name == "" || !unicode.IsUpper(rune(name[0])) {
		return name
	}
	var b strings.Builder
	for k, c := range name {
		if k > 0 && unicode.IsUpper(c) && (unicode.IsLower(rune(name[k-1])) || k+1 < len(name) && unicode.IsLower(rune(name[k+1]))) {
			b.WriteByte('-')
		}
		b.WriteRune(unicode.ToLower(c))
	}
	return b.String()
}

// Deviations are switches that differ from a preset, as JSON by name. They are read by the names of before, too.
type Deviations map[string]json.RawMessage

// UnmarshalJSON reads them as results have them.
func (d *Deviations) UnmarshalJSON(text []byte) error {
	var list map[string]json.RawMessage
	if err := json.Unmarshal(text, &list); err != nil || list == nil {
		return err
	}
	*d = Deviations{}
	for name, value := range list {
		(*d)[Renamed(name)] = value
	}
	return nil
}

// Deviations returns the switches whose values differ from those of a preset. It is never nil.
func (s Switches) Deviations(preset string) Deviations {
	base, _ := Named(preset) // an unknown one has no values
	same, list := base.values(), s.values()
	maps.DeleteFunc(list, func(name string, value json.RawMessage) bool { return bytes.Equal(value, same[name]) })
	return list
}

// values returns all switches as JSON by name.
func (s Switches) values() Deviations {
	list := Deviations{}
	for _, x := range s.List() {
		list[x.Name], _ = json.Marshal(x.value()) // words, numbers and truth values always marshal
	}
	return list
}

// MarshalJSON returns all switches by name.
func (s Switches) MarshalJSON() ([]byte, error) { return json.Marshal(s.values()) }

// Recorded returns the switches of a preset with deviations, as Deviations gave them. "" is the preset default.
func Recorded(preset string, deviations Deviations) (s Switches, err error) {
	s, ok := Named(cmp.Or(preset, Default))
	if !ok {
		return s, fmt.Errorf("preset %q: want one of %s", preset, strings.Join(Names, ", "))
	}
	all := s.List()
	for _, name := range slices.Sorted(maps.Keys(deviations)) {
		k := slices.IndexFunc(all, func(x Switch) bool { return x.Name == name })
		if err = fmt.Errorf("json: unknown field %q", name); k >= 0 {
			err = all[k].UnmarshalJSON(deviations[name])
		}
		if err != nil {
			return s, fmt.Errorf("switches of preset %s: %w", cmp.Or(preset, Default), err)
		}
	}
	return s, nil
}
