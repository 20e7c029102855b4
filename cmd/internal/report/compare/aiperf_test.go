package compare

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/replay/measure"
)

// released is a directory that AIPerf 0.13.0 wrote: 24 synthetic requests, 4 at a time, against the mock with 20 ms to the first token
// and 2 ms from one to the next.
const released = "testdata/aiperf-0.13.0"

// A directory of AIPerf 0.13.0 has the figures of its own JSON file, and what it lacks is empty.
//
//
func TestDirectoryOfAIPerf(t *testing.T) {
	ours := newModelled(24)
	c := compareDirs(t, released, ours.write(t, "ours"))
	r := c.Runs[0]
	require.Equal(t, kindAIPerf, r.Kind)
	require.Equal(t, 24, r.Trees)
	block := func(tag, stat string) float64 {
		data, err := os.ReadFile(filepath.Join(released, "profile_export_aiperf.json"))
		require.NoError(t, err)
		var blocks map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(data, &blocks))
		var b map[string]any
		require.NoError(t, json.Unmarshal(blocks[tag], &b))
		return b[stat].(float64)
	}
	for name, of := range map[string][2]string{
		"ttft.mean": {"time_to_first_token", "avg"}, "ttft.p50": {"time_to_first_token", "p50"}, "ttft.p99": {"time_to_first_token", "p99"},
		"itl.p95": {"inter_token_latency", "p95"}, "latency.max": {"request_latency", "max"},
	} {
		require.InDelta(t, block(of[0], of[1])/1e3, float64(r.value(name)), 1e-9, name)
	}
	require.InDelta(t, block("output_sequence_length", "avg"), float64(r.value("output_tokens.mean")), 1e-9)
	require.Equal(t, block("output_token_throughput", "avg"), float64(r.value("output_token_rate")))
	require.Zero(t, r.value("error-rate"))
	require.Equal(t, "m", c.runs[0].settings["model"])
	require.Equal(t, "4", c.runs[0].settings["concurrency"])
	require.Equal(t, 4, c.Frontier.Points[0].Concurrency)

	for _, name := range []string{"lateness.p99", "token_hit_rate", "goodput"} {
		require.True(t, r.value(name).IsMissing(), name)
	}
	require.Contains(t, c.tableText(t), "lateness.p99        -                     ")
	require.False(t, c.Comparable)
	require.Contains(t, c.tableText(t), "  seed: not known (aiperf-0.13.0); 42 (ours)\n")
	require.Equal(t, Independent, c.Verdicts[0].Method, "each has 20 trees and more: that of a request of AIPerf is its session")

	both := compareDirs(t, released, released)
	require.Equal(t, []string{"aiperf-0.13.0", "aiperf-0.13.0 (2)"}, both.names())
	require.True(t, both.Comparable, "what neither knows does not differ")
	require.Empty(t, both.Verdicts[0].Figures)
}

// Rows or the JSON file alone are enough, with fewer figures; a directory with neither is refused, and a cut row is told with its line.
func TestDirectoryOfAIPerfInParts(t *testing.T) {
	rows, numbers := t.TempDir(), t.TempDir()
	put := func(dir, name string, cut int) {
		data, err := os.ReadFile(filepath.Join(released, name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), data[:len(data)-cut], 0o600))
	}
	put(rows, "profile_export.jsonl", 0)
	put(numbers, "profile_export_aiperf.json", 0)
	c := compareDirs(t, released, rows, numbers)
	whole := c.Runs[0]
	require.Equal(t, whole.value("ttft.p95"), c.Runs[1].value("ttft.p95"))
	require.True(t, c.Runs[1].value("output_token_rate").IsMissing())
	require.InDelta(t, float64(whole.value("ttft.p95")), float64(c.Runs[2].value("ttft.p95")), 1e-9)
	require.Equal(t, whole.value("output_token_rate"), c.Runs[2].value("output_token_rate"))
	require.Equal(t, []string{"there is no profile_export_aiperf.json", "there is no profile_export_aiperf.csv"}, c.Runs[1].Lacks)
	require.Empty(t, whole.Lacks)
	require.NotNil(t, c.Runs[1].Figures["ttft.p95"].Interval)
	require.Nil(t, c.Runs[2].Figures["ttft.p95"].Interval, "without rows there is nothing to resample")

	put(rows, "profile_export.jsonl", 30)
	_, err := Make(t.Context(), []Source{{Dir: released}, {Dir: rows}}, Options{})
	require.ErrorContains(t, err, "profile_export.jsonl: line 24: cut off after")
	_, err = Make(t.Context(), []Source{{Dir: released}, {Dir: t.TempDir()}}, Options{})
	require.ErrorContains(t, err, "not the results of a run: neither records.jsonl nor files of AIPerf")
	_, err = Make(t.Context(), []Source{{Dir: released}}, Options{})
	require.ErrorContains(t, err, "fewer than two runs: name two or more")
}

// A run of agentx whose records are damaged is refused with file and line; one that is cut in the middle of a line is compared, and
// what it lacks is told.
func TestDamagedRun(t *testing.T) {
	m := newModelled(24)
	whole, cut := m.write(t, "whole"), m.write(t, "cut")
	path := filepath.Join(cut, measure.RecordsFile)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, data[:len(data)-40], 0o600))
	c := compareDirs(t, whole, cut)
	require.Equal(t, []string{"the last line of its records is cut off and left out"}, c.Runs[1].Lacks)

	info := filepath.Join(cut, measure.RunFile)
	about, err := os.ReadFile(info)
	require.NoError(t, err)
	require.NoError(t, os.Remove(info))
	c = compareDirs(t, whole, cut)
	require.Contains(t, c.Runs[1].Lacks, "there is no run.json: what was run is not known")
	require.NotContains(t, c.Runs[1].Lacks, "the run has not ended, or was killed")
	require.False(t, c.Comparable, "what is not known may differ")
	require.Contains(t, c.MismatchNames(), "model")
	_, err = c.HTML()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(info, about, 0o600))

	require.NoError(t, os.WriteFile(path, append([]byte("{\n"), data...), 0o600))
	_, err = Make(t.Context(), []Source{{Dir: whole}, {Dir: cut}}, Options{})
	require.ErrorContains(t, err, path+": line 1: ")
	require.NoError(t, os.Remove(path))
	_, err = Make(t.Context(), []Source{{Dir: whole}, {Dir: cut}}, Options{})
	require.ErrorContains(t, err, cut+": not the results of a run: ")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	c = compareDirs(t, whole, cut)
	require.Contains(t, c.Runs[1].Marks, "empty: no request of the headline ended well")
	_, err = c.HTML()
	require.NoError(t, err)
}
