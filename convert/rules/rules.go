// Package rules has the decisions of a conversion as values: Rules, how a trace becomes a plan (package reconstruct), and Placement,
// where in the corpus its blocks lie. Keys of caches contain both.
package rules

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/timeline"
	"github.com/agentx/agentx/trace"
)

// Rules are the decisions of the reconstruction: everything besides the input that can change a byte of the structure. All
// of it is hashed into the structure's key, and no other code asks for a profile. The Dnn in comments are rows of the table
// of decisions, doc/spec/reconstruction.md 0.4.
//
// The zero value means Default(). Otherwise every field counts as it is, so begin with Default() or AIPerf() and change
// fields. The JSON names are those that Set takes, the words what a value may be.
type Rules struct {
	BlockSize        int    `json:"block_size"`                                              // tokens of a block; 0 takes what each trace declares (D1)
	LengthRule       string `json:"length_rule" words:"repaired upstream"`                   // "repaired": a prompt has exactly `in` tokens; "upstream": as published (D2)
	UnknownKeys      string `json:"unknown_keys" words:"count reject"`                       // "count" tolerates what older corpora add or leave out, "reject" is strict (D3, D7, D8, D15)
	NestedBasis      string `json:"nested_basis" words:"auto absolute relative per-request"` // clock of nested times: "auto", "absolute", "relative", "per-request" (D4)
	MarkerTime       string `json:"marker_time" words:"auto start end"`                      // meaning of a subagent's t: "auto", "start", "end" (D4)
	ThinkTimeRule    string `json:"think_time_rule" words:"min raw"`                         // "min": think time never exceeds the recorded gap; "raw" (D5)
	NegativeAPITime  string `json:"negative_api_time" words:"zero subtract"`                 // "zero": a negative duration counts as 0; "subtract" (D18)
	Refusals         string `json:"refusals" words:"repair error"`                           // "repair" or "error": negative child delay, branch before 0, join not after spawn (D19 to D21); "repair" refuses an id with "::"
	FillerOverrun    string `json:"filler_overrun" words:"cyclic short"`                     // filler longer than the corpus: "cyclic" or "short" (D10)
	PredecessorClock string `json:"predecessor_clock" words:"recorded emitted"`              // "recorded" or "emitted" (D13)
	ReplayScope      string `json:"replay_scope" words:"assigned parsed"`                    // "assigned" or "parsed" (D12)
	CacheMetric      string `json:"cache_metric" words:"legacy causal"`                      // theoretical hits: "legacy" or "causal" (D17)

	// Side chains: doc/spec/reconstruction.md 5.3 and 5.4.
	SplitAgents        bool    `json:"split_agents"`           // detect side chains
	SplicedOrder       bool    `json:"spliced_order"`          // requests of a split list stay in the order in which seams joined them; else in that of time
	AuxMaxRequests     int64   `json:"aux_max_requests"`       // most requests of an auxiliary chain; 0: there are none
	AuxISLRatio        float64 `json:"aux_isl_ratio"`          // and a prompt shorter than this share of the main chain's longest,
	AuxISLFloor        int64   `json:"aux_isl_floor"`          // or than this many tokens,
	AuxCrossModel      bool    `json:"aux_cross_model"`        // or another model than the main chain
	AuxReductionOSLMax int64   `json:"aux_reduction_osl_max"`  // a reduction has fewer output tokens; 0: there are none
	AuxReductionRatio  float64 `json:"aux_reduction_ratio"`    // and more input tokens than this times its output
	WorkerGroupMin     int64   `json:"worker_group_min"`       // this many concurrent workers of one fork are a group; 0: there are none
	SeamMaxGap         float64 `json:"seam_max_gap_seconds"`   // a seam takes no longer,
	SeamMinOverlap     float64 `json:"seam_min_overlap_ratio"` // unless it keeps at least this share of the context

	ToolShaped  bool   `json:"tool_shaped"`  // shape tool results as tool messages: doc/spec/reconstruction.md 4.7
	MaxInput    *int64 `json:"max_isl"`      // drop top-level requests with a longer prompt, tokens; nil: none
	StartOffset *int64 `json:"start_offset"` // drop top-level requests before this time, ms; nil: none
	EndOffset   *int64 `json:"end_offset"`   // drop top-level requests after this time, ms; nil: none
	MaxOutput   *int64 `json:"max_osl"`      // cap on max_tokens of main and flat turns, tokens; nil: none

	FailedRows string `json:"loads.failed,omitempty" words:"drop keep"` // of tables that mark requests that failed: "drop" or "", or "keep"

	// Of Mooncake rows alone: keys of other inputs do not have them.
	Timestamps  string `json:"timestamps,omitempty" words:"auto s ms us ns"`            // unit of timestamp and delay: "auto", "s", "ms", "us", "ns"
	Namespace   string `json:"namespace,omitempty" words:"auto file input"`             // of ids: "auto" of a file, or of the shards of one; "file"; "input"
	SessionRows string `json:"session_rows,omitempty" words:"ask whole new delta live"` // of rows of a session whose ids do not say: "ask" refuses them; they are "whole" prompts, or what is "new"; "delta": what is new, of all rows; "live": likewise, behind the answers of the server
}

// WithoutMooncake returns the rules of an input that has no Mooncake rows.
func (r Rules) WithoutMooncake() Rules {
	r.Timestamps, r.Namespace, r.SessionRows = "", "", ""
	return r
}

// Default returns the rules of the profile `default`: published behaviour with its defects repaired.
func Default() Rules {
	return Rules{
		LengthRule: "repaired", UnknownKeys: "count", NestedBasis: "auto", MarkerTime: "auto", ThinkTimeRule: "min",
		NegativeAPITime: "zero", Refusals: "repair", FillerOverrun: "cyclic", PredecessorClock: "recorded",
		ReplayScope: "assigned", CacheMetric: "legacy", SplitAgents: true,
		AuxMaxRequests: 1, AuxISLRatio: 0.10, AuxISLFloor: 16384, AuxCrossModel: true, AuxReductionOSLMax: 4000,
		AuxReductionRatio: 20, WorkerGroupMin: 3, SeamMaxGap: 3600, SeamMinOverlap: 0.5, Timestamps: "auto", Namespace: "auto", SessionRows: "ask",
	}
}

// AIPerf returns the rules of the profile `aiperf`: those of AIPerf 0.13.0, its defects and refusals included.
func AIPerf() Rules {
	r := Default()
	r.BlockSize = 64
	r.LengthRule, r.UnknownKeys, r.NestedBasis, r.MarkerTime = "upstream", "reject", "per-request", "start"
	r.ThinkTimeRule, r.NegativeAPITime, r.Refusals, r.FillerOverrun = "raw", "subtract", "error", "short"
	r.PredecessorClock, r.ReplayScope, r.SplicedOrder = "emitted", "parsed", true
	r.Timestamps = "ms"
	return r
}

// WithDefaults returns Default() for the zero value, and r otherwise.
func (r Rules) WithDefaults() Rules {
	if r == (Rules{}) {
		return Default()
	}
	return r
}

// TimeRules returns the rules that a reader of the cache applies.
func (r Rules) TimeRules() mmapcache.TimeRules {
	return mmapcache.TimeRules{
		Rules: timeline.Rules{
			SubtractNegative: r.NegativeAPITime == "subtract",
			RawThink:         r.ThinkTimeRule == "raw",
			RefuseNegative:   r.Refusals == "error",
		},
		ParsedScope:  r.ReplayScope == "parsed",
		EmittedClock: r.PredecessorClock == "emitted",
		RefuseJoin:   r.Refusals == "error",
		ShortFiller:  r.FillerOverrun == "short",
		MaxOutput:    r.MaxOutput,
	}
}

// Strict reports whether readers refuse what they otherwise tolerate.
func (r Rules) Strict() bool { return r.UnknownKeys == "reject" }

// Validate reports the first field with a value that is not allowed: its JSON name, the value, and what is allowed. The zero
// value of Rules is valid, and so is WithoutMooncake; another empty word is not.
func (r Rules) Validate() error {
	v := reflect.ValueOf(r.WithDefaults())
	for f := range v.Type().Fields() {
		field := v.FieldByIndex(f.Index)
		name, optional := ruleName(f)
		if optional && field.IsZero() {
			continue
		}
		if err := checkField(f, field); err != nil {
			shown := fmt.Sprint(field)
			if field.Kind() == reflect.String {
				shown = strconv.Quote(shown)
			}
			return fmt.Errorf("%s %s: %w", name, shown, err)
		}
	}
	return nil
}

// ruleName returns the name of a rule, and whether it may be empty: not all keys have it.
func ruleName(f reflect.StructField) (name string, optional bool) {
	return strings.CutSuffix(f.Tag.Get("json"), ",omitempty")
}

// checkField says what is allowed where the value of a field is not.
func checkField(f reflect.StructField, v reflect.Value) error {
	name, _ := ruleName(f)
	words := strings.Fields(f.Tag.Get("words"))
	switch {
	case len(words) > 0 && !slices.Contains(words, v.String()):
		return errors.New("want one of " + strings.Join(words, ", "))
	case name == "block_size" && (v.Int() < 0 || v.Int() > trace.MaxBlockSize):
		return fmt.Errorf("want 0 (as declared) to %d", trace.MaxBlockSize)
	case v.Kind() == reflect.Float64 && (math.IsNaN(v.Float()) || math.IsInf(v.Float(), 0)):
		return errors.New("want a number")
	case v.CanInt() && v.Int() < 0, v.CanFloat() && v.Float() < 0:
		return errors.New("want 0 or more")
	case (name == "max_isl" || name == "max_osl") && !v.IsNil() && v.Elem().Int() < 0:
		return errors.New("want 0 or more, or none")
	}
	return nil
}

// Set changes one field by its JSON name. The value none makes an optional field nil.
func (r *Rules) Set(name, value string) error {
	changed := *r
	v := reflect.ValueOf(&changed).Elem()
	for f := range v.Type().Fields() {
		if have, _ := ruleName(f); have != name {
			continue
		}
		err := setField(v.FieldByIndex(f.Index), value)
		if err == nil {
			err = checkField(f, v.FieldByIndex(f.Index))
		}
		if err != nil {
			return fmt.Errorf("%s=%s: %w", name, value, err)
		}
		*r = changed
		return nil
	}
	return fmt.Errorf("%s: unknown option: choose from backend, %s", name, strings.Join(Names(), ", "))
}

// setField parses a value for a field by the type of the field.
func setField(f reflect.Value, value string) (err error) {
	var want string
	switch f.Kind() {
	case reflect.String:
		f.SetString(value)
	case reflect.Bool:
		var b bool
		b, err = strconv.ParseBool(value)
		want = "true or false"
		f.SetBool(b)
	case reflect.Float64:
		var x float64
		x, err = strconv.ParseFloat(value, 64)
		want = "a number"
		f.SetFloat(x)
	case reflect.Pointer:
		if f.SetZero(); value != "none" {
			f.Set(reflect.New(f.Type().Elem()))
			return setField(f.Elem(), value)
		}
	default:
		var n int64
		n, err = strconv.ParseInt(value, 10, 64)
		want = "a whole number"
		f.SetInt(n)
	}
	if err != nil {
		return errors.New("want " + want)
	}
	return nil
}

// Names lists the names that Set takes, sorted.
func Names() (names []string) {
	for f := range reflect.TypeFor[Rules]().Fields() {
		name, _ := ruleName(f)
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
