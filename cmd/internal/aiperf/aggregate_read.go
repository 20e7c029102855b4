package aiperf

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/agentx/agentx/report"
)

// Aggregate is what the JSON file of a run says.
type Aggregate struct {
	Schema   string       // schema_version
	Version  string       // aiperf_version
	Start    string       // start_time as it stands there; "": there is none
	End      string       // end_time
	Headline report.Table // every block at the top level, sorted by tag
	Warmup   report.Table // of warmup_metrics
	cooldown report.Table // of cooldown_metrics
	steady   report.Table // of steady_metrics
	Valid    *bool        // metadata.submission_valid; nil: it does not say
	Reasons  []string     // of both lists of reasons

	top map[string]json.RawMessage
}

// ReadAggregate reads the JSON file of a run of agentx or of AIPerf. What is no block of a metric, and no key that it knows, it
// leaves out.
func ReadAggregate(data []byte) (*Aggregate, error) {
	var top map[string]json.RawMessage
	if err := json.Unmarshal(data, &top); err != nil {
		return nil, describeJSON(data, err)
	}
	if top == nil {
		return nil, errors.New("null: want an object")
	}
	a := &Aggregate{Headline: readTable(top), top: top}
	text := func(key string) string { return strings.Trim(string(top[key]), `"`) }
	a.Schema, a.Version, a.Start, a.End = text("schema_version"), text("aiperf_version"), text("start_time"), text("end_time")
	var metadata struct {
		Valid   *bool                      `json:"submission_valid"`
		Reasons []string                   `json:"submission_invalid_reasons"`
		Agentx  map[string]json.RawMessage `json:"agentx"` // has tables where they stand nowhere else
	}
	_ = json.Unmarshal(top["metadata"], &metadata) // absent in old files
	for key, to := range map[string]*report.Table{"warmup_metrics": &a.Warmup, "cooldown_metrics": &a.cooldown, "steady_metrics": &a.steady} {
		for _, members := range []map[string]json.RawMessage{metadata.Agentx, top} {
			var below map[string]json.RawMessage
			if json.Unmarshal(members[key], &below) == nil {
				*to = readTable(below)
			}
		}
	}
	var others []string
	_ = json.Unmarshal(top["runtime_submission_invalid_reasons"], &others)
	a.Valid, a.Reasons = metadata.Valid, metadata.Reasons
	for _, reason := range others {
		if !slices.Contains(a.Reasons, reason) {
			a.Reasons = append(a.Reasons, reason)
		}
	}
	return a, nil
}

// Setting returns a value below the top of the file by the keys, or places in lists, that lead to it: a text as it is, another value as
// JSON, "" where there is none.
func (a *Aggregate) Setting(path ...string) string {
	var value any = map[string]any{}
	if len(path) == 0 || json.Unmarshal(a.top[path[0]], &value) != nil {
		return ""
	}
	for _, key := range path[1:] {
		switch v := value.(type) {
		case map[string]any:
			value = v[key]
		case []any:
			k, err := strconv.Atoi(key)
			if err != nil || k < 0 || k >= len(v) {
				return ""
			}
			value = v[k]
		default:
			return ""
		}
	}
	if text, ok := value.(string); ok || value == nil {
		return text
	}
	text, _ := json.Marshal(value) // which was JSON before
	return string(text)
}

// describeJSON says at which line a JSON text ends to be one.
func describeJSON(data []byte, err error) error {
	var syntax *json.SyntaxError
	if !errors.As(err, &syntax) {
		return err
	}
	line := 1 + bytes.Count(data[:min(int(syntax.Offset), len(data))], []byte{'\n'})
	if int(syntax.Offset) >= len(bytes.TrimSpace(data)) {
		return fmt.Errorf("line %d: cut off after %d bytes: %w", line, len(data), err)
	}
	return fmt.Errorf("line %d: %w", line, err)
}

// readTable returns the members that are blocks of metrics, sorted by tag.
func readTable(members map[string]json.RawMessage) (t report.Table) {
	for tag, text := range members {
		if b, ok := readBlockJSON(tag, text); ok {
			t = append(t, b)
		}
	}
	slices.SortFunc(t, func(x, y report.Block) int { return strings.Compare(x.Tag, y.Tag) })
	return t
}

// stats are the statistics that a block may have, in the order of files.
var stats = []string{"avg", "min", "max", "p1", "p5", "p10", "p25", "p50", "p75", "p90", "p95", "p99", "std", "count", "sum"}

// readBlockJSON reads a block: an object with a unit and numbers. It is false for any other value.
func readBlockJSON(tag string, text json.RawMessage) (b report.Block, ok bool) {
	var members map[string]json.RawMessage
	if json.Unmarshal(text, &members) != nil {
		return b, false
	}
	b = report.Block{Tag: tag, Name: tag, Unit: strings.Trim(string(members["unit"]), `"`)}
	for _, name := range stats {
		v, ok := members[name]
		if !ok || string(v) == "null" {
			continue
		}
		n, err := report.ParseNumber(string(v))
		if err != nil {
			return b, false
		}
		b.Stats = append(b.Stats, report.Stat{Name: name, Value: n})
	}
	if _, percentiles := b.Find("p50"); percentiles {
		b.Kind = report.Distribution
	}
	return b, len(b.Stats) > 0
}
