package page

import (
	"bytes"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/report/page/pagetest"
	"github.com/agentx/agentx/cmd/internal/simulate"
	"github.com/agentx/agentx/cmd/internal/simulate/fleet"
	"github.com/agentx/agentx/cmd/internal/simulate/planner"
)

// manyEngines is a run that a test makes up: so many ticks, engines and requests, with figures that never repeat.
func manyEngines(t testing.TB, ticks, engines, requests int) *simulate.Result {
	c := plannedConfig(planner.Aggregated)
	c.Synthetic.Sessions = 3
	r, err := simulate.Run(t.Context(), c)
	require.NoError(t, err)
	draw := uint64(1)
	next := func(n int) int {
		draw = draw*6364136223846793005 + 1442695040888963407
		return int(draw>>33) % n
	}
	for len(r.Workers[0]) < engines {
		r.Workers[0] = append(r.Workers[0], fleet.WorkerResult{ID: len(r.Workers[0])})
	}
	r.Planned.Ticks = nil
	number := func(n int) *float64 { v := float64(next(n)) / 997; return &v }
	for k := range ticks {
		tick := &planner.Tick{At: int64(k+1) * 5e9, Load: true, GPUHours: float64(k) / 997}
		one := planner.PoolTick{Name: "agg", Active: 1 + next(8), Floor: 1 + next(8), Recommended: 1 + next(9), TTFTMS: number(1e6), ITLMS: number(1e5), LoadReason: planner.LoadReasons[next(10)]}
		if k%12 == 11 {
			tick.Throughput, tick.Window = true, &planner.Window{Requests: next(500)}
			tick.Observed = &planner.Observed{Seconds: 60, ISL: number(1e7), OSL: number(1e6), TTFTMS: number(1e6), ITLMS: number(1e5)}
			tick.Predicted = &planner.Prediction{Requests: *number(1e6), ISL: *number(1e7), OSL: *number(1e6)}
			one.Capacity = &planner.Capacity{RPS: *number(1e4)}
			one.ThroughputReason = planner.ThroughputReasons[next(7)]
		}
		for id := range engines {
			one.Engines = append(one.Engines, planner.EngineNow{Worker: id, QueuedPrefill: next(1e6), KV: next(1e6), QueuedKV: next(1000)})
		}
		tick.Pools = []planner.PoolTick{one}
		r.Planned.Ticks = append(r.Planned.Ticks, tick)
	}
	base := *r.Requests[0]
	r.Requests = nil
	for k := range requests {
		q := base
		q.Arrival = int64(float64(ticks) * 5e9 / float64(requests) * float64(k))
		q.First = q.Arrival + int64(next(2_000_000_000))
		q.Last, q.Tokens, q.Prompt, q.Reused, q.Session = q.First+int64(next(2_000_000_000)), 2+next(1000), next(100_000), next(1000), k
		r.Requests = append(r.Requests, &q)
		r.Duration = max(r.Duration, q.Last)
	}
	return r
}

// Pages are small, whatever the run, and the same twice.
//
// Covers S-52.
func TestSizesOfPages(t *testing.T) {
	var e *pagetest.Engine
	for _, c := range []struct{ ticks, engines, requests, limit int }{
		{90, 8, 2361, 300_000}, {90, 8, 50_000, 300_000}, {0, 0, 0, 150_000}, {10_000, 8, 30_000, maxBytes}, {600, 500, 10_000, maxBytes}, {12, 20_000, 3000, maxBytes}, {90_000, 2, 3000, maxBytes},
	} {
		if testing.Short() && c.ticks*c.engines > 50_000 {
			continue
		}
		r := manyEngines(t, c.ticks, c.engines, c.requests)
		s := &simulate.Summary{}
		html, err := Make(r, s, origin)
		require.NoError(t, err)
		t.Logf("%d ticks, %d engines, %d requests: %d bytes", c.ticks, c.engines, c.requests, len(html))
		require.LessOrEqual(t, len(html), c.limit, "%+v", c)
		again, err := Make(r, s, origin)
		require.NoError(t, err)
		require.True(t, bytes.Equal(html, again))
		if e == nil {
			e = pagetest.NewEngine(t, string(html))
		}
		e.LoadHead(string(html))
		thinned := c.ticks > mostColumns/2 || c.requests > mostRequests || c.engines > mostLines
		require.Equal(t, thinned, e.Eval("thinnedText(page.head).length > 0"), "%+v", c)
	}
}

// Of too many requests the page has an even share, and of each part of the run the slowest.
//
// Covers S-52.
func TestThinnedRequests(t *testing.T) {
	r := manyEngines(t, 100, 2, 20_000)
	html, err := Make(r, &simulate.Summary{}, origin)
	require.NoError(t, err)
	e := pagetest.NewEngine(t, string(html))
	e.Eval("var requests = new SimulatedRequests(page)")
	require.EqualValues(t, 8, e.Number("page.head.drawn.stride"))
	require.EqualValues(t, 20_000, e.Number("page.tables.windows.columns.arrived.reduce((a, b) => a + b, 0)"), "counts are of all")
	require.EqualValues(t, 2500, e.Number("requests.stat('ttft', 0, requests.length).n"), "percentiles are of the even share")
	require.Equal(t, e.Number("page.tables.requests.rows"), e.Number("page.head.drawn.requests"))
	slowest := int64(0)
	for _, q := range r.Requests {
		slowest = max(slowest, q.First-q.Arrival)
	}
	require.EqualValues(t, slowest, e.Number("requests.ttft.reduce((a, b) => Math.max(a, b), 0)"))
	require.Contains(t, e.Eval("describeSimulated(page, requests, new TimeRange(0, page.head.end))"), "of 20,000 requests: one in 8 by arrival, and the slowest of each part")
}

// The page of 90 ticks and its log: each is to take less than 100 ms.
func BenchmarkPageOf90Ticks(b *testing.B) {
	r := manyEngines(b, 90, 8, 2361)
	for b.Loop() {
		html, err := Make(r, &simulate.Summary{}, origin)
		require.NoError(b, err)
		require.NoError(b, WriteLog(io.Discard, r))
		b.ReportMetric(float64(len(html)), "page-bytes")
	}
}
