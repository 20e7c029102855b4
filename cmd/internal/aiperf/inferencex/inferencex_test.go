package inferencex

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The files of a directory come before those of its child directories, of which the first one by name counts.
func TestFind(t *testing.T) {
	dir := t.TempDir()
	_, err := find(dir)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, dir+": there is no profile_export.jsonl, nor in a directory below it")
	_, err = find(filepath.Join(dir, "none"))
	require.ErrorIs(t, err, fs.ErrNotExist)
	for _, name := range []string{"b", "a", "0"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o700))
	}
	write(t, filepath.Join(dir, "b"), rowsFile, nil)
	write(t, filepath.Join(dir, "a"), rowsFile, nil)
	got, err := find(dir)
	require.NoError(t, err)
	require.Equal(t, filepath.Join(dir, "a"), got)
	write(t, dir, rowsFile, nil)
	got, err = find(dir)
	require.NoError(t, err)
	require.Equal(t, dir, got)
}

func TestFigure(t *testing.T) {
	for f, want := range map[Figure]string{
		0.5: "0.5", 75: "75", 25.000001: "25", 0: "0.0", 0.000001: "0.0", 0.196666666: "0.19667", 1e15: "1000000000000000", Figure(math.Inf(1)): "null", -0.000001: "0.0",
	} {
		data, err := json.Marshal(f)
		require.NoError(t, err)
		require.Equal(t, want, string(data))
	}
}

// A row that is no object, or no JSON at all, ends the aggregation wherever it stands. The error names the line.
func TestRowsThatEndTheAggregation(t *testing.T) {
	for line, want := range map[string]string{
		`[]`:               "cannot unmarshal array",
		`{"metadata":[]}`:  "metadata is []: want an object",
		`{"metrics":3}`:    "metrics is 3: want an object",
		`{"metadata":{}`:   "unexpected end of JSON input",
		`{"metadata":{}}x`: "invalid character 'x'",
	} {
		dir := t.TempDir()
		write(t, dir, rowsFile, []byte("{}\n"+line+"\n{}\n"))
		_, err := Read(dir, DefaultLimit)
		require.ErrorContains(t, err, "profile_export.jsonl: line 2: ")
		require.ErrorContains(t, err, want)
	}
}

// A failed row of the warmup is dropped once, and counted as warmup and as error.
func TestFailedWarmup(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, rowsFile, []byte(`{"metadata":{"benchmark_phase":"warmup"},"metrics":{},"error":{"type":"timeout"}}`+"\n"))
	r, err := Read(dir, DefaultLimit)
	require.NoError(t, err)
	require.Equal(t, Accounting{1, 0, 1, 1, 1, map[string]int{"timeout": 1}}, r.Accounting)
	require.Nil(t, r.Metrics.Throughput.Duration)
	require.Nil(t, r.Metrics.Cache.HitRate)
}

// Completions within less than a second have a mean alone; at one instant they have none.
func TestQueriesPerSecondOfAShortRun(t *testing.T) {
	require.Equal(t, Stats{"mean": 6}, queriesPerSecond([]int64{1e9, 1.5e9, 1.2e9}))
	require.Equal(t, Stats{}, queriesPerSecond([]int64{5, 5}))
	require.Equal(t, Stats{}, queriesPerSecond(nil))
}

// The gate says why it refuses.
func TestGateReasons(t *testing.T) {
	for aggregate, want := range map[string]string{
		`[]`:                                    "profile_export_aiperf.json is not a JSON object",
		`{}`:                                    "request_count.avg is missing",
		`{"request_count":{"unit":"requests"}}`: "request_count.avg is missing",
		`{"request_count":{"avg":5},"error_request_count":null}`:                                   "error_request_count is null: want an object",
		`{"request_count":{"avg":5},"completed_request_count":{"avg":1e999}}`:                      "completed_request_count.avg is 1e999: want a finite number that is not negative",
		`{"request_count":{"avg":0},"error_request_count":{"avg":0}}`:                              "no request completed: 0 succeeded, 0 failed",
		`{"request_count":{"avg":3},"error_request_count":{"avg":1}}`:                              "error rate 0.25 is above 0.1: 1 of the 4 requests of the headline failed",
		`{"request_count":{"avg":0},"error_request_count":{"avg":7},"completed_request_count":{}}`: "error rate 1 is above 0.1: 7 of the 7 requests of the headline failed",
	} {
		_, err := GateAggregate([]byte(aggregate), DefaultLimit)
		require.EqualError(t, err, want)
	}
	_, err := Gate(t.TempDir(), DefaultLimit)
	require.EqualError(t, err, "there is no profile_export_aiperf.json")
}

// A directory with rows alone has numbers, no table, a gate that refuses, and no power window.
func TestReadOfRowsAlone(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, rowsFile, []byte("{}\n"))
	n, err := Read(dir, DefaultLimit)
	require.NoError(t, err)
	require.Equal(t, 1, n.Successful)
	require.False(t, n.Gate.Accepted)
	require.Nil(t, n.Sweep)
	require.Equal(t, []string{noWindow}, n.Power.Reasons)
	write(t, dir, aggregateFile, []byte(`{"start_time":"2026-01-01 00:00:00.5+01:00","end_time":"2025-12-31T23:00:00.5Z"}`))
	n, err = Read(dir, DefaultLimit)
	require.NoError(t, err)
	require.Equal(t, []string{emptyWindow}, n.Power.Reasons)
	write(t, dir, aggregateFile, []byte(`{"start_time":"soon","end_time":1}`))
	n, err = Read(dir, DefaultLimit)
	require.NoError(t, err)
	require.Equal(t, []string{noWindowTime}, n.Power.Reasons)
	write(t, dir, aggregateFile, []byte(`{`))
	_, err = Read(dir, DefaultLimit)
	require.ErrorContains(t, err, aggregateFile+": unexpected end of JSON input")
}

// Members are those of encoding/json, and so are the errors.
func TestMembers(t *testing.T) {
	for _, text := range []string{
		`{}`, ` { "a" : 1 , "b":[1, {"a":2} ] , "a":"x" } `, `{"\u0061":1,"é":null,"":{}}`, `null`, `3`, `[]`, ``, `{`, `{"a":1}x`, `{"a":01}`, `{"a":tru}`, "{\"a\":\"\xff\"}", `{"a":NaN}`,
	} {
		var want object
		wrong := json.Unmarshal([]byte(text), &want)
		got, err := members([]byte(text))
		require.Equal(t, want, got, text)
		require.Equal(t, wrong, err, text)
	}
}

// BenchmarkRow reports as x-decoding the time of a row beside that of decoding it with encoding/json in the same run, and fails where it is not
// clearly less: a part of an hour has a million rows.
func BenchmarkRow(b *testing.B) {
	var metrics []string
	for k := range 24 {
		metrics = append(metrics, fmt.Sprintf(`"metric_%d":{"value":%d.25,"unit":"ms"}`, k, k))
	}
	for tag := range divisors {
		metrics = append(metrics, `"`+tag+`":{"value":36.412157,"unit":"ms"}`)
	}
	text := []byte(`{"metadata":{"request_start_ns":1795956714665389018,"request_end_ns":1795956714701801175,"benchmark_phase":"profiling"},"metrics":{` + strings.Join(metrics, ",") + `}}`)
	var rows, decoding time.Duration
	for b.Loop() {
		c := columns{Accounting: Accounting{ErrorCategories: map[string]int{}}, samples: map[string][]float64{}}
		begin := time.Now()
		r, err := parseRow(text)
		require.NoError(b, err)
		c.add(&r)
		rows += time.Since(begin)
		begin = time.Now()
		var o map[string]map[string]any
		require.NoError(b, json.Unmarshal(text, &o))
		decoding += time.Since(begin)
	}
	ratio := float64(rows) / float64(decoding)
	b.ReportMetric(float64(rows.Nanoseconds())/float64(b.N), "ns/row")
	b.ReportMetric(ratio, "x-decoding")
	if b.N > 100 && ratio > 0.9 {
		b.Errorf("a row takes %.2f of the time of decoding it: should be 0.9 or less", ratio)
	}
}
