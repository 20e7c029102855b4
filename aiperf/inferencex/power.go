package inferencex

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/agentx/agentx/internal/regular"
)

// Power is the window over which energy is divided by tokens, or why there is none.
type Power struct {
	Window  *Window  `json:"window"` // nil: there is none
	Reasons []string `json:"reasons"`
}

// Window is the time from the start to the end of an aggregate, in seconds that are not rounded, with the tokens of the rows that the aggregation measures.
type Window struct {
	Start     float64 `json:"benchmark_start_time_unix"`
	End       float64 `json:"benchmark_end_time_unix"`
	Duration  float64 `json:"duration"`
	Completed int     `json:"completed"`
	Input     int64   `json:"total_input_tokens"`
	Output    int64   `json:"total_output_tokens"`
}

// Reasons of a window that is not valid.
const (
	NoWindow     = "profile_window_missing"          // the aggregate has not both times
	NoZone       = "profile_timezone_offset_missing" // a time has no zone, and agentx writes no side file with that of the host
	NoTokens     = "incomplete_token_accounting"     // a row has no number of input or output tokens
	EmptyWindow  = "profile_window_invalid"          // the end is not after the start
	NoWindowTime = "profile_window_unreadable"       // a time is neither a number nor in ISO 8601
)

// PowerWindow computes the power window of a directory. The error names the file and the line.
func PowerWindow(dir string) (*Power, error) {
	path := filepath.Join(dir, RowsFile)
	file, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	w, complete := Window{}, true
	err = eachRow(file, func(r *row) {
		if !r.survives() {
			return
		}
		in, hasIn := r.value(inputTag)
		out, hasOut := r.value(outputTag)
		complete = complete && hasIn && hasOut
		w.Completed++
		w.Input += int64(in)
		w.Output += int64(out)
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	data, err := readSmall(dir, AggregateFile)
	if err != nil {
		return nil, err
	}
	aggregate, _ := asObject(data)
	reason := w.between(aggregate["start_time"], aggregate["end_time"])
	if reason == "" && (!complete || w.Input <= 0 || w.Output <= 0) {
		reason = NoTokens
	}
	if reason != "" {
		return &Power{Reasons: []string{reason}}, nil
	}
	return &Power{Window: &w, Reasons: []string{}}, nil
}

// between sets the times of a window, and returns why it has none.
func (w *Window) between(start, end json.RawMessage) (reason string) {
	if !isTrue(start) || !isTrue(end) {
		return NoWindow
	}
	var reasons [2]string
	w.Start, reasons[0] = unixTime(start)
	w.End, reasons[1] = unixTime(end)
	for _, reason := range reasons {
		if reason != "" {
			return reason
		}
	}
	if w.Duration = w.End - w.Start; w.Duration <= 0 {
		return EmptyWindow
	}
	return ""
}

// unixTime reads a time as seconds since 1970: a number, or a text with a zone.
func unixTime(v json.RawMessage) (s float64, reason string) {
	if f, ok := asNumber(v); ok {
		return f, ""
	}
	text, _ := asText(v)
	text = strings.Replace(text, " ", "T", 1)
	if t, err := time.Parse("2006-01-02T15:04:05Z07:00", text); err == nil {
		return float64(t.Unix()) + float64(t.Nanosecond())/1e9, ""
	}
	if _, err := time.Parse("2006-01-02T15:04:05", text); err == nil {
		return 0, NoZone
	}
	return 0, NoWindowTime
}
