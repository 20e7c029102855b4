package html

import (
	"encoding/json"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/report/page/pagetest"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/slo"
)

// stats returns the statistics of every metric, computed by the page, of its range.
func stats(t *testing.T, e *pagetest.Engine) map[string]map[string]float64 {
	text := e.Eval(`(() => {
		const found = {};
		for (const { name } of page.head.metrics) found[name] = statOf(requests.sorted(name, ...rowsWithin(range, requests.time)));
		return JSON.stringify(found, (_, v) => Number.isNaN(v) ? -1 : v);
	})()`)
	var found map[string]map[string]float64
	require.NoError(t, json.Unmarshal([]byte(text.(string)), &found))
	return found
}

// requireStat compares the statistics of the page with those of package measure, to the last bit.
func requireStat(t *testing.T, want measure.Stat, got map[string]float64, where ...any) {
	numbers := map[string]measure.Number{
		"n": measure.Number(want.N), "mean": want.Mean, "p50": want.P50, "p75": want.P75, "p90": want.P90, "p95": want.P95, "p99": want.P99, "max": want.Max,
	}
	for name, v := range numbers {
		if v.IsMissing() {
			v = -1
		}
		require.Equal(t, float64(v), got[name], append([]any{name}, where...)...)
	}
}

// recount are the numbers of some records, computed from records.jsonl by another way than the page's.
type recount struct {
	samples                map[string][]float64
	sent, measured         int
	errors                 map[string]int
	prompt, cached, output int64
}

// recountOf reads the records of a run and counts those of the profiling phase that were sent between two instants of the page.
func recountOf(t *testing.T, dir string, from, to float64, closed bool) recount {
	records, err := measure.OpenRecords(dir)
	require.NoError(t, err)
	defer records.Close()
	zero := first(t, dir)
	c := recount{samples: map[string][]float64{}, errors: map[string]int{}}
	for {
		r, err := records.Next()
		if errors.Is(err, io.EOF) {
			return c
		}
		require.NoError(t, err)
		at := float64(int64(r.Sent)-zero) / 1e9
		if r.Phase == measure.WarmupPhase {
			at = float64(int64(r.Sent)-warmupTime.Nanoseconds()-zero) / 1e9
		}
		if at < from || at > to || at == to && !closed {
			continue
		}
		c.add(r)
	}
}

func (c *recount) add(r *measure.Record) {
	c.sent++
	if r.Error != nil && (r.Bucket == measure.Profiling || r.Bucket == measure.Cooldown) {
		c.errors[string(r.Error.Category)]++
	}
	if r.Bucket != measure.Profiling || r.Error != nil {
		return
	}
	c.measured++
	for _, m := range measure.MetricList {
		if m.Of == nil {
			continue
		}
		if v, ok := m.Of(&r.Numbers, measure.Rules{}); ok {
			c.samples[m.Name] = append(c.samples[m.Name], math.Round(v*m.Unit.Steps())/m.Unit.Steps()) // the columns of a page have whole steps
		}
	}
	c.prompt += max(0, r.PromptTokens.N())
	c.cached += max(0, r.CachedTokens.N())
	c.output += max(0, r.OSL())
}

// first returns when the first request of profiling was sent, ns.
func first(t *testing.T, dir string) int64 {
	records, err := measure.OpenRecords(dir)
	require.NoError(t, err)
	defer records.Close()
	least := int64(1) << 62
	for {
		r, err := records.Next()
		if errors.Is(err, io.EOF) {
			return least
		}
		require.NoError(t, err)
		if r.Phase == measure.ProfilingPhase {
			least = min(least, int64(r.Sent))
		}
	}
}

//
func TestNumbersOfThePageAreThoseOfTheRecords(t *testing.T) {
	dir, summary := newSample(1000).write(t)
	html, _ := pageOf(t, dir)
	e := pagetest.NewEngine(t, html)
	e.Eval(`var requests = new Requests(page), range = new TimeRange(requests.time[0], (page.head.ends[1] - page.head.zero) / 1e9)`)
	whole := stats(t, e)
	all := recountOf(t, dir, e.Number("range.from"), e.Number("range.to"), true)
	for _, m := range measure.MetricList {
		if m.Of != nil {
			requireStat(t, measure.NewStat(all.samples[m.Name]), whole[m.Name], m.Name)
			off := 1e-9
			if m.Unit == slo.Rate {
				off = 1 / m.Unit.Steps()
			}
			require.InDelta(t, float64(m.Stat(&summary.Metrics).P95), whole[m.Name]["p95"], off)
			require.InDelta(t, float64(m.Stat(&summary.Metrics).Mean), whole[m.Name]["mean"], off)
		}
	}
	shown := e.Eval(`JSON.stringify(numbersOf(page, requests, range).map(({ metric, stat }) => [metric.name, stat.mean, stat.p99, stat.n]))`)
	require.JSONEq(t, shownOf(t, &summary), shown.(string))

	draw, length := rand.New(rand.NewPCG(3, 4)), e.Number("range.whole.to - range.whole.from")
	for k := range 20 {
		a, b := e.Number("range.whole.from")+draw.Float64()*length, e.Number("range.whole.from")+draw.Float64()*length
		e.Eval("range.set(a, b)", a, b)
		from, to := e.Number("range.from"), e.Number("range.to")
		want := recountOf(t, dir, from, to, to == e.Number("range.whole.to"))
		got := stats(t, e)
		for _, m := range measure.MetricList {
			if m.Of != nil {
				requireStat(t, measure.NewStat(want.samples[m.Name]), got[m.Name], m.Name, from, to)
			}
		}
		sums := e.Eval(`JSON.stringify((({ sent, measured, prompt_tokens, cached, output_tokens, errors }) => [sent, measured, prompt_tokens || 0, cached || 0, output_tokens || 0, errors])(requests.counts(...rowsWithin(range, requests.time))))`)
		text, err := json.Marshal([]any{want.sent, want.measured, want.prompt, want.cached, want.output, want.errors})
		require.NoError(t, err)
		require.JSONEq(t, string(text), sums.(string), "range %d: %v to %v", k, from, to)
		require.Greater(t, want.sent, 0)
	}
}

// shownOf returns the table that the page shows with nothing selected.
func shownOf(t *testing.T, s *measure.Summary) string {
	var rows [][]any
	for _, m := range measure.MetricList {
		if m.Of != nil {
			stat := m.Stat(&s.Metrics)
			rows = append(rows, []any{m.Name, stat.Mean, stat.P99, stat.N})
		}
	}
	text, err := json.Marshal(rows)
	require.NoError(t, err)
	return string(text)
}

// Over the whole run the windows of a chart add up to what the records have, whether the page has all requests or sums in their place.
func TestWindowsAddUp(t *testing.T) {
	for _, limit := range []int{1000, 100} {
		s, b := newSample(1000), NewBuilder(measure.Rules{})
		b.limit = limit
		failed := map[string]int{}
		var prompt int64
		for k := range s.records {
			r := &s.records[k]
			require.NoError(t, b.Add(r))
			if limit < 1000 && r.Phase != measure.ProfilingPhase {
				continue // sums are of the profiling phase
			}
			prompt += max(0, r.PromptTokens.N())
			if r.Error != nil {
				failed[string(r.Error.Category)]++
			}
		}
		_, html, err := b.fit(&About{Info: s.info()})
		require.NoError(t, err)
		e := pagetest.NewEngine(t, string(html))
		require.Equal(t, limit < 1000, e.Eval("Boolean(page.tables.bins)"))
		e.Eval(`var requests = new Requests(page), windows = cutWindows(requests.time[0], pageEnd(page.head)), tokens = readTokens(page, requests);
			var sum = (at, n) => windowSums(windows, at, n).reduce((all, x) => all + x, 0)`)
		require.EqualValues(t, prompt, e.Number("sum(tokens.at, tokens.missed) + sum(tokens.at, tokens.cached)"))
		require.Len(t, failed, 4)
		for category, n := range failed {
			require.EqualValues(t, n, e.Number("(({at, n}) => sum(at, n))(failuresAt(page, requests, a))", category), category)
		}
	}
}
