package page

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	charts "github.com/agentx/agentx/cmd/internal/report/page"
	"github.com/agentx/agentx/cmd/internal/report/page/pagetest"
	"github.com/agentx/agentx/cmd/internal/simulate"
	"github.com/agentx/agentx/cmd/internal/simulate/planner"
	"github.com/agentx/agentx/cmd/internal/simulate/workload"
)

var origin = charts.Origin{Facts: [][2]string{{"trace", "t.jsonl"}, {"key", "0123456789abcdef0123"}, {"date", "2026-01-02"}, {"agentx", "v1"}}, Command: "agentx simulate t.jsonl --html"}

// The conclusion has the share of good requests, of ticks within the limits, the workers and the GPU-hours; a run without limits says how fast it was.
func TestConclusion(t *testing.T) {
	for _, c := range []struct {
		ttft, itl *float64 // ms
		limit     float64  // s, of both
		want      [2]int
	}{
		{nil, nil, 1, [2]int{0, 0}}, {new(900.0), nil, 1, [2]int{1, 1}}, {new(1000.0), new(1000.0), 1, [2]int{1, 1}}, {new(900.0), new(1001.0), 1, [2]int{0, 1}},
	} {
		kept, judged := ticksKept([]*planner.Tick{{}, {Observed: &planner.Observed{TTFTMS: c.ttft, ITLMS: c.itl}}}, &c.limit, &c.limit)
		require.Equal(t, c.want, [2]int{kept, judged})
	}
	for name, want := range map[string]string{
		"sampled":    `^[\d.]+k? output tokens/s, TTFT p95 [\d.]+ m?s, ITL p95 [\d.]+ m?s; 8 workers; [\d.]+ GPU-hours\.$`,
		"sampled kv": `^[\d.]+ % of \d+ requests are good; 4 workers; [\d.]+ GPU-hours\.$`,
		"disagg":     `; [\d.]+ % of \d+ ticks with traffic are within the SLA; 1 to \d+ prefill; \d+( to \d+)? decode; [\d.]+ GPU-hours\.$`,
	} {
		r, err := simulate.Run(t.Context(), configs()[name])
		require.NoError(t, err)
		require.Regexp(t, want, newBuilder(r, r.Summary()).head().Conclusion)
	}
}

// configs are runs of every kind of page.
func configs() map[string]simulate.Config {
	kv := sampledConfig(4)
	kv.Router, kv.SLA = simulate.KVRouter, simulate.SLA{TTFT: 100e6, ITL: 12e6, E2E: 3e9}
	apart := sampledConfig(0)
	apart.PrefillWorkers, apart.DecodeWorkers = 2, 2
	latency := plannedConfig(planner.Aggregated)
	latency.Planner.Target = planner.TargetLatency
	return map[string]simulate.Config{
		"agg": plannedConfig(planner.Aggregated), "disagg": plannedConfig(planner.Disaggregated), "sampled": sampledConfig(8), "sampled kv": kv,
		"sampled disagg": apart, "load alone": latency,
	}
}

// The header has what came of the run: range, ticks, transitions, GPU-hours, SLA, switches, and what the model lacks.
//
// Covers S-50.
func TestHeader(t *testing.T) {
	c := plannedConfig(planner.Disaggregated)
	require.NoError(t, c.Switches.Set("hit_discount", "off"))
	require.NoError(t, c.Switches.Set("admission", "preempt"))
	c.SLA = simulate.SLA{TTFT: 1e9, E2E: 20e9}
	r, html := made(t, c)
	transitions := 0
	for k := range r.Planned.Ticks[0].Pools {
		last := r.Planned.Ticks[0].Pools[k].Active
		for _, tick := range r.Planned.Ticks {
			if n := tick.Pools[k].Active; n != last {
				transitions, last = transitions+1, n
			}
		}
	}
	require.Greater(t, transitions, 3)
	e := pagetest.NewEngine(t, html)
	facts := e.Eval(`simulatedFacts(page.head).map((f) => f.join(": ")).join("\n")`).(string)
	windows := 0
	for _, tick := range r.Planned.Ticks {
		if tick.Throughput {
			windows++
		}
	}
	hours := e.Eval("formatValue(a, '')", float64(r.Summary().GPUHours))
	for _, line := range []string{
		fmt.Sprintf("ticks: %d, %d of them with a window of traffic", len(r.Planned.Ticks), windows), fmt.Sprintf("transitions: %d", transitions),
		fmt.Sprintf("GPU-hours: %s", hours), "SLA: ttft 1.5 s, itl 40 ms", "switches: admission=preempt (gate by default), hit_discount=off (on by default)",
		e.Eval("'good: ' + groupDigits(a + '') + ' requests (' + formatValue(b, '%') + ') within ttft 1 s, latency 20 s'", r.Summary().Goodput.Good, float64(r.Summary().Goodput.Ratio)).(string),
		"range: 0 to " + e.Eval("formatTime(a, a, a)", float64(endOf(r))/1e9).(string), "fleet: 1 prefill and 1 decode workers at the beginning",
	} {
		assert.Contains(t, facts, line)
	}
	notes := e.Eval(`simulatedNotes(page.head).join("\n")`).(string)
	for _, words := range []string{"belong to no model and no GPU", "contention of links", "speculative decoding", "attention data parallelism", "stores to tiers"} {
		assert.Contains(t, notes, words)
	}
	require.Equal(t, float64(endOf(r))/1e9, e.Number("page.head.end"))
}

// With nothing selected the numbers are those of the summary; computed from the requests on the page they are the same, to the last digit.
//
// Covers S-50.
func TestNumbersOfThePage(t *testing.T) {
	for name, c := range configs() {
		r, html := made(t, c)
		s := r.Summary()
		e := pagetest.NewEngine(t, html)
		e.Eval("var requests = new SimulatedRequests(page), range = new TimeRange(0, page.head.end)")
		for k, d := range []simulate.Distribution{s.TTFT, s.ITL, s.TokenGap, s.RequestLatency} {
			for stat, want := range map[string]float64{"mean": float64(d.Mean), "p50": float64(d.P50), "p95": float64(d.P95), "max": float64(d.Max), "n": float64(d.N)} {
				require.Equal(t, want, e.Number("simulatedNumbers(page, requests, range)[a].stat[b]", k, stat), "%s %s", name, stat)
				if k != 2 {
					require.Equal(t, want, e.Number("requests.stat(simulatedMetrics[a].name, 0, requests.length)[b]", k, stat), "%s %s", name, stat)
				}
			}
		}
		from, to := float64(endOf(r))/1e9*0.3, float64(endOf(r))/1e9*0.6
		e.Eval("range.set(a, b)", from, to)
		from, to = e.Number("range.from"), e.Number("range.to")
		n, sum := 0, 0.0
		for _, q := range r.Requests {
			if l, ok := simulate.LatencyOf(q); ok && float64(q.Arrival)/1e9 >= from && float64(q.Arrival)/1e9 < to {
				n, sum = n+1, sum+float64(l.TTFT)/1e9
			}
		}
		require.EqualValues(t, n, e.Number("simulatedNumbers(page, requests, range)[0].stat.n"))
		require.InEpsilon(t, sum/float64(n), e.Number("simulatedNumbers(page, requests, range)[0].stat.mean"), 1e-9)
		require.EqualValues(t, len(r.Requests), e.Number("page.tables.windows.columns.arrived.reduce((a, b) => a + b, 0)"))
	}
}

// All charts read one range. Setting it moves every one of them, and time becomes pixels and time again.
//
// Covers S-51.
func TestOneRangeForAllCharts(t *testing.T) {
	for name, c := range configs() {
		_, html := made(t, c)
		e := pagetest.NewEngine(t, html)
		e.Document()
		want := 11
		if c.Planner == nil {
			want = 9
		}
		require.GreaterOrEqual(t, int(e.Number("charts.length")), want, name)
		require.Equal(t, true, e.Eval("charts.every((chart) => chart.x === page.range && chart.time === page.range)"), name)
		end := e.Number("page.head.end")
		for _, share := range []float64{0.113, 0.9} {
			from := share * end
			e.Eval("page.range.set(a, b); charts.forEach((chart) => { if (!chart.stale) throw new Error(chart.title); chart.draw(); })", from, from+0.08*end)
			require.Equal(t, true, e.Eval("charts.every((chart) => chart.pen.from === page.range.from && chart.pen.to === page.range.to)"))
			at := from + 0.037*end
			require.Equal(t, true, e.Eval("charts.every(({pen}) => Math.abs(pen.x.value(pen.x.pixel(a)) - a) < 1e-6 * page.range.whole.to)", at))
			e.Eval("page.range.reset()")
		}
		require.Equal(t, "", e.Eval("location.hash"))
	}
}

// Every reason that a planner can give has a colour, and no two of a kind look the same.
//
// Covers S-47.
func TestReasonsHaveColours(t *testing.T) {
	_, html := made(t, sampledConfig(1))
	e := pagetest.NewEngine(t, html)
	for table, list := range map[string][]planner.Reason{"loadReasons": planner.LoadReasons, "throughputReasons": planner.ThroughputReasons} {
		looks := map[string]planner.Reason{}
		for _, r := range list {
			require.Equal(t, true, e.Eval(table+"[a] !== undefined && "+table+"[a].style < seriesCount", string(r)), "%s has no colour in %s", r, table)
			look := e.Eval("JSON.stringify("+table+"[a])", string(r)).(string)
			require.Empty(t, looks[look], "%s looks like it", r)
			looks[look] = r
		}
		require.EqualValues(t, len(list), e.Number("Object.keys("+table+").length"))
	}
}

// What the page draws of ticks is what the ticks have: floors, capacities, reasons, engines.
//
// Covers S-52.
func TestPageHasTheTicks(t *testing.T) {
	r, html := made(t, plannedConfig(planner.Disaggregated))
	e := pagetest.NewEngine(t, html)
	require.Equal(t, false, e.Eval("page.head.thinned"))
	points, reasons, windows, predicted, draining := 0, 0, 0, 0, 0
	for _, tick := range r.Planned.Ticks {
		at := float64(tick.At) / 1e9
		if tick.Window != nil && tick.Observed.TTFTMS != nil {
			require.InDelta(t, *tick.Observed.TTFTMS/1e3, e.Number("(({t, v}) => v[nearestIndex(t, a)])(page.tables['ttft.observed'].columns)", at), 1e-6)
			windows++
		}
		if tick.Predicted != nil {
			require.InDelta(t, tick.Predicted.Requests/tick.Observed.Seconds, e.Number("(({t, v}) => v[nearestIndex(t, a)])(page.tables['rate.predicted'].columns)", at), 1e-6)
			predicted++
		}
		for k, one := range tick.Pools {
			points += len(one.Engines)
			require.Equal(t, string(one.LoadReason), e.Eval("(({t, reason}) => reason.at(nearestIndex(t, a)))(page.tables['load.' + b].columns)", at, k))
			require.EqualValues(t, one.Floor, e.Number("new Line({step: true, ...figureOf(page, 'floor.' + b)}).read(a)", at, k))
			require.EqualValues(t, one.Recommended, e.Number("new Line({step: true, ...figureOf(page, 'recommended.' + b)}).read(a)", at, k))
			require.EqualValues(t, one.Active, e.Number("(({t, active}) => new Line({step: true, x: t, y: active}).read(a - 1e-6))(page.tables['pool.' + b].columns)", at, k))
			require.EqualValues(t, one.Starting, e.Number("(({t, starting}) => new Line({step: true, x: t, y: starting}).read(a - 1e-6))(page.tables['pool.' + b].columns)", at, k))
			draining += one.Draining
			if one.ThroughputReason != "" {
				reasons++
			}
		}
	}
	require.Greater(t, min(windows, predicted), 3)
	require.Positive(t, draining)
	require.EqualValues(t, windows, e.Number("page.tables['ttft.observed'].rows"))
	require.EqualValues(t, points, e.Number("page.tables.points.rows"))
	require.EqualValues(t, reasons, e.Number("page.tables['throughput.0'].rows + page.tables['throughput.1'].rows"))
	require.EqualValues(t, len(r.Planned.Ticks), e.Number("page.tables.gpu_hours.rows"))
}

// Without a planner the page has samples of the workers; counts of workers and of requests agree.
//
// Covers S-52.
func TestPageHasTheSamples(t *testing.T) {
	r, html := made(t, sampledConfig(3))
	e := pagetest.NewEngine(t, html)
	require.Equal(t, float64(r.Samples.Every)/1e9, e.Number("page.head.every"))
	for _, s := range []simulate.Sample{r.Samples.List[1], r.Samples.List[len(r.Samples.List)/2], r.Samples.List[len(r.Samples.List)-1]} {
		for _, w := range s.Pools[0] {
			row := fmt.Sprintf("(() => { const line = workerLines(page, 0, (row) => row).find((l) => l.worker === %d); return line.y[nearestIndex(line.x, %v)]; })()", w.ID, float64(s.At)/1e9)
			require.EqualValues(t, w.Running, e.Number("page.tables.points.columns.running["+row+"]"))
			require.EqualValues(t, w.KVBlocks, e.Number("page.tables.points.columns.blocks["+row+"]"))
		}
		running := 0
		for _, q := range r.Requests {
			if q.Admissions > 0 && q.Admitted <= s.At && q.Last > s.At {
				running++
			}
		}
		sum := 0
		for _, w := range s.Pools[0] {
			sum += w.Running
		}
		require.Equal(t, running, sum, "at %d", s.At)
	}
	at := r.Samples.List[len(r.Samples.List)/8].At
	last := e.Eval("Array.from(workerLines(page, 0, (row) => page.tables.points.columns.reuse[row]), (l) => l.y[nearestIndex(l.x, a)])", float64(at)/1e9).([]any)
	reused, prompt := make([]float64, 3), make([]float64, 3)
	for _, q := range r.Requests {
		if q.Admitted <= at {
			reused[q.Worker], prompt[q.Worker] = reused[q.Worker]+float64(q.Reused), prompt[q.Worker]+float64(q.Prompt)
		}
	}
	for k := range last {
		require.InDelta(t, reused[k]/prompt[k], last[k], 0.00051)
	}
}

// Texts that a user or a warning brings stay text.
//
// Covers S-53.
func TestHostileNames(t *testing.T) {
	hostile := `</script><script>alert(1)</script><img src=x onerror=alert(2)> ` + "\u2028\u202e" + strings.Repeat("x<y>", 2000)
	c := plannedConfig(planner.Aggregated)
	r, err := simulate.Run(t.Context(), c)
	require.NoError(t, err)
	_, plain := made(t, c)
	r.Config.Engine.Config.Timing.Table = hostile
	r.Planned.Warnings, r.Planned.Bootstrap.Failed = []string{hostile}, hostile
	s := r.Summary()
	s.Out = hostile
	html, err := Make(r, s, origin)
	require.NoError(t, err)
	for _, sign := range []string{"<script", "</script", "<img", "\u2028"} {
		require.Equal(t, strings.Count(plain, sign), strings.Count(string(html), sign), sign)
	}
	e := pagetest.NewEngine(t, string(html))
	require.Contains(t, e.Eval("simulatedNotes(page.head).join()"), "The planner warns: "+hostile)
	require.Equal(t, hostile, e.Eval("page.head.summary.run.engine.timing.table"))
	require.Equal(t, "", e.Eval("page.head.summary.out"), "where files are is no part of a run")
	e.Document()
	require.Equal(t, true, e.Eval(`root.all((made) => made.name === "script" || made.name === "img").length === 0`))
}

// Runs in which nothing, or nearly nothing, happened have a page that says so.
//
// Covers S-52.
func TestPagesOfSmallRuns(t *testing.T) {
	for name, change := range map[string]func(c *simulate.Config){
		"one request":     func(c *simulate.Config) { c.Synthetic.Sessions = 1 },
		"one token":       func(c *simulate.Config) { c.Synthetic.Sessions, c.Synthetic.Out = 1, 1 },
		"at one instant":  func(c *simulate.Config) { c.Synthetic.Sessions, c.Synthetic.Rate = 300, 0 },
		"all are refused": func(c *simulate.Config) { c.Synthetic.In = 16384*64 + 1; c.Synthetic.Sessions = 5 },
	} {
		for _, base := range []simulate.Config{plannedConfig(planner.Aggregated), sampledConfig(2)} {
			o := *base.Synthetic
			base.Synthetic = &o
			base.Engine.Config.Blocks = 16384
			change(&base)
			r, html := made(t, base)
			e := pagetest.NewEngine(t, html)
			e.Document()
			require.Greater(t, int(e.Number("charts.length")), 8, name)
			require.False(t, strings.Contains(e.Eval("root.textContent").(string), "NaN"), name)
			require.False(t, strings.Contains(e.Eval("root.textContent").(string), "undefined"), name)
			require.NotEmpty(t, r.Requests)
		}
	}
	c := sampledConfig(1)
	c.MaxTime, c.Synthetic = 1, &workload.SyntheticOptions{Sessions: 1, In: 10, Out: 1}
	r, err := simulate.Run(t.Context(), c)
	require.NoError(t, err)
	r.Requests, r.Duration = nil, 0
	html, err := Make(r, r.Summary(), origin)
	require.NoError(t, err)
	e := pagetest.NewEngine(t, string(html))
	e.Document()
	require.Contains(t, e.Eval("root.textContent"), "No request arrived")
}

// A thinned line keeps the first, the last, the least and the greatest value of each column.
func TestThinnedLines(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, columns := rapid.IntRange(0, 300).Draw(t, "n"), rapid.IntRange(1, 40).Draw(t, "columns")
		var at []int64
		for range n {
			at = append(at, rapid.Int64Range(0, 1e12).Draw(t, "at"))
		}
		slices.Sort(at)
		values := make([]float64, n)
		for k := range values {
			if values[k] = rapid.Float64Range(-5, 5).Draw(t, "value"); rapid.IntRange(0, 5).Draw(t, "known") == 0 {
				values[k] = math.NaN()
			}
		}
		rows := thin(at, 1e12, columns, values)
		require.True(t, slices.IsSorted(rows))
		require.LessOrEqual(t, len(rows), 4*columns)
		kept := map[int]bool{}
		for _, row := range rows {
			require.False(t, kept[row])
			kept[row] = true
		}
		byColumn := map[int][]int{}
		for k := range at {
			byColumn[columnOf(at[k], 1e12, columns)] = append(byColumn[columnOf(at[k], 1e12, columns)], k)
		}
		for column, list := range byColumn {
			require.True(t, column >= 0 && column < columns)
			require.True(t, kept[list[0]] && kept[list[len(list)-1]])
			least, most := math.Inf(1), math.Inf(-1)
			var keptLeast, keptMost = math.Inf(1), math.Inf(-1)
			for _, k := range list {
				if math.IsNaN(values[k]) {
					continue
				}
				least, most = min(least, values[k]), max(most, values[k])
				if kept[k] {
					keptLeast, keptMost = min(keptLeast, values[k]), max(keptMost, values[k])
				}
			}
			require.Equal(t, [2]float64{least, most}, [2]float64{keptLeast, keptMost})
		}
	})
}

// Windows are few enough for their percentiles to say something, whatever the length of the run.
//
// Covers S-50.
func TestWindowsHaveRequests(t *testing.T) {
	for _, c := range []struct {
		end      int64
		requests int
		want     time.Duration
	}{
		{25e9, 175, 2 * time.Second}, {25e9, 100_000, 200 * time.Millisecond}, {25e9, 3, 50 * time.Second}, {43_506e9, 41_400, 500 * time.Second}, {0, 0, time.Millisecond},
	} {
		require.Equal(t, c.want, time.Duration(windowLength(c.end, c.requests)), "%+v", c)
	}
}
