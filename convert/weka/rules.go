// Package weka knows what a recorded trace means: it scans the JSON of one trace, and plans the sessions, turns,
// segments and blocks that it is replayed as. It works on numbers alone: no token and no text passes through it.
//
// The data path is scan (bytes to Trace), clock (times of nested requests), chains and classes (which requests are one
// conversation), buffer (segments of a prompt), plan (Trace to Plan) and draw (blocks and fillers to places in a corpus).
package weka

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/timeline"
)

// Rules is everything besides the input that can change a byte of the structure: the rows of the table of
// decisions as plain values. It is hashed whole into the structure's key, and nothing else branches on a profile.
//
// The JSON names are those of `--set NAME=VALUE`.
type Rules struct {
	BlockSize          int     `json:"block_size"`        // tokens of a block; 0 takes what each trace declares (D1)
	LengthRule         string  `json:"length_rule"`       // "repaired": a prompt has exactly `in` tokens; "upstream": as published (D2)
	UnknownKeys        string  `json:"unknown_keys"`      // "count" tolerates the looseness of older corpora, "reject" is strict (D3, D7, D8, D15)
	NestedBasis        string  `json:"nested_basis"`      // clock of nested times: "auto", "absolute", "relative", "per-request" (D4)
	MarkerTime         string  `json:"marker_time"`       // meaning of a marker's t: "auto", "start", "end" (D4)
	ThinkTimeRule      string  `json:"think_time_rule"`   // "min": think time never exceeds the recorded gap; "raw" (D5)
	NegativeAPITime    string  `json:"negative_api_time"` // "zero": a negative duration has width 0; "subtract" (D18)
	Refusals           string  `json:"refusals"`          // "repair" or "error": negative child delay, branch before 0, join not after spawn (D19 to D21)
	FillerOverrun      string  `json:"filler_overrun"`    // filler longer than the corpus: "cyclic" or "short" (D10)
	PredecessorClock   string  `json:"predecessor_clock"` // "recorded" or "emitted" (D13)
	ReplayScope        string  `json:"replay_scope"`      // "assigned" or "parsed" (D12)
	CacheMetric        string  `json:"cache_metric"`      // "legacy" or "causal" (D17)
	SplitAgents        bool    `json:"split_agents"`      // detect flattened side chains (section 5.3)
	SplicedOrder       bool    `json:"spliced_order"`     // requests of a split list stay in the order in which seams joined them; else that of time
	AuxMaxRequests     int64   `json:"aux_max_requests"`
	AuxISLRatio        float64 `json:"aux_isl_ratio"`
	AuxISLFloor        int64   `json:"aux_isl_floor"`
	AuxCrossModel      bool    `json:"aux_cross_model"`
	AuxReductionOSLMax int64   `json:"aux_reduction_osl_max"`
	AuxReductionRatio  float64 `json:"aux_reduction_ratio"`
	WorkerGroupMin     int64   `json:"worker_group_min"`
	SeamMaxGap         float64 `json:"seam_max_gap_seconds"`
	SeamMinOverlap     float64 `json:"seam_min_overlap_ratio"`
	ToolShaped         bool    `json:"tool_shaped"`  // shape tool results as tool messages (section 4.7)
	MaxInput           *int64  `json:"max_isl"`      // drop top-level requests with a longer prompt, tokens; nil: none
	StartOffset        *int64  `json:"start_offset"` // drop top-level requests before this time, ms; nil: none
	EndOffset          *int64  `json:"end_offset"`   // drop top-level requests after this time, ms; nil: none
	MaxOutput          *int64  `json:"max_osl"`      // cap on max_tokens of main and flat turns, tokens; nil: none
}

// Placement is what decides where in the corpus a block or filler lies. It is no part of the structure's key, but of the starts'.
type Placement struct {
	Backend string `json:"backend"` // "xxh3" or "sha256-mt" (D16)
	Seed    int64  `json:"seed"`    // the operator's seed; that of sha256-mt is unsigned, and these are its bits
	Stream  string `json:"stream"`  // CodingStream or SonnetStream for sha256-mt, else ""
}

// Back-ends from a seed to places in the corpus.
const (
	XXH3     = "xxh3"
	SHA256MT = "sha256-mt"
)

// MarshalJSON writes the seed as the operator did.
func (d Placement) MarshalJSON() ([]byte, error) {
	type plain Placement // without this method
	if d.Backend != SHA256MT {
		return json.Marshal(plain(d))
	}
	return json.Marshal(struct {
		plain
		Seed uint64 `json:"seed"`
	}{plain(d), uint64(d.Seed)})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (d *Placement) UnmarshalJSON(data []byte) error {
	type plain Placement
	var both struct {
		plain
		Seed json.Number `json:"seed"`
	}
	if err := json.Unmarshal(data, &both); err != nil {
		return err
	}
	*d = Placement(both.plain)
	unsigned, err := strconv.ParseUint(string(both.Seed), 10, 64)
	if d.Seed = int64(unsigned); err != nil || d.Backend != SHA256MT {
		d.Seed, err = strconv.ParseInt(string(both.Seed), 10, 64)
	}
	return err
}

// Default returns the rules of the profile `default`: published behaviour with its defects repaired.
func Default() Rules {
	return Rules{
		LengthRule: "repaired", UnknownKeys: "count", NestedBasis: "auto", MarkerTime: "auto", ThinkTimeRule: "min",
		NegativeAPITime: "zero", Refusals: "repair", FillerOverrun: "cyclic", PredecessorClock: "recorded",
		ReplayScope: "assigned", CacheMetric: "legacy", SplitAgents: true,
		AuxMaxRequests: 1, AuxISLRatio: 0.10, AuxISLFloor: 16384, AuxCrossModel: true, AuxReductionOSLMax: 4000,
		AuxReductionRatio: 20, WorkerGroupMin: 3, SeamMaxGap: 3600, SeamMinOverlap: 0.5,
	}
}

// choices lists the values that a field with words for values may take.
var choices = map[string][]string{
	"length_rule":       {"repaired", "upstream"},
	"unknown_keys":      {"count", "reject"},
	"nested_basis":      {"auto", "absolute", "relative", "per-request"},
	"marker_time":       {"auto", "start", "end"},
	"think_time_rule":   {"min", "raw"},
	"negative_api_time": {"zero", "subtract"},
	"refusals":          {"repair", "error"},
	"filler_overrun":    {"cyclic", "short"},
	"predecessor_clock": {"recorded", "emitted"},
	"replay_scope":      {"assigned", "parsed"},
	"cache_metric":      {"legacy", "causal"},
}

// MaxBlockSize bounds the block size, in tokens: far above any in use, far below what would exhaust memory.
const MaxBlockSize = 1 << 20

// Set changes one field by its JSON name, as `--set NAME=VALUE` does. The value none puts an optional field back.
func (r *Rules) Set(name, value string) error {
	v := reflect.ValueOf(r).Elem()
	for i := range v.NumField() {
		if v.Type().Field(i).Tag.Get("json") != name {
			continue
		}
		if allowed, ok := choices[name]; ok && !slices.Contains(allowed, value) {
			return fmt.Errorf("--set %s=%s: want one of %s", name, value, strings.Join(allowed, ", "))
		}
		if err := setField(v.Field(i), value); err != nil {
			return fmt.Errorf("--set %s=%s: %w", name, value, err)
		}
		if r.BlockSize < 0 || r.BlockSize > MaxBlockSize {
			return fmt.Errorf("--set %s=%s: want 0 (as declared) to %d", name, value, MaxBlockSize)
		}
		return nil
	}
	return fmt.Errorf("--set %s: no such option: choose from backend, %s", name, strings.Join(RuleNames(), ", "))
}

func setField(f reflect.Value, value string) (err error) {
	switch f.Kind() {
	case reflect.String:
		f.SetString(value)
	case reflect.Bool:
		b, parseErr := strconv.ParseBool(value)
		if parseErr != nil {
			return errors.New("want true or false")
		}
		f.SetBool(b)
	case reflect.Float64:
		x, parseErr := strconv.ParseFloat(value, 64)
		if parseErr != nil || math.IsNaN(x) || math.IsInf(x, 0) {
			return errors.New("want a number")
		}
		f.SetFloat(x)
	case reflect.Pointer:
		f.SetZero()
		if value != "none" {
			n := reflect.New(f.Type().Elem())
			if err = setField(n.Elem(), value); err == nil {
				f.Set(n)
			}
		}
	default:
		n, parseErr := strconv.ParseInt(value, 10, 64)
		if parseErr != nil {
			return errors.New("want a whole number")
		}
		f.SetInt(n)
	}
	return err
}

// RuleNames lists the names that Set takes, sorted.
func RuleNames() []string {
	var names []string
	t := reflect.TypeFor[Rules]()
	for i := range t.NumField() {
		names = append(names, t.Field(i).Tag.Get("json"))
	}
	sort.Strings(names)
	return names
}

// AIPerf returns the rules of the profile `aiperf`: those of AIPerf 0.13.0, its defects and refusals included.
func AIPerf() Rules {
	r := Default()
	r.BlockSize = 64
	r.LengthRule, r.UnknownKeys, r.NestedBasis, r.MarkerTime = "upstream", "reject", "per-request", "start"
	r.ThinkTimeRule, r.NegativeAPITime, r.Refusals, r.FillerOverrun = "raw", "subtract", "error", "short"
	r.PredecessorClock, r.ReplayScope, r.SplicedOrder = "emitted", "parsed", true
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

func (r Rules) strict() bool { return r.UnknownKeys == "reject" }

func (r Rules) causalCache() bool { return r.CacheMetric == "causal" }
