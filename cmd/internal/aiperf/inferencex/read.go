// Package inferencex computes the numbers that InferenceX computes from the files of AIPerf: those of its aggregation, its
// error-rate gate, its sweep collector and its power window.
//
// It reads the rows, the aggregate and the table (doc/spec/results.md 15.7), from agentx or from AIPerf, as the programs
// of InferenceX read them: it drops the rows that they drop, and fails on the lines on which they fail. It shares no code with
// package aiperf, which writes the files, so that each can be held against the other.
package inferencex

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/agentx/agentx/internal/jsonlex"
	"github.com/agentx/agentx/internal/lines"
	"github.com/agentx/agentx/internal/regular"
)

// The files of AIPerf that InferenceX reads.
const (
	rowsFile      = "profile_export.jsonl"
	aggregateFile = "profile_export_aiperf.json"
	tableFile     = "profile_export_aiperf.csv"
)

// DefaultLimit is the error rate above which InferenceX refuses a run.
const DefaultLimit = 0.10

// Numbers are all that InferenceX computes from a directory.
type Numbers struct {
	Dir string `json:"dir"` // in which the files are
	*Result
	Gate  Verdict     `json:"gate"`
	Sweep *SweepPoint `json:"sweep"` // nil: there is no table, and the sweep collector counts the point as failed
	Power *Power      `json:"power"`
}

// Verdict is what the error-rate gate says.
type Verdict struct {
	Limit    float64 `json:"limit"`
	Accepted bool    `json:"accepted"`
	Reason   string  `json:"reason,omitempty"`
}

// Read computes the numbers of a directory, or of the first of its child directories, by name, that has rows. The error names a file, and
// the line at which the aggregation ends.
func Read(dir string, limit float64) (*Numbers, error) {
	dir, err := find(dir)
	if err != nil {
		return nil, err
	}
	c, err := readRows(filepath.Join(dir, rowsFile))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, rowsFile), err)
	}
	var aggregate object
	data, err := readSmall(dir, aggregateFile)
	if err != nil {
		return nil, err
	}
	if data != nil {
		if err := json.Unmarshal(data, &aggregate); err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Join(dir, aggregateFile), err)
		}
	}
	n := &Numbers{Dir: dir, Result: c.result(), Gate: Verdict{Limit: limit, Accepted: true}, Power: c.power(aggregate)}
	n.Metrics.Cache.HitRate = hitRate(aggregate)
	if _, err := GateAggregate(data, limit); err != nil {
		n.Gate.Accepted, n.Gate.Reason = false, err.Error()
	}
	if table, err := readSmall(dir, tableFile); table != nil && err == nil {
		n.Sweep = SweepTable(table)
	}
	return n, nil
}

// find returns the directory in which InferenceX reads the files of a run.
func find(dir string) (string, error) {
	hasRows := func(dir string) bool {
		info, err := os.Stat(filepath.Join(dir, rowsFile))
		return err == nil && info.Mode().IsRegular()
	}
	if hasRows(dir) {
		return dir, nil
	}
	children, err := os.ReadDir(dir) // sorted by name
	if err != nil {
		return "", err
	}
	for _, child := range children {
		if below := filepath.Join(dir, child.Name()); child.IsDir() && hasRows(below) {
			return below, nil
		}
	}
	return "", fmt.Errorf("%s: there is no %s, nor in a directory below it: %w", dir, rowsFile, fs.ErrNotExist)
}

// maxAggregate is how many bytes an aggregate may have.
const maxAggregate = 256 << 20

// readSmall reads a file of a directory, which may have no more than maxAggregate bytes. A missing file is nil.
func readSmall(dir, name string) ([]byte, error) {
	data, err := regular.Read(filepath.Join(dir, name), maxAggregate)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}

// readRows reads the rows of a file. Blank lines are skipped. The error names the line, and of one without its end says that it is cut off.
func readRows(path string) (*columns, error) {
	file, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	c := &columns{Accounting: Accounting{ErrorCategories: map[string]int{}}, samples: map[string][]float64{}}
	for line, err := range lines.Each(file) {
		if err != nil {
			return nil, err
		}
		if len(bytes.TrimSpace(line.Text)) == 0 {
			continue
		}
		r, err := parseRow(line.Text)
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) && !line.Whole {
			err = fmt.Errorf("cut off after %d bytes: %w", len(line.Text), err)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", line.Number, err)
		}
		c.add(&r)
	}
	return c, nil
}

// row is one line of the rows, as far as the aggregation reads it.
type row struct {
	phase      string
	failed     bool
	category   string // of a failed row
	start, end int64  // nanoseconds since 1970; 0: missing
	metrics    object
}

// parseRow reads one line. A line that is not a JSON object ends the aggregation, and so does null where an object belongs.
func parseRow(text []byte) (r row, err error) {
	line, err := members(text)
	if err != nil {
		return r, err
	}
	var parts [2]object // a missing one is empty
	for k, key := range []string{"metadata", "metrics"} {
		o, ok := objectOf(line[key])
		if !ok && line[key] != nil {
			return r, fmt.Errorf("%s is %.20s: want an object", key, line[key])
		}
		parts[k] = o
	}
	metadata := parts[0]
	r = row{phase: "profiling", metrics: parts[1], start: integer(metadata["request_start_ns"]), end: integer(metadata["request_end_ns"])}
	if v := decode(metadata["benchmark_phase"]); v != nil {
		r.phase = word(v)
	}
	if e := decode(line["error"]); isTrue(e) {
		r.failed, r.category = true, category(e)
	}
	return r, nil
}

// category names an error: by the first of its keys that is not empty, else by its message up to the first colon.
func category(message any) string {
	if o, ok := message.(map[string]any); ok {
		for _, key := range []string{"type", "error_type", "code", "class", "status"} {
			if isTrue(o[key]) {
				return word(o[key])
			}
		}
		message = o["message"]
	}
	text := ""
	if isTrue(message) {
		text, _, _ = strings.Cut(word(message), ":")
	}
	if text = strings.TrimSpace(text); text == "" {
		return "unknown"
	}
	return text
}

// value returns a metric that is finite and positive; false for any other. It stands in an object, or bare.
func (r *row) value(tag string) (float64, bool) {
	v := r.metrics[tag]
	if o, ok := objectOf(v); ok {
		v = o["value"]
	}
	f, ok := number(numeral(v))
	return f, ok && f > 0 && !math.IsInf(f, 0)
}

// object is a JSON object; of keys that stand in it twice, the last one counts. Its values are parts of the text that was read.
type object map[string]json.RawMessage

// members returns a JSON object, nil for null. The error is that of encoding/json, whose own maps take twenty times as long: it reads each
// text six times, and copies every value.
func members(text []byte) (o object, err error) {
	l := jsonlex.New(text)
	o = make(object, 32)
	err = l.Object(func(key []byte) error {
		name, begin := string(key), l.Pos
		err := l.Skip()
		o[name] = text[begin:l.Pos]
		return err
	})
	if err != nil || !l.AtEnd() {
		o = nil
		return o, json.Unmarshal(text, &o)
	}
	return o, nil
}

// objectOf returns a JSON value as an object; false if it is none, such as null.
func objectOf(v []byte) (o object, ok bool) {
	if jsonlex.New(v).Kind() == jsonlex.Object {
		o, err := members(v)
		return o, err == nil
	}
	return nil, false
}

// numeral returns a JSON number as it is written, nil for another value.
func numeral(v json.RawMessage) any {
	if jsonlex.New(v).Kind() == jsonlex.Number {
		return json.Number(v)
	}
	return nil
}

// decode returns a JSON value, with numbers as they are written; nil for none.
func decode(v json.RawMessage) (out any) {
	d := json.NewDecoder(bytes.NewReader(v))
	d.UseNumber()
	_ = d.Decode(&out) // what is no JSON is nothing
	return out
}

// number returns a JSON number; false if the value is none, such as true or a text.
func number(v any) (float64, bool) {
	n, _ := v.(json.Number)
	f, err := n.Float64()
	return f, err == nil
}

// integer returns a JSON number without its fraction; 0 if the value is none. Nanoseconds since 1970 do not fit a float64.
func integer(text json.RawMessage) int64 {
	v := numeral(text)
	if n, ok := v.(json.Number); ok {
		if i, err := n.Int64(); err == nil {
			return i
		}
	}
	f, ok := number(v)
	if !ok || math.Abs(f) >= 1<<63 {
		return 0
	}
	return int64(f)
}

// isTrue reports whether a value is true to Python: null, false, 0 and empty values are not.
func isTrue(v any) bool {
	switch v := v.(type) {
	case bool:
		return v
	case string:
		return v != ""
	case []any:
		return len(v) > 0
	case map[string]any:
		return len(v) > 0
	}
	f, ok := number(v)
	return ok && f != 0
}

// word returns a value as text, as Python's str does.
func word(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case bool:
		if v {
			return "True"
		}
	}
	text, _ := json.Marshal(v) // it was JSON
	return string(text)
}
