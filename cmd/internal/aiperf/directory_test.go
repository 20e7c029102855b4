package aiperf

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/aiperf/inferencex"
	"github.com/agentx/agentx/report"
)

// release is a directory as AIPerf 0.13.0 writes it: defaults written out, a status error without width, counts of 0 left out,
// local times, CRLF, counts with decimals, the header of a table of GPUs, and 4 overflows that the CSV does not have.
var release = map[string]string{
	"profile_export.jsonl": `{"metadata":{"session_num":0,"x_request_id":"a","x_correlation_id":"b","conversation_id":"t1","turn_index":0,"request_start_ns":1700000000000000000,"request_ack_ns":1700000000010000000,"request_end_ns":1700000002000000000,"worker_id":"worker_1","record_processor_id":"rp_1","benchmark_phase":"profiling","was_cancelled":false,"context_overflow_skip":false,"agent_depth":0,"phase_index":1,"profiling_index":0,"phase_name":"profiling","phase_kind":"profiling","cancellation_time_ns":null},"metrics":{"time_to_first_token":{"value":30.5,"unit":"ms"},"request_latency":{"value":1990.25,"unit":"ms"},"input_sequence_length":{"value":100,"unit":"tokens"},"output_sequence_length":{"value":50,"unit":"tokens"},"inter_chunk_latency":{"value":[1.5,2],"unit":"ms"}},"error":null}
{"metadata":{"session_num":1,"conversation_id":"t1","turn_index":1,"request_start_ns":1700000002000000000,"request_end_ns":1700000002000000000,"worker_id":"worker_1","record_processor_id":"rp_1","benchmark_phase":"profiling","was_cancelled":false,"agent_depth":0},"metrics":{},"error":{"code":500,"type":"Internal Server Error","message":"boom","cause":"x","cause_chain":["x"],"details":null}}
{"metadata":{"session_num":0,"conversation_id":"t1","turn_index":0,"request_start_ns":1699999990000000000,"request_end_ns":1699999991000000000,"worker_id":"worker_1","record_processor_id":"rp_1","benchmark_phase":"warmup"},"metrics":{"request_latency":{"value":1000.0,"unit":"ms"}},"error":null}
`,
	"profile_export_aiperf.json": `{"schema_version":"1.4","aiperf_version":"0.13.0","start_time":"2023-11-14T22:13:20.000000","end_time":"2023-11-14T22:28:20.500000","was_cancelled":false,
 "request_count":{"unit":"requests","avg":1.0},"error_request_count":{"unit":"requests","avg":1.0},"context_overflow_count":{"unit":"requests","avg":4.0},
 "request_latency":{"unit":"ms","avg":1990.25,"min":1990.25,"max":1990.25,"p50":1990.25,"count":1,"sum":1990.25,"p99":null},
 "telemetry_data":{"summary":{},"endpoints":{}},"input_config":{"a":1},"metadata":{"submission_valid":true},"runtime_submission_invalid_reasons":["x"]}`,
	"profile_export_aiperf.csv": strings.ReplaceAll(`Metric,avg,min,max,sum,p1,p5,p10,p25,p50,p75,p90,p95,p99,std
Request Latency (ms),1990.25,1990.25,1990.25,1990.25,,,,,1990.25,,,,,

Metric,Value
Context Overflow Count,0.00
Error Request Count,1.00
Request Count,1.00


Endpoint,GPU_Index,GPU_Name,GPU_UUID,Metric,avg,min,max
`, "\n", "\r\n"),
}

func writeFiles(t *testing.T, files map[string]string) (dir string) {
	dir = t.TempDir()
	for name, text := range files {
		put(t, dir, name, []byte(text))
	}
	return dir
}

// A directory of the release gives its numbers, what it lacks, and where its files contradict each other.
func TestDirectoryOfTheRelease(t *testing.T) {
	dir := writeFiles(t, release)
	d, err := OpenDirectory(dir)
	require.NoError(t, err)
	require.Equal(t, RowCounts{Warmup: 1, Succeeded: 1, Failed: 1, ZeroWidth: 1}, d.Rows)
	require.Equal(t, "0.13.0", d.Aggregate.Version)
	require.Equal(t, []string{"x"}, d.Aggregate.Reasons)
	p50, ok := d.Aggregate.Headline.Find("request_latency").Find("p50")
	require.True(t, ok)
	require.Equal(t, report.Float(1990.25), p50)
	require.Equal(t, []string{
		"profile_export_aiperf.json lacks time_to_first_token, inter_token_latency, full_response_inter_token_latency, input_sequence_length, output_sequence_length, theoretical_prefix_cache_hit, cooldown_metrics, steady_metrics",
		"profile_export_aiperf.json: start_time 2023-11-14T22:13:20.000000 has no zone: it is a local time of an unknown place, and InferenceX has no power window",
		"profile_export_aiperf.json: end_time 2023-11-14T22:28:20.500000 has no zone: it is a local time of an unknown place, and InferenceX has no power window",
		"profile_export.jsonl: 1 failed rows end when they start: they have no width in time",
	}, d.Lacks)
	require.Equal(t, []string{"avg of context_overflow_count is 4.0 in profile_export_aiperf.json and 0.0 in profile_export_aiperf.csv"}, d.Differs)
	require.Contains(t, string(d.Text()), "request_latency (ms)  1990.25")

	n, err := inferencex.Read(dir, inferencex.DefaultLimit)
	require.NoError(t, err)
	require.Equal(t, map[string]int{"Internal Server Error": 1}, n.Accounting.ErrorCategories)
	require.Equal(t, 1, n.Sweep.Requests)
	require.Equal(t, "error rate 0.5 is above 0.1: 1 of the 2 requests of the headline failed", n.Gate.Reason)
	require.Equal(t, []string{inferencex.NoZone}, n.Power.Reasons)
}

// OpenDirectory lacks nothing in what Write writes, and its files do not differ; a child directory is found.
func TestDirectoryOfAgentx(t *testing.T) {
	run := newRun(t, 11, 120)
	above := t.TempDir()
	_, err := Write(t.Context(), run, Options{Out: filepath.Join(above, "aiperf_artifacts")})
	require.NoError(t, err)
	d, err := OpenDirectory(above)
	require.NoError(t, err)
	require.Equal(t, filepath.Join(above, "aiperf_artifacts"), d.Path)
	require.Empty(t, d.Lacks)
	require.Empty(t, d.Differs)
	require.Positive(t, d.Rows.Warmup)

	text, err := os.ReadFile(filepath.Join(d.Path, all[3]))
	require.NoError(t, err)
	put(t, d.Path, all[3], []byte(strings.Replace(string(text), "\nContext Overflow Count,", "\nContext Overflow Count,1", 1)))
	d, err = OpenDirectory(above)
	require.NoError(t, err)
	require.Len(t, d.Differs, 1, "a number of the CSV that is another one")
}

// Any of the files may be missing: it is told. Without all of them a directory is none of AIPerf's.
func TestDirectoryWithoutAFile(t *testing.T) {
	for name, want := range map[string]string{
		all[0]: "there is no profile_export.jsonl: no rows, and the aggregation of InferenceX fails",
		all[2]: "there is no profile_export_aiperf.json: no statistics, no error rate, and the gate of InferenceX refuses",
		all[3]: "there is no profile_export_aiperf.csv: the sweep collector of InferenceX counts the run as failed",
	} {
		dir := writeFiles(t, release)
		require.NoError(t, os.Remove(filepath.Join(dir, name)))
		d, err := OpenDirectory(dir)
		require.NoError(t, err)
		require.True(t, slices.Contains(d.Lacks, want), "%v", d.Lacks)
	}
	dir := t.TempDir()
	_, err := OpenDirectory(dir)
	require.ErrorIs(t, err, ErrNoFiles)
	require.EqualError(t, err, dir+": no files of AIPerf: neither profile_export.jsonl nor profile_export_aiperf.json nor profile_export_aiperf.csv")
	_, err = OpenDirectory(filepath.Join(dir, "none"))
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// A file that cannot be read is an error with its name and the line; the others are read.
func TestDirectoryWithDamage(t *testing.T) {
	for name, damage := range map[string]struct{ text, want string }{
		all[0]: {release[all[0]] + `{"metadata":{"sess`, `profile_export.jsonl: line 4: cut off after 18 bytes: unexpected end of JSON input`},
		all[2]: {release[all[2]][:200], `profile_export_aiperf.json: line 2: cut off after 200 bytes: unexpected end of JSON input`},
		all[3]: {"Metric,avg\nA,1\nB,1,2\n", `profile_export_aiperf.csv: line 3: 3 cells: want 2, as in the header`},
	} {
		dir := writeFiles(t, release)
		put(t, dir, name, []byte(damage.text))
		d, err := OpenDirectory(dir)
		require.EqualError(t, err, filepath.Join(dir, damage.want))
		require.NotNil(t, d)
		require.Equal(t, name != all[2], d.Aggregate != nil)
	}
	for text, want := range map[string]string{
		"":                              "there is no header: want a line that begins with Metric",
		"Metric,avg,min\nA (ms),1,x\n":  `line 2: A (ms): "x": want a finite number`,
		"Metric,avg,min\nA (ms),1,NaN":  `line 2: A (ms): "NaN": want a finite number`,
		"Latency\nMetric,avg,min\nA,1,": "line 1: 1 cells: want 0, as in the header",
	} {
		_, err := readCSV([]byte(text))
		require.EqualError(t, err, want, text)
	}
}

// Rows that no writer of such files writes are refused, and never a panic.
func FuzzParseRow(f *testing.F) {
	f.Add([]byte(firstLine(release[all[0]])))
	f.Add([]byte(`{"metadata":{},"metrics":{"a":1,"b":{"value":[1,2.5],"unit":"ms"},"c":{"value":null}},"error":"plain: text"}`))
	f.Add([]byte(`{"metadata":{},"metrics":{"a\"b":1,"\u00e9":{"value":2,"unit":"\\"}}}`))
	f.Add([]byte(`{"metadata":{"turn_index":"x"},"metrics":{}}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		row, err := ParseRow(line)
		if err != nil {
			return
		}
		again, err := ParseRow(textOf(t, &row))
		require.NoError(t, err)
		require.Equal(t, row, again)
	})
}

// Files of older harnesses are told what they count wrong, those of 1.0.12 and of AIPerf are not.
func TestFaultsOfHarnesses(t *testing.T) {
	for version, want := range map[string]int{"1.0.7": 2, "1.0.8": 2, "1.0.9": 1, "1.0.11": 1, "1.0.12": 0, "1.0.6": 0, "0.13.0": 0, "1.0.x": 0, "agentx/1.0.8": 0} {
		d := &Directory{}
		d.findFaults("profile_export_aiperf.json", version)
		require.Len(t, d.Lacks, want, version)
	}
}

// BenchmarkParseRow reports as x-decoding the time of a row beside that of decoding it into maps in the same run, and fails where it is not less.
func BenchmarkParseRow(b *testing.B) {
	var metrics []string
	for k := range 30 {
		metrics = append(metrics, fmt.Sprintf(`"metric_%d":{"value":%d.25,"unit":"ms"}`, k, k))
	}
	text := []byte(`{"metadata":{"conversation_id":"t1","turn_index":1,"request_start_ns":1700000002000000000},"metrics":{` + strings.Join(metrics, ",") + `}}`)
	var rows, decoding time.Duration
	for b.Loop() {
		begin := time.Now()
		_, err := ParseRow(text)
		require.NoError(b, err)
		rows += time.Since(begin)
		begin = time.Now()
		var o map[string]any
		require.NoError(b, json.Unmarshal(text, &o))
		decoding += time.Since(begin)
	}
	ratio := float64(rows) / float64(decoding)
	b.ReportMetric(ratio, "x-decoding")
	if b.N > 100 && ratio > 1.2 {
		b.Errorf("a row takes %.2f of the time of decoding it: should be 1.2 or less", ratio)
	}
}
