package aiperf

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/merge"
	"github.com/agentx/agentx/replay/preset"
	"github.com/agentx/agentx/replay/scrape"
	"github.com/agentx/agentx/report"
)

// scraped is the file of a run of two pages: the second has one answer, after a restart and with a label that CSV must quote.
const scraped = `{"endpoint":0,"url":"http://a/metrics"}
{"endpoint":1,"url":"http://b/metrics","default":true}
{"endpoint":2,"url":"http://dead/metrics"}
{"series":0,"endpoint":0,"name":"vllm:prompt_tokens","type":"counter","labels":{"engine":"0"}}
{"series":1,"endpoint":0,"name":"vllm:num_requests_running","type":"gauge","labels":{}}
{"endpoint":0,"at":1700000000000000000,"took":2000000,"values":[[0,100],[1,3]]}
{"series":2,"endpoint":0,"name":"vllm:time_to_first_token_seconds","type":"histogram","labels":{},"bounds":["0.1","+Inf"]}
{"endpoint":0,"at":1700000000500000000,"took":4000000,"values":[[0,150],[2,2,0.3,1,2]]}
{"endpoint":0,"at":1700000001500000000,"took":3000000}
{"series":3,"endpoint":1,"name":"vllm:prompt_tokens","type":"counter","labels":{"model_name":"a, \"b\""}}
{"series":4,"endpoint":1,"name":"vllm:prompt_tokens","type":"gauge","labels":{}}
{"endpoint":1,"at":1700000001600000000,"took":1,"values":[[3,7],[4,1]]}
{"endpoint":0,"at":1700000002400000000,"took":3000000,"values":[[0,10]],"gone":[1]}
`

const serverJSON, serverTable = "server_metrics_export.json", "server_metrics_export.csv"

// runOf returns a run of one second of warmup and 1.5 s that are measured.
func runOf() *measure.RunInfo {
	start := time.Unix(1700000000, 0).UTC()
	return &measure.RunInfo{Phases: []measure.PhaseSpan{
		{Name: measure.WarmupPhase, Start: start, Duration: 1},
		{Name: measure.ProfilingPhase, Start: start.Add(time.Second), Duration: 1.5},
	}}
}

func writeScraped(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, scrape.File), []byte(text), 0o600))
	return dir
}

// ofServers returns what writes the server metrics of a run.
func ofServers(dir string, info *measure.RunInfo, harness bool, slice time.Duration) *writer {
	d := *dialects[harness]
	d.serverSlice = 0
	d.input, d.version = func(*writer) object { return object{{"a", 1}} }, func(*report.Run) string { return map[bool]string{false: "agentx/1", true: "1.0.12"}[harness] }
	info.BenchmarkID, info.Preset = "b", map[bool]string{false: preset.Default, true: preset.AgentX}[harness]
	return &writer{
		Options: Options{Out: dir, Slice: slice}, dialect: &d, names: NamesOf(""),
		run: &report.Run{Dir: dir, Info: *info, Files: &merge.Run{Dir: dir, Info: *info}},
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}

// TestPhasesCountTheirRequests counts what a page counts between the answers at the bounds of phases, which take 60 ms: 14 requests in the
// warmup, 12 in profiling. The second page has no answer behind the phases in time: of those that came in their time the last counts.
//
// Covers T-59, A-12.
func TestPhasesCountTheirRequests(t *testing.T) {
	const bounds = `{"endpoint":0,"url":"http://a/metrics"}
{"endpoint":1,"url":"http://b/metrics"}
{"series":0,"endpoint":0,"name":"requests","type":"counter","labels":{}}
{"series":1,"endpoint":1,"name":"requests","type":"counter","labels":{}}
{"endpoint":0,"at":1699999999900000000,"took":60000000,"values":[[0,0]]}
{"endpoint":1,"at":1699999999900000000,"took":60000000,"values":[[1,0]]}
{"endpoint":0,"at":1700000000900000000,"took":60000000,"values":[[0,10]]}
{"endpoint":1,"at":1700000000990000000,"took":60000000,"values":[[1,13]]}
{"endpoint":0,"at":1700000001010000000,"took":60000000,"values":[[0,13]]}
{"endpoint":0,"at":1700000001060000000,"took":60000000,"values":[[0,14]]}
{"endpoint":1,"at":1700000001070000000,"took":60000000,"values":[[1,15]]}
{"endpoint":0,"at":1700000002400000000,"took":60000000,"values":[[0,20]]}
{"endpoint":0,"at":1700000002560000000,"took":60000000,"values":[[0,26]]}
{"endpoint":0,"at":1700000002900000000,"took":60000000,"values":[[0,99]]}
{"endpoint":1,"at":1700000004500000001,"took":60000000,"values":[[1,99]]}
`
	dir, info := writeScraped(t, bounds), runOf()
	info.Phases[1].Start = info.Phases[0].Start.Add(1060 * time.Millisecond) // the warmup ends 60 ms before
	info.Phases[1].Duration = 1.44
	d, err := scrape.ReadFile(filepath.Join(dir, scrape.File))
	require.NoError(t, err)
	phases, err := phasesOf(info)
	require.NoError(t, err)
	w := ofServers(dir, info, false, time.Second)
	for k, want := range [][2]float64{{14, 12}, {13, 2}} {
		for n, phase := range []string{measure.WarmupPhase, measure.ProfilingPhase} {
			s := w.serverMetrics(d, phases, phase)["requests"].Series[k]
			total := func(f object) float64 { n := f.find("total").(report.Number); return n.Float64() }
			assert.InDelta(t, want[n], total(s.Stats), 0, "page %d, phase %d", k, n)
			sum := 0.0
			for _, slice := range s.Slices {
				sum += total(slice)
			}
			assert.InDelta(t, want[n], sum, 0)
		}
	}
}

// TestServers writes both files of a run, the warmup apart.
//
// Covers T-59.
func TestServers(t *testing.T) {
	dir := writeScraped(t, scraped)
	w := ofServers(dir, runOf(), false, time.Second)
	require.NoError(t, w.writeServer())
	assert.Equal(t, Written{Files: []string{serverJSON, serverTable}}, w.written)
	want, err := os.ReadFile("testdata/export.json")
	require.NoError(t, err)
	got := readFile(t, filepath.Join(dir, serverJSON))
	assert.JSONEq(t, string(want), got)
	assert.Contains(t, got, `"end_ns": 1700000002000000000,`, "integers")
	_, table, ok := strings.Cut(readFile(t, filepath.Join(dir, serverTable)), "#\n")
	require.True(t, ok)
	assert.Equal(t, strings.ReplaceAll(`Endpoint,Type,Metric,Unit,avg,min,max,std,p1,p5,p10,p25,p50,p75,p90,p95,p99,Description
a,gauge,vllm:num_requests_running,requests,3.0000,3.0000,3.0000,0.0000,3.0000,3.0000,3.0000,3.0000,3.0000,3.0000,3.0000,3.0000,3.0000,
b,gauge,vllm:prompt_tokens_gauge,tokens,1.0000,1.0000,1.0000,0.0000,1.0000,1.0000,1.0000,1.0000,1.0000,1.0000,1.0000,1.0000,1.0000,

Endpoint,Type,Metric,Unit,total,rate,rate_avg,rate_min,rate_max,rate_std,engine,model_name,Description
b,counter,vllm:prompt_tokens,tokens,0.0000,0.0000,0.0000,0.0000,0.0000,0.0000,,"a, ""b""",
a,counter,vllm:prompt_tokens,tokens,10.0000,5.2632,0.0000,0.0000,0.0000,0.0000,0,,

Endpoint,Type,Metric,Unit,count,count_rate,sum,sum_rate,avg,p1_estimate,p5_estimate,p10_estimate,p25_estimate,p50_estimate,p75_estimate,p90_estimate,p95_estimate,p99_estimate,Description,buckets
a,histogram,vllm:time_to_first_token_seconds,seconds,0,,,,,,,,,,,,,,,
`, "\n", "\r\n"), table)
}

// TestServersElsewhere writes under other names into another directory, and says that a line is cut.
func TestServersElsewhere(t *testing.T) {
	dir, out := writeScraped(t, scraped+`{"endpoint":0,"at":17000`), t.TempDir()
	w := ofServers(dir, runOf(), false, time.Millisecond)
	w.Out, w.names = out, NamesOf("x")
	require.NoError(t, w.writeServer())
	assert.Equal(t, []string{filepath.Join(dir, scrape.File) + ": the last line is cut off and left out"}, w.written.Missing)
	assert.FileExists(t, filepath.Join(out, "x_server_metrics.csv"))
	var file struct {
		Metrics map[string]struct {
			Series []struct{ Timeslices []any }
		}
	}
	require.NoError(t, json.Unmarshal([]byte(readFile(t, filepath.Join(out, "x_server_metrics.json"))), &file))
	assert.Len(t, file.Metrics["vllm:prompt_tokens"].Series[0].Timeslices, 5, "as many as a page is asked in the phase")
	assert.NoFileExists(t, filepath.Join(dir, serverJSON))
}

// TestNothingScraped writes no file for a run without answers, without the file, or without phases.
func TestNothingScraped(t *testing.T) {
	silent := writeScraped(t, strings.Join(strings.SplitAfter(scraped, "\n")[:5], ""))
	for name, dir := range map[string]string{"no answer": silent, "no file": t.TempDir(), "empty": writeScraped(t, "")} {
		w := ofServers(dir, runOf(), false, 0)
		require.NoError(t, w.writeServer(), name)
		assert.Zero(t, w.written, name)
		assert.NoFileExists(t, filepath.Join(dir, serverJSON))
		assert.NoFileExists(t, filepath.Join(dir, serverTable))
	}
	dir := writeScraped(t, scraped)
	w := ofServers(dir, &measure.RunInfo{}, false, 0)
	require.NoError(t, w.writeServer())
	assert.Equal(t, Written{Missing: []string{dir + ": the run tells no profiling phase: there are no server metrics"}}, w.written)
}

// TestServersRefuse names what cannot be used: the file and the line, the phase.
func TestServersRefuse(t *testing.T) {
	for text, want := range map[string]string{
		"{\"endpoint\":0,\"url\":\"\"}\n{}\n": "server_metrics.jsonl: line 2: it is none of the lines that a run writes: want one with url, series or at",
		"nonsense\n":                          "server_metrics.jsonl: line 1: ",
	} {
		require.ErrorContains(t, ofServers(writeScraped(t, text), runOf(), false, 0).writeServer(), want)
	}
	long := runOf()
	long.Phases[1].Duration = 1e30
	require.ErrorContains(t, ofServers(writeScraped(t, scraped), long, false, 0).writeServer(), "phase profiling: ")
}
