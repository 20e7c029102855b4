package inferencex

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/agentx/agentx/internal/lines"
)

// row is one line of RowsFile, as far as the aggregation reads it.
type row struct {
	phase      string
	failed     bool
	category   string // of a failed row
	start, end int64  // nanoseconds since 1970; 0: missing
	metrics    object
}

// The tags that the aggregation reads.
const (
	ttftTag    = "time_to_first_token"
	latencyTag = "request_latency"
	itlTag     = "inter_token_latency"
	fullITLTag = "full_response_inter_token_latency"
	inputTag   = "input_sequence_length"
	outputTag  = "output_sequence_length"
)

// parseRow reads one line. A line that is no JSON object, and null in the place of an object, end the aggregation.
func parseRow(text []byte) (r row, err error) {
	var line object
	if err := json.Unmarshal(text, &line); err != nil {
		return r, err
	}
	metadata, err := member(line, "metadata")
	if err != nil {
		return r, err
	}
	if r.metrics, err = member(line, "metrics"); err != nil {
		return r, err
	}
	r.phase = "profiling"
	if v, ok := metadata["benchmark_phase"]; ok && !isNull(v) {
		r.phase = word(v)
	}
	r.start = asInteger(metadata["request_start_ns"])
	r.end = asInteger(metadata["request_end_ns"])
	if r.failed = isTrue(line["error"]); r.failed {
		r.category = category(line["error"])
	}
	return r, nil
}

// member returns a member of a line that is an object. A missing one is empty.
func member(line object, key string) (object, error) {
	v, ok := line[key]
	if !ok {
		return object{}, nil
	}
	o, ok := asObject(v)
	if !ok {
		return nil, fmt.Errorf("%s is %.20s: want an object", key, v)
	}
	return o, nil
}

func isNull(v json.RawMessage) bool { return string(bytes.TrimSpace(v)) == "null" }

// survives reports whether the aggregation measures the row.
func (r *row) survives() bool { return r.phase == "profiling" && !r.failed }

// category names an error: by the first of its keys that is not empty, else by its message up to the first colon.
func category(v json.RawMessage) string {
	message := v
	if o, ok := asObject(v); ok {
		for _, key := range []string{"type", "error_type", "code", "class", "status"} {
			if isTrue(o[key]) {
				return word(o[key])
			}
		}
		message = o["message"]
	}
	if !isTrue(message) {
		return "unknown"
	}
	text, _, _ := strings.Cut(word(message), ":")
	if text = strings.TrimSpace(text); text == "" {
		return "unknown"
	}
	return text
}

// value returns a metric that is finite and positive; false for any other. It stands in an object, or bare.
func (r *row) value(tag string) (float64, bool) {
	v := r.metrics[tag]
	if o, ok := asObject(v); ok {
		v = o["value"]
	}
	f, ok := asNumber(v)
	return f, ok && f > 0 && !math.IsInf(f, 0)
}

// eachRow calls use with every row of a file. Blank lines are skipped. The error names the line.
func eachRow(file io.Reader, use func(*row)) error {
	for line, err := range lines.Each(file) {
		if err != nil {
			return err
		}
		if len(bytes.TrimSpace(line.Text)) == 0 {
			continue
		}
		r, err := parseRow(line.Text)
		if err != nil {
			return fmt.Errorf("line %d: %w", line.Number, describe(err, line))
		}
		use(&r)
	}
	return nil
}

// describe says of a line without its end that it is cut off.
func describe(err error, line lines.Line) error {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) && !line.Whole {
		return fmt.Errorf("cut off after %d bytes: %w", len(line.Text), err)
	}
	return err
}
