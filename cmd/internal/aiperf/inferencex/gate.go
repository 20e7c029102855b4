package inferencex

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Gate is the error-rate gate. It returns why it accepts the aggregate of a directory, or as the error no why it does not: the share of failed
// among completed requests is above the limit.
func Gate(dir string, limit float64) (accepted string, no error) {
	data, err := readSmall(dir, aggregateFile)
	if err != nil {
		return "", err
	}
	return GateAggregate(data, limit)
}

// GateAggregate is Gate for the content of an aggregate; nil: there is none.
func GateAggregate(data []byte, limit float64) (accepted string, no error) {
	if data == nil {
		return "", fmt.Errorf("there is no %s", aggregateFile)
	}
	aggregate, ok := objectOf(data)
	if !ok {
		return "", fmt.Errorf("%s is not a JSON object", aggregateFile)
	}
	var counts [3]float64
	var has [3]bool
	for k, tag := range []string{"request_count", "error_request_count", "completed_request_count"} {
		var err error
		if counts[k], has[k], err = gateCount(aggregate, tag); err != nil {
			return "", err
		}
		if !has[0] {
			return "", errors.New("request_count.avg is missing")
		}
	}
	good, failed, completed := counts[0], counts[1], counts[2]
	if !has[2] {
		completed = good + failed
	}
	if completed <= 0 {
		return "", fmt.Errorf("no request completed: %v succeeded, %v failed", good, failed)
	}
	rate, than := failed/completed, "is not above"
	if rate > limit {
		than = "is above"
	}
	verdict := fmt.Sprintf("error rate %.6g %s %.6g: %v of the %v requests of the headline failed", rate, than, limit, failed, completed)
	if rate > limit {
		return "", errors.New(verdict)
	}
	return verdict, nil
}

// gateCount returns the average of the block of a tag; has is false if the block or its average is missing.
func gateCount(aggregate object, tag string) (n float64, has bool, err error) {
	v, ok := aggregate[tag]
	if !ok {
		return 0, false, nil
	}
	block, ok := objectOf(v)
	if !ok {
		return 0, false, fmt.Errorf("%s is %.20s: want an object", tag, v)
	}
	if v, ok = block["avg"]; !ok {
		return 0, false, nil
	}
	if n, ok = number(decode(v)); !ok || n < 0 || math.IsInf(n, 0) {
		return 0, false, fmt.Errorf("%s.avg is %.20s: want a finite number that is not negative", tag, v)
	}
	return n, true, nil
}

// SweepPoint is what the sweep collector reads from the table of a run. What it does not find is 0.
type SweepPoint struct {
	Requests   int    `json:"num_requests"`
	RPS        Figure `json:"throughput_rps"`
	OutputTPS  Figure `json:"output_throughput_tps"`
	TotalTPS   Figure `json:"total_throughput_tps"`
	InputTPS   Figure `json:"input_throughput_tps"` // total less output
	TTFTMean   Figure `json:"mean_ttft_ms"`
	TTFTP50    Figure `json:"p50_ttft_ms"`
	TTFTP90    Figure `json:"p90_ttft_ms"`
	TTFTP99    Figure `json:"p99_ttft_ms"`
	TPOTMean   Figure `json:"mean_tpot_ms"`
	TPOTP50    Figure `json:"p50_tpot_ms"`
	TPOTP90    Figure `json:"p90_tpot_ms"`
	TPOTP99    Figure `json:"p99_tpot_ms"`
	LatencyAvg Figure `json:"mean_latency_ms"`
	LatencyP50 Figure `json:"p50_latency_ms"`
	LatencyP90 Figure `json:"p90_latency_ms"`
	LatencyP99 Figure `json:"p99_latency_ms"`
}

// SweepTable reads the content of a table. It splits every line at its commas, also at those within quotes, and stops at
// the first line that has not as many cells as the header above it.
func SweepTable(data []byte) *SweepPoint {
	cells := map[string]map[string]float64{}
	var header []string
	in := bufio.NewScanner(bytes.NewReader(data))
	in.Buffer(nil, maxAggregate)
	for in.Scan() {
		line := strings.Split(strings.TrimSpace(in.Text()), ",")
		if len(line) == 1 && line[0] == "" {
			continue
		}
		if line[0] == "Metric" {
			header = line
			continue
		}
		if len(line) != len(header) {
			break
		}
		of := map[string]float64{}
		for k, name := range header[1:] {
			of[name], _ = strconv.ParseFloat(line[k+1], 64)
		}
		cells[line[0]] = of
	}
	return sweepPoint(func(metric, column string) Figure { return Figure(cells[metric][column]) })
}

// sweepPoint fills a point from the cells of a table.
func sweepPoint(cell func(metric, column string) Figure) *SweepPoint {
	const (
		ttft, itl, latency = "Time to First Token (ms)", "Inter Token Latency (ms)", "Request Latency (ms)"
		output, total      = "Output Token Throughput (tokens/sec)", "Total Token Throughput (tokens/sec)"
	)
	return &SweepPoint{
		Requests: int(cell("Request Count", "Value")), RPS: cell("Request Throughput (requests/sec)", "Value"),
		OutputTPS: cell(output, "Value"), TotalTPS: cell(total, "Value"), InputTPS: cell(total, "Value") - cell(output, "Value"),
		TTFTMean: cell(ttft, "avg"), TTFTP50: cell(ttft, "p50"), TTFTP90: cell(ttft, "p90"), TTFTP99: cell(ttft, "p99"),
		TPOTMean: cell(itl, "avg"), TPOTP50: cell(itl, "p50"), TPOTP90: cell(itl, "p90"), TPOTP99: cell(itl, "p99"),
		LatencyAvg: cell(latency, "avg"), LatencyP50: cell(latency, "p50"), LatencyP90: cell(latency, "p90"), LatencyP99: cell(latency, "p99"),
	}
}

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

// between sets the times of a window, or returns the reason why it has none.
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
