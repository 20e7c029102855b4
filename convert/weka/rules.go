// Package weka knows what a recorded trace means: it scans the JSON of one trace, and plans the sessions, turns,
// segments and blocks that it is replayed as. It works on numbers alone: no token and no text passes through it.
//
// The data path is scan (bytes to Trace), times (clocks of nested requests), buffer (segments of a prompt),
// plan (Trace to Plan) and draw (blocks and fillers to places in a corpus).
package weka

import (
	"fmt"
	"reflect"
	"sort"
	"strconv"
	"strings"
)

// Rules is everything besides the input that can change a byte of the structure: the rows of the table of
// decisions as plain values. It is hashed whole into the structure's key, and nothing else branches on a profile.
//
// The JSON names are those of `--set NAME=VALUE`.
type Rules struct {
	BlockSize        int    `json:"block_size"`        // tokens of a block; 0 takes what each trace declares (D1)
	LengthRule       string `json:"length_rule"`       // "repaired": a prompt has exactly `in` tokens; "upstream": as published (D2)
	UnknownKeys      string `json:"unknown_keys"`      // "count" tolerates the looseness of older corpora, "reject" is strict (D3, D7, D8, D15)
	NestedBasis      string `json:"nested_basis"`      // clock of nested times: "auto", "absolute", "relative", "per-request" (D4)
	MarkerTime       string `json:"marker_time"`       // meaning of a marker's t: "auto", "start", "end" (D4)
	ThinkTimeRule    string `json:"think_time_rule"`   // "min": think time never exceeds the recorded gap; "raw" (D5)
	NegativeAPITime  string `json:"negative_api_time"` // "zero": a negative duration has width 0; "subtract" (D18)
	Refusals         string `json:"refusals"`          // "repair" or "error": negative child delay, branch before 0, join not after spawn (D19 to D21)
	FillerOverrun    string `json:"filler_overrun"`    // filler longer than the corpus: "cyclic" or "short" (D10)
	PredecessorClock string `json:"predecessor_clock"` // "recorded" or "emitted" (D13)
	ReplayScope      string `json:"replay_scope"`      // "assigned" or "parsed" (D12)
	CacheMetric      string `json:"cache_metric"`      // "legacy" or "causal" (D17)
	SplitAgents      bool   `json:"split_agents"`      // detect flattened side chains (section 5.3)
	ToolShaped       bool   `json:"tool_shaped"`       // shape tool results as tool messages (section 4.7)
	MaxInput         int64  `json:"max_isl"`           // drop top-level requests with a longer prompt, tokens; 0: none
	StartOffset      int64  `json:"start_offset"`      // drop top-level requests before this time, ms; 0: none
	EndOffset        int64  `json:"end_offset"`        // drop top-level requests after this time, ms; 0: none
	MaxOutput        int64  `json:"max_osl"`           // cap on max_tokens of main turns, tokens; 0: none
}

// Draws is what decides where in the corpus a block or filler lies. It is no part of the structure's key, but of the starts'.
type Draws struct {
	Backend string `json:"backend"` // "xxh3" or "sha256-mt" (D16)
	Seed    int64  `json:"seed"`    // the operator's seed
}

// Back-ends from a seed to places in the corpus.
const (
	XXH3     = "xxh3"
	SHA256MT = "sha256-mt"
)

// Default returns the rules of the profile `default`: published behaviour with its defects repaired.
func Default() Rules {
	return Rules{
		LengthRule: "repaired", UnknownKeys: "count", NestedBasis: "auto", MarkerTime: "auto", ThinkTimeRule: "min",
		NegativeAPITime: "zero", Refusals: "repair", FillerOverrun: "cyclic", PredecessorClock: "recorded",
		ReplayScope: "assigned", CacheMetric: "legacy",
	}
}

// choices lists the values that each field may take and that are built. A value of the specification that is not
// listed here is refused, never ignored.
var choices = map[string][]string{
	"length_rule":       {"repaired", "upstream"},
	"unknown_keys":      {"count", "reject"},
	"nested_basis":      {"auto", "absolute", "relative", "per-request"},
	"marker_time":       {"auto", "start", "end"},
	"think_time_rule":   {"min"},
	"negative_api_time": {"zero"},
	"refusals":          {"repair"},
	"filler_overrun":    {"cyclic"},
	"predecessor_clock": {"recorded"},
	"replay_scope":      {"assigned"},
	"cache_metric":      {"legacy"},
	"split_agents":      {"false"},
	"tool_shaped":       {"false"},
	"max_isl":           {"0"},
	"start_offset":      {"0"},
	"end_offset":        {"0"},
	"max_osl":           {"0"},
}

// MaxBlockSize bounds the block size, in tokens: far above any in use, far below what would exhaust memory.
const MaxBlockSize = 1 << 20

// Set changes one field by its JSON name, as `--set NAME=VALUE` does.
func (r *Rules) Set(name, value string) error {
	v := reflect.ValueOf(r).Elem()
	for i := range v.NumField() {
		if v.Type().Field(i).Tag.Get("json") != name {
			continue
		}
		if allowed, ok := choices[name]; ok && !contains(allowed, value) {
			return fmt.Errorf("--set %s=%s: not built: choose from %s", name, value, strings.Join(allowed, ", "))
		}
		switch f := v.Field(i); f.Kind() {
		case reflect.String:
			f.SetString(value)
		case reflect.Bool:
			b, err := strconv.ParseBool(value)
			if err != nil {
				return fmt.Errorf("--set %s=%s: want true or false", name, value)
			}
			f.SetBool(b)
		default:
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil || n < 0 || n > MaxBlockSize {
				return fmt.Errorf("--set %s=%s: want a number from 0 to %d", name, value, MaxBlockSize)
			}
			f.SetInt(n)
		}
		return nil
	}
	return fmt.Errorf("--set %s: no such option: choose from backend, %s", name, strings.Join(Options(), ", "))
}

// Options lists the names that Set takes, sorted.
func Options() []string {
	var names []string
	t := reflect.TypeFor[Rules]()
	for i := range t.NumField() {
		names = append(names, t.Field(i).Tag.Get("json"))
	}
	sort.Strings(names)
	return names
}

func (r Rules) strict() bool { return r.UnknownKeys == "reject" }

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}
