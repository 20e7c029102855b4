package aiperf

import (
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/aiperf/inferencex"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/report"
)

// readRows reads a row file.
func readRows(t *testing.T, path string) (rows []Row) {
	require.NoError(t, EachRow(path, func(row *Row) error { rows = append(rows, *row); return nil }))
	return rows
}

// slowStats are the statistics of samples by their definition.
func slowStats(v []float64) map[string]float64 {
	slices.Sort(v)
	n := float64(len(v))
	s := map[string]float64{"min": v[0], "max": v[len(v)-1], "count": n}
	for _, x := range v {
		s["sum"] += x
	}
	s["avg"] = s["sum"] / n
	for _, x := range v {
		s["std"] += (x - s["avg"]) * (x - s["avg"]) / n
	}
	s["std"] = math.Sqrt(s["std"])
	for _, q := range []int{1, 5, 10, 25, 50, 75, 90, 95, 99} {
		at := float64(q) / 100 * (n - 1)
		below := v[int(at)]
		s[fmt.Sprint("p", q)] = below + (at-math.Floor(at))*(v[min(int(at)+1, len(v)-1)]-below)
	}
	return s
}

// requireRecount requires of every metric of the rows that ended well the statistics in a table.
func requireRecount(t *testing.T, rows []Row, table report.Table) {
	samples := map[string][]float64{}
	for _, row := range rows {
		for _, m := range row.Metrics {
			if m.List == nil {
				samples[m.Tag] = append(samples[m.Tag], m.Value.Float64())
			}
			for _, n := range m.List {
				samples[m.Tag] = append(samples[m.Tag], n.Float64())
			}
		}
	}
	require.Greater(t, len(samples), 15)
	for tag, v := range samples {
		b := table.Find(tag)
		require.NotNil(t, b, tag)
		for name, want := range slowStats(v) {
			got, ok := b.Find(name)
			require.True(t, ok, "%s of %s", name, tag)
			require.InDelta(t, want, got.Float64(), 1e-9*max(1, math.Abs(want)), "%s of %s", name, tag)
		}
	}
}

// Rows in both files are the requests that were sent; statistics and counts in the aggregate are those of a recount of the rows.
func TestRecount(t *testing.T) {
	for seed := range uint64(6) {
		run := newRun(t, seed, 200)
		w, err := Write(t.Context(), run, Options{Slice: time.Second})
		require.NoError(t, err)
		got := files(t, run.Dir)
		rows, excluded := readRows(t, filepath.Join(run.Dir, all[0])), readRows(t, filepath.Join(run.Dir, all[1]))
		require.Equal(t, strings.Count(got["records.jsonl"], "\n"), len(rows)+len(excluded))
		require.Equal(t, []int{len(rows), len(excluded)}, []int{w.Rows, w.Excluded})
		a, err := ReadAggregate([]byte(got[all[2]]))
		require.NoError(t, err)

		by, failed, buckets := map[string][]Row{}, map[string]int{}, map[string]int{}
		for _, row := range slices.Concat(rows, excluded) {
			buckets[row.Agentx.Bucket]++
			if phase := row.Metadata.Phase; row.Error == nil {
				by[phase] = append(by[phase], row)
			} else if row.Agentx.Bucket == phase {
				failed[phase]++
			}
		}
		requireRecount(t, by["profiling"], a.Headline)
		requireRecount(t, by["cooldown"], a.cooldown)
		requireRecount(t, by["warmup"], a.Warmup)
		for tag, want := range map[string]int{
			"request_count": len(by["profiling"]), "error_request_count": failed["profiling"],
			"completed_request_count": len(by["profiling"]) + failed["profiling"], "cooldown_request_count": buckets["cooldown"],
			"cancelled_at_end_count": buckets["cancelled_at_end"], "context_overflow_count": buckets["context_overflow"],
		} {
			n, _ := a.Headline.Find(tag).Find("avg")
			require.Equal(t, report.Int(int64(want)), n, tag)
		}
		ids := map[[2]any]bool{}
		for _, row := range slices.Concat(rows, excluded) {
			ids[[2]any{row.Metadata.Phase == "warmup", row.Metadata.SessionNum}] = true
		}
		require.Len(t, ids, len(rows)+len(excluded), "phase and number name a row")
	}
}

// Every number of JSON, CSV and console is the same one. A recount of the rows by InferenceX's rules agrees as well.
//
// Covers T-61.
func TestFilesAgree(t *testing.T) {
	run := newRun(t, 8, 150)
	_, err := Write(t.Context(), run, Options{})
	require.NoError(t, err)
	got := files(t, run.Dir)
	a, err := ReadAggregate([]byte(got[all[2]]))
	require.NoError(t, err)
	table, err := readCSV([]byte(got[all[3]]))
	require.NoError(t, err)
	require.Len(t, table, len(a.Headline))
	console := consoleCells(got[all[6]])
	require.Len(t, console, len(table))
	byName := map[string]*report.Block{}
	res, err := open(t, run.Dir).Compute()
	require.NoError(t, err)
	for k := range res.Headline {
		b := &res.Headline[k]
		byName[rowName(b)] = a.Headline.Find(b.Tag)
	}
	cells := 0
	for k := range table {
		row := &table[k]
		b := byName[row.Name]
		require.NotNil(t, b, row.Name)
		for _, name := range columns {
			n, ok := b.Find(name)
			written, has := row.Find(name)
			if row.Kind == report.Scalar && name != "avg" {
				continue
			}
			require.Equal(t, ok, has, "%s of %s", name, row.Name)
			if ok {
				require.Equal(t, written, twoDecimals(t, n), "%s of %s", name, row.Name)
				cells++
			}
			if shown, ok := console[row.Name][name]; ok && has {
				require.Equal(t, shown, cell(row, name), "%s of %s", name, row.Name)
			}
		}
	}
	require.Greater(t, cells, 500)

	n, err := inferencex.Read(run.Dir, inferencex.DefaultLimit)
	require.NoError(t, err)
	count, _ := a.Headline.Find("request_count").Find("avg")
	require.Equal(t, count.Int64(), int64(n.Successful))
	require.Equal(t, n.Successful, n.Sweep.Requests)
	mean, _ := a.Headline.Find("time_to_first_token").Find("avg")
	require.InDelta(t, mean.Float64()/1000, float64(n.Metrics.Latency["ttft"]["mean"]), 1e-12)
	require.Equal(t, n.Successful, n.Power.Window.Completed)
	hits := a.Headline.Find("theoretical_prefix_cache_hit")
	rate, _ := hits.Find("avg")
	require.InDelta(t, rate.Float64()/100, float64(*n.Metrics.Cache.HitRate), 1e-9)
}

// twoDecimals is a number as a CSV says it.
func twoDecimals(t *testing.T, n report.Number) report.Number {
	if n.IsInt() {
		return n
	}
	n, err := report.ParseNumber(strconv.FormatFloat(n.Float64(), 'f', 2, 64))
	require.NoError(t, err)
	return n
}

// consoleCells reads the tables of the headline in a console file.
func consoleCells(text string) map[string]map[string]string {
	_, text, _ = strings.Cut(text, "\nHeadline: ")
	text, _, _ = strings.Cut(text, "\nCooldown: ")
	cells, header := map[string]map[string]string{}, []string(nil)
	for _, line := range strings.Split(text, "\n")[1:] {
		row := regexp.MustCompile("  +").Split(line, -1)
		if row[0] == "Metric" {
			header = row
		} else if len(row) > 1 {
			cells[row[0]] = map[string]string{}
			for k, c := range row[1:] {
				name := header[k+1]
				if name == "Value" {
					name = "avg"
				}
				cells[row[0]][name] = c
			}
		}
	}
	return cells
}

// The aggregate has the keys that readers look for, with times, dataset and options as they are told.
func TestAggregate(t *testing.T) {
	run := newRun(t, 9, 60)
	_, err := Write(t.Context(), run, Options{})
	require.NoError(t, err)
	top := decode(t, []byte(files(t, run.Dir)[all[2]]))
	require.Equal(t, "1.5", top["schema_version"])
	require.Equal(t, "agentx/1.2", top["aiperf_version"])
	require.Equal(t, "bench", top["benchmark_id"])
	require.Equal(t, "2023-11-14T22:13:20.311000Z", top["start_time"])
	require.Equal(t, "2023-11-14T22:13:27.311000Z", top["end_time"], "the deadline")
	require.Equal(t, true, top["is_complete"])
	require.Equal(t, json.Number("3"), top["branch_stats"].(map[string]any)["trees_opened"])
	require.NotContains(t, top, "runtime_submission_invalid_reasons")
	metadata := top["metadata"].(map[string]any)
	require.NotContains(t, metadata, "submission_valid")
	require.Equal(t, map[string]any{
		"source_type": "huggingface", "loader": "agentx", "hf_dataset_name": "o/n", "hf_split": "train", "num_dataset_entries": json.Number("7"),
		"revision": commit, "cache_key": "k",
	}, metadata["dataset"])
	ours := metadata["agentx"].(map[string]any)
	require.Equal(t, map[string]any{"header": []any{"X-Key"}, "speed": json.Number("2")}, ours["options"])
	require.Equal(t, "deadline", ours["headline"])
	window := ours["throughput_window"].(map[string]any)
	require.Equal(t, "benchmark", window["kind"])
	require.Regexp(t, `^17000000\d{11}$`, window["start_ns"].(json.Number).String())
	require.Len(t, ours["lanes"], 1)
	require.Equal(t, "agentx replay /cache/k --header=X-Key --speed=2", top["run_info"].(map[string]any)["command"])
	errors := 0
	for _, e := range top["error_summary"].([]any) {
		n, _ := e.(map[string]any)["count"].(json.Number).Int64()
		errors += int(n)
	}
	count := top["error_request_count"].(map[string]any)
	require.Equal(t, count["avg"].(json.Number).String(), fmt.Sprint(errors))

	info := run.Info
	facts := *info.Facts
	facts.Reasons, facts.Cancelled = []string{"wedged_tree"}, true
	info.Facts = &facts
	for scenario, want := range map[string]any{"": nil, "inferencex-agentx-mvp": false} {
		if info.Scenario = nil; scenario != "" {
			info.Scenario = &measure.Scenario{Name: scenario}
		}
		putJSON(t, filepath.Join(run.Dir, "run.json"), info)
		_, err = Write(t.Context(), open(t, run.Dir), Options{})
		require.NoError(t, err)
		top = decode(t, []byte(files(t, run.Dir)[all[2]]))
		require.Equal(t, []any{"wedged_tree"}, top["runtime_submission_invalid_reasons"])
		metadata = top["metadata"].(map[string]any)
		require.Equal(t, []any{"wedged_tree"}, metadata["submission_invalid_reasons"])
		require.Equal(t, want, metadata["submission_valid"])
		require.Equal(t, true, top["was_cancelled"])
		require.Equal(t, "the run was cancelled", top["incomplete_reason"])
	}

	facts.Reasons, facts.Cancelled = nil, false
	info.Part, info.Scenario = &measure.PartInfo{Number: 1, Of: 4}, &measure.Scenario{Name: "s"}
	putJSON(t, filepath.Join(run.Dir, "run.json"), info)
	_, err = Write(t.Context(), open(t, run.Dir), Options{})
	require.NoError(t, err)
	metadata = decode(t, []byte(files(t, run.Dir)[all[2]]))["metadata"].(map[string]any)
	require.NotContains(t, metadata, "submission_valid", "the scenario judges the whole load")
	require.Contains(t, metadata["agentx"], "part")
	console := files(t, run.Dir)[NamesOf("").console]
	require.True(t, strings.HasPrefix(console, "part 1 of 4, from 0: "), console)
	require.Contains(t, console, "scenario s, which judges the whole load\n")

	info.Facts, info.Part = nil, nil
	for scenario, want := range map[string]any{"": nil, "inferencex-agentx-mvp": []any{"run_cancelled"}} {
		if info.Scenario = nil; scenario != "" {
			info.Scenario = &measure.Scenario{Name: scenario}
		}
		putJSON(t, filepath.Join(run.Dir, "run.json"), info)
		_, err = Write(t.Context(), open(t, run.Dir), Options{})
		require.NoError(t, err)
		metadata = decode(t, []byte(files(t, run.Dir)[all[2]]))["metadata"].(map[string]any)
		require.Equal(t, want, metadata["submission_invalid_reasons"], "a run that was killed")
		require.Equal(t, want != nil, metadata["submission_valid"] == false)
	}
}
