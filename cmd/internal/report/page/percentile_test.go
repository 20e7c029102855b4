package page

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentx/agentx/cmd/internal/report/page/pagetest"
	"github.com/agentx/agentx/replay/measure"
)

// The table of a page has the digits of the summary: the same formula, and sums in the same order.
func TestPercentilesAreThoseOfTheSummary(t *testing.T) {
	e := pagetest.NewEngine(t, sampleHTML(t, &Page{}))
	rapid.Check(t, func(t *rapid.T) {
		seconds := rapid.Map(rapid.Int64Range(0, 1<<42), func(ns int64) float64 { return float64(ns) / 1e9 })
		values := rapid.SliceOfN(seconds, 0, 60).Draw(t, "values")
		e.Load(sampleHTML(t, &Page{Tables: []Table{{Name: "t", Columns: []Column{Floats("v", "s", values)}}}}))
		first := rapid.IntRange(0, len(values)).Draw(t, "first")
		last := rapid.IntRange(first, len(values)).Draw(t, "last")
		e.Eval("var stat = statOf(new Samples(page.tables.t.columns.v).within(a, b))", first, last)
		want := measure.NewStat(slices.Clone(values[first:last]))
		require.EqualValues(t, want.N, e.Number("stat.n"))
		for key, value := range map[string]measure.Number{"mean": want.Mean, "p50": want.P50, "p75": want.P75, "p90": want.P90, "p95": want.P95, "p99": want.P99, "max": want.Max} {
			requireSame(t, float64(value), e.Eval("stat[a]", key))
		}
	})
}

// Rows whose value is not known, and those that are not kept, are in no statistic.
func TestSamplesLeaveOut(t *testing.T) {
	e := pagetest.NewEngine(t, sampleHTML(t, &Page{Tables: []Table{{Name: "t", Columns: []Column{Floats("v", "s", []float64{3, math.NaN(), 1, 2, 9})}}}}))
	e.Eval("var samples = new Samples(page.tables.t.columns.v)")
	assert.Equal(t, "1,2,3,9", e.Eval("samples.within(0, 5).join()"))
	assert.Equal(t, "1,2", e.Eval("samples.within(1, 4).join()"))
	assert.Equal(t, "2,3", e.Eval("samples.within(0, 5, Uint8Array.of(1, 1, 0, 1, 0)).join()"))
	assert.Equal(t, "", e.Eval("samples.within(1, 2).join()"))
	assert.Equal(t, "0 NaN NaN", e.Eval("(({n, mean, p99}) => `${n} ${mean} ${p99}`)(statOf(samples.within(1, 2)))"))
}
