package runs

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/report/page/pagetest"
	"github.com/agentx/agentx/cmd/internal/simulate"
	"github.com/agentx/agentx/cmd/internal/simulate/workload"
)

// play simulates a synthetic load with every number of workers and of sessions.
func play(t *testing.T, workers, concurrency []int, gates ...string) (runs []*Run, list []simulate.Gate) {
	t.Helper()
	for _, text := range gates {
		g, err := simulate.ParseGate(text)
		require.NoError(t, err)
		list = append(list, g)
	}
	for _, n := range workers {
		for _, m := range concurrency {
			c := simulate.Default()
			c.Workers, c.Concurrency = n, m
			c.Synthetic = &workload.SyntheticOptions{In: 3000, Out: 40, Sessions: 60, Rate: 20, Turns: 2, ThinkMS: 100}
			if m > 0 {
				c.Load = simulate.LoadConcurrency
			}
			result, err := simulate.Run(context.Background(), c)
			require.NoError(t, err)
			r := &Run{Name: fmt.Sprintf("workers-%d_concurrency-%d", n, m), Config: c, Summary: result.Summary(), Samples: newSamples(result)}
			for _, g := range list {
				if why := g.Judge(r.Summary); why != "" {
					r.Exit, r.Reasons = 3, append(r.Reasons, why)
				}
			}
			runs = append(runs, r)
		}
	}
	return runs, list
}

func text(t *testing.T, o Options) string {
	t.Helper()
	data, err := html(&o)
	require.NoError(t, err)
	return string(data)
}

// Every figure of the page is that of the summary of its run, and the lines go through the runs by their numbers.
//
// Covers S-54.
func TestPageHasTheFiguresOfTheRuns(t *testing.T) {
	runs, gates := play(t, []int{4, 1, 2}, []int{2, 16}, "ttft.p95<400ms", "good>=99%")
	page := text(t, Options{Title: "six", Runs: runs, Gates: gates, Lead: answers(runs, gates)})
	assert.Less(t, len(page), 300_000)
	e := pagetest.NewEngine(t, page)
	for k, r := range runs {
		for _, f := range figures() {
			want := float64(f.of(r.Summary))
			got := e.Number("page.tables.figures.columns[a][b]", f.Name, k)
			if math.IsNaN(want) {
				assert.True(t, math.IsNaN(got), "%s of %s", f.Name, r.Name)
				continue
			}
			assert.Equal(t, want, got, "%s of %s", f.Name, r.Name)
		}
		assert.EqualValues(t, r.Exit, e.Number("page.head.runs[a].exit", k))
	}
	e.Eval("var lines = sweepLines(page, 0, 'ttft.p95')")
	require.Equal(t, "concurrency 2", e.Eval("lines[0].name"))
	require.Equal(t, []any{int64(1), int64(2), int64(4)}, e.Eval("lines[1].x"), "by workers, whatever the order of the runs")
	for n, k := range []int{3, 5, 1} {
		require.Equal(t, float64(runs[k].Summary.TTFT.P95), e.Number("lines[1].y[a]", n))
		require.Equal(t, runs[k].Exit != 0, e.Eval("lines[1].hollow[a]", n))
	}
	require.Equal(t, "workers 4", e.Eval("sweepLines(page, 1, 'itl.mean')[0].name"))
	require.Equal(t, "p95", e.Eval("firstStatistic(page.head)"))
	rows := e.Eval("simulatedRows(page, page.head.runs).rows.map((row) => row.map((cell) => cell.text).join(' ')).join('\\n')").(string)
	require.Regexp(t, `(?m)^workers-4_concurrency-2 4 2 (yes|no) `, rows)
	require.Equal(t, []any{int64(1), int64(4), int64(8)}, e.Eval("sweepAxis('workers', [8, 1, 4, 8]).ticks"))
	require.Equal(t, true, e.Eval("sweepAxis('', [1, 4, 8]).log && !sweepAxis('', [4, 8, 16]).log && sweepAxis('', [0, 5]).from < 0"))
}

// The samples of a page are values of the run, the least and the largest among them.
func TestSamples(t *testing.T) {
	runs, _ := play(t, []int{2}, []int{8})
	s := runs[0].Samples
	require.Len(t, s["ttft"], 120)
	require.Len(t, s["token_gap"], mostSamples)
	for metric, d := range map[string]simulate.Distribution{"ttft": runs[0].Summary.TTFT, "itl": runs[0].Summary.ITL, "latency": runs[0].Summary.RequestLatency} {
		require.InDelta(t, float64(d.Min), s[metric][0], 1e-12, metric)
		require.InDelta(t, float64(d.Max), s[metric][len(s[metric])-1], 1e-12, metric)
	}
	many := make([]float64, 10_001)
	for k := range many {
		many[k] = float64(10_000-k) * 1e9
	}
	list := ranked(many)
	require.Len(t, list, mostSamples)
	for k, v := range list {
		require.Equal(t, float64(20*k), v)
	}
}

// The answer is the least number of workers, and the highest concurrency, that keep the gates.
//
// Covers S-54.
func TestAnswers(t *testing.T) {
	run := func(workers, concurrency, exit int) *Run {
		c := simulate.Default()
		c.Workers, c.Concurrency = workers, concurrency
		return &Run{Config: c, Exit: exit}
	}
	gate, err := simulate.ParseGate("ttft.p95<2s")
	require.NoError(t, err)
	gates := []simulate.Gate{gate}
	runs := []*Run{run(8, 4, 0), run(2, 4, 3), run(4, 4, 0), run(8, 32, 3), run(2, 32, 3), run(4, 32, 3)}
	require.Equal(t, []string{
		"concurrency 4: 4 workers keep ttft.p95<2s; 2 do not", "concurrency 32: 8 workers do not keep ttft.p95<2s",
	}, answers(runs, gates))
	require.Equal(t, []string{"4 workers keep ttft.p95<2s"}, answers([]*Run{run(4, 4, 0), run(8, 4, 0)}, gates))
	require.Equal(t, []string{"concurrency 8 keeps ttft.p95<2s; 16 does not"}, answers([]*Run{run(1, 32, 3), run(1, 8, 0), run(1, 16, 3), run(1, 4, 0)}, gates))
	require.Equal(t, []string{"1 worker keeps ttft.p95<2s; 2 do not"}, answers([]*Run{run(1, 4, 0), run(2, 4, 3), run(4, 4, 0)}, gates))
	require.Equal(t, []string{"2 workers keep ttft.p95<2s; 1 does not; 4, 16 do not"}, answers([]*Run{run(1, 4, 3), run(2, 4, 0), run(4, 4, 3), run(8, 4, 0), run(16, 4, 3)}, gates))
	require.Equal(t, []string{"concurrency 4 does not keep ttft.p95<2s"}, answers([]*Run{run(1, 8, 3), run(1, 4, 3)}, gates))
	require.Empty(t, answers(runs, nil))
	small, large := run(2, 4, 3), run(2, 4, 0)
	small.Engine, large.Engine = "small", "large"
	require.Empty(t, answers([]*Run{small, large}, gates), "engines have no order")
}

// What runs differ in, and what they share besides defaults, is told apart.
func TestSettings(t *testing.T) {
	runs, _ := play(t, []int{1, 2}, []int{0})
	for _, r := range runs {
		r.Config.SLA.TTFT, r.Config.Engine.Config.Blocks = 2e9, 99
	}
	differ, same, err := settingsOf(runs)
	require.NoError(t, err)
	require.Equal(t, []setting{{"workers", []string{"1", "2"}}}, differ)
	require.Contains(t, same, setting{"engine.num_gpu_blocks", []string{"99", "99"}})
	require.Contains(t, same, setting{"sla.ttft", []string{"2s", "2s"}})
	for _, r := range runs {
		r.Config.Router = simulate.KVRouter
	}
	_, routed, err := settingsOf(runs)
	require.NoError(t, err)
	require.ElementsMatch(t, append(same[:len(same):len(same)], setting{"router", []string{"kv_router", "kv_router"}}), routed)
	for _, s := range same {
		require.NotContains(t, []string{"router", "router_config.router_temperature", "switches.admission", "engine.block_size", "seed"}, s.Title)
	}
}

// Equal runs give equal bytes; names that are markup stay texts; a run that came to no end has no figures.
//
// Covers S-54.
func TestPageBytesNamesAndDeadEnds(t *testing.T) {
	runs, gates := play(t, []int{1, 2}, []int{0}, "ttft.p95<1s")
	again, _ := play(t, []int{1, 2}, []int{0}, "ttft.p95<1s")
	require.Equal(t, text(t, Options{Title: "two", Runs: runs, Gates: gates}), text(t, Options{Title: "two", Runs: again, Gates: gates}))

	hostile := `</script><script>alert(1)</script>` + "\u2028\u202e" + `"'&`
	runs[0].Name, runs[0].Engine, runs[1].Summary, runs[1].Samples, runs[1].Exit, runs[1].Reasons = hostile, hostile, nil, nil, 3, []string{hostile}
	page := text(t, Options{Title: hostile, Lead: []string{hostile}, Runs: runs, Gates: gates})
	require.Equal(t, strings.Count(page, "<script"), strings.Count(page, "</script>"))
	require.NotContains(t, page, "alert(1)</script>")
	e := pagetest.NewEngine(t, page)
	require.Equal(t, hostile, e.Eval("page.head.runs[0].name"))
	require.True(t, math.IsNaN(e.Number("page.tables.figures.columns['ttft.p50'][1]")))
	require.EqualValues(t, 0, e.Number("page.tables['samples.1'].columns.ttft.length"))

	file := filepath.Join(t.TempDir(), pageFile)
	require.NoError(t, Write(file, Options{Title: hostile, Lead: []string{hostile}, Runs: runs, Gates: gates}))
	written, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, page, string(written))
	require.Error(t, Write(file, Options{}))
}
