package inferencex

import (
	"strings"
	"time"
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
	noWindow     = "profile_window_missing"          // the aggregate has not both times
	NoZone       = "profile_timezone_offset_missing" // a time has no zone, and agentx writes no side file with that of the host
	noTokens     = "incomplete_token_accounting"     // a row has no number of input or output tokens
	emptyWindow  = "profile_window_invalid"          // the end is not after the start
	noWindowTime = "profile_window_unreadable"       // a time is neither a number nor in ISO 8601
)

// power returns the power window of rows and their aggregate.
func (c *columns) power(aggregate object) *Power {
	in, out := c.samples[inputTag], c.samples[outputTag]
	w := &Window{Completed: c.Profiled, Input: wholeSum(in), Output: wholeSum(out)}
	reason := w.between(decode(aggregate["start_time"]), decode(aggregate["end_time"]))
	if reason == "" && (len(in) < c.Profiled || len(out) < c.Profiled || w.Input <= 0 || w.Output <= 0) {
		reason = noTokens
	}
	if reason != "" {
		return &Power{Reasons: []string{reason}}
	}
	return &Power{Window: w, Reasons: []string{}}
}

// wholeSum adds up numbers without their fractions.
func wholeSum(list []float64) (total int64) {
	for _, x := range list {
		total += int64(x)
	}
	return total
}

// between sets the times of a window, and returns why it has none.
func (w *Window) between(start, end any) (reason string) {
	if !isTrue(start) || !isTrue(end) {
		return noWindow
	}
	if w.Start, reason = unixTime(start); reason == "" {
		w.End, reason = unixTime(end)
	}
	if w.Duration = w.End - w.Start; reason == "" && w.Duration <= 0 {
		return emptyWindow
	}
	return reason
}

// unixTime reads a time as seconds since 1970: a number, or a text with a zone.
func unixTime(v any) (s float64, reason string) {
	if f, ok := number(v); ok {
		return f, ""
	}
	text, _ := v.(string)
	text = strings.Replace(text, " ", "T", 1)
	if t, err := time.Parse("2006-01-02T15:04:05Z07:00", text); err == nil {
		return float64(t.Unix()) + float64(t.Nanosecond())/1e9, ""
	}
	if _, err := time.Parse("2006-01-02T15:04:05", text); err == nil {
		return 0, NoZone
	}
	return 0, noWindowTime
}
