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

func TestWindowsAreTheSmallestOfWhichThereAre400(t *testing.T) {
	e := pagetest.NewEngine(t, sampleHTML(t, &Page{}))
	for _, c := range []struct{ seconds, length float64 }{{1, 1}, {400, 1}, {400.1, 2}, {800, 2}, {801, 5}, {2000, 5}, {4000, 10}, {12000, 30}, {24000, 60}, {48000, 120}, {120000, 300}, {120001, 600}} {
		assert.Equal(t, c.length, e.Number("windowLength(a, mostWindows)", c.seconds), "%v s", c.seconds)
	}
	assert.Equal(t, "1 -3 5", e.Eval("(({length, first, count}) => `${length} ${first} ${count}`)(cutWindows(-2.5, 1.5))"))
	assert.Equal(t, "-2.25,-1.5,-0.5,0.5,1.25", e.Eval("windowCentres(cutWindows(-2.5, 1.5), {from: -2.5, to: 1.5}).join()"))
	assert.Equal(t, "5.125", e.Eval("windowCentres(cutWindows(5, 5.25), {from: 5, to: 5.25}).join()"), "a range within one window has its centre")
}

// Percentiles, sums and flows of windows are what a recount finds.
func TestWindowsAreARecount(t *testing.T) {
	e := pagetest.NewEngine(t, sampleHTML(t, &Page{}))
	rapid.Check(t, func(t *rapid.T) {
		times := rapid.SliceOfN(rapid.Float64Range(-5, 30), 1, 40).Draw(t, "times")
		slices.Sort(times)
		values := make([]float64, len(times))
		ends := make([]float64, len(times))
		total := 0.0
		for i := range values {
			values[i] = rapid.SampledFrom([]float64{1, 2, 3, 5, 8, math.NaN()}).Draw(t, "value")
			ends[i] = times[i] + rapid.SampledFrom([]float64{0, 0.25, 3, 7}).Draw(t, "length")
			if !math.IsNaN(values[i]) {
				total += values[i]
			}
		}
		e.Load(sampleHTML(t, &Page{Tables: []Table{{Name: "t", Columns: []Column{Floats("time", "s", times), Floats("end", "s", ends), Floats("value", "", values)}}}}))
		e.Eval(`var {time, end, value} = page.tables.t.columns, w = cutWindows(-6, 40);
			var p95 = windowPercentiles(w, time, value, [50, 95])[1], ranked = new Samples(value).inWindows(w, time, [50, 95])[1], sums = windowSums(w, time, value), flow = windowFlow(w, time, end, value)`)
		flowed := 0.0
		for i := range int(e.Number("w.count")) {
			begin := float64(-6 + i)
			var samples []float64
			sum := 0.0
			for row, at := range times {
				if at >= begin && at < begin+1 && !math.IsNaN(values[row]) {
					samples = append(samples, values[row])
					sum += values[row]
				}
			}
			requireSame(t, float64(measure.NewStat(samples).P95), e.Eval("p95[a]", i))
			requireSame(t, float64(measure.NewStat(samples).P95), e.Eval("ranked[a]", i))
			require.Equal(t, sum, e.Number("sums[a]", i))
			flowed += e.Number("flow[a]", i)
		}
		require.InDelta(t, total, flowed, 1e-9)
	})
}

// A row belongs to a range when its start does, and to exactly one of two ranges that touch.
func TestRowsBelongToTheRangeInWhichTheyStart(t *testing.T) {
	e := pagetest.NewEngine(t, sampleHTML(t, &Page{}))
	rapid.Check(t, func(t *rapid.T) {
		starts := rapid.SliceOfN(rapid.Map(rapid.IntRange(0, 100), func(n int) float64 { return float64(n) / 10 }), 1, 30).Draw(t, "starts")
		slices.Sort(starts)
		from := float64(rapid.IntRange(0, 50).Draw(t, "from")) / 10
		to := float64(rapid.IntRange(51, 100).Draw(t, "to")) / 10
		e.Eval("var r = new TimeRange(0, 10), starts = Float64Array.from(a); r.set(b, c)", starts, from, to)
		var want []int
		for i, at := range starts {
			if at >= from && (at < to || to == 10) {
				want = append(want, i)
			}
			require.Equal(t, at >= from && (at < to || to == 10), e.Eval("r.has(a)", at))
		}
		require.EqualValues(t, len(want), e.Number("rowsWithin(r, starts)[1] - rowsWithin(r, starts)[0]"))
		if len(want) > 0 {
			require.EqualValues(t, want[0], e.Number("rowsWithin(r, starts)[0]"))
		}
	})
}

// Of every column of pixels the lowest, the highest, the first and the last point of a line are drawn, in order.
func TestThinLinesCoverTheSamePixels(t *testing.T) {
	e := pagetest.NewEngine(t, sampleHTML(t, &Page{}))
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.SliceOfN(rapid.Float64Range(0, 10), 1, 100).Draw(t, "x")
		slices.Sort(x)
		y := rapid.SliceOfN(rapid.OneOf(rapid.Float64Range(0, 9), rapid.Just(math.NaN())), len(x), len(x)).Draw(t, "y")
		e.Load(sampleHTML(t, &Page{Tables: []Table{{Name: "t", Columns: []Column{Floats("x", "", x), Floats("y", "", y)}}}}))
		e.Eval("var {x, y} = page.tables.t.columns, kept = thinLine(x, y, 0, x.length, new Scale(0, 10, 0, 10))")
		kept := map[int]bool{}
		last := -1
		for i := range int(e.Number("kept.length")) {
			row := int(e.Number("kept[a]", i))
			require.Greater(t, row, last)
			last = row
			kept[row] = true
		}
		for column := range 11 {
			low, high := math.Inf(1), math.Inf(-1)
			keptLow, keptHigh := low, high
			for i := range x {
				if int(x[i]) != column || math.IsNaN(y[i]) {
					continue
				}
				low, high = min(low, y[i]), max(high, y[i])
				if kept[i] {
					keptLow, keptHigh = min(keptLow, y[i]), max(keptHigh, y[i])
				}
			}
			require.Equal(t, [2]float64{low, high}, [2]float64{keptLow, keptHigh})
		}
		require.True(t, kept[0] && kept[len(x)-1])
	})
}

// Percentiles from values that are sorted already are those of windows that are sorted one by one, also of a part of the rows.
func TestSamplesInWindows(t *testing.T) {
	e := pagetest.NewEngine(t, sampleHTML(t, &Page{}))
	rapid.Check(t, func(t *rapid.T) {
		times := rapid.SliceOfN(rapid.Float64Range(-5, 30), 1, 60).Draw(t, "times")
		slices.Sort(times)
		values := rapid.SliceOfN(rapid.OneOf(rapid.Float64Range(0, 9), rapid.Just(math.NaN())), len(times), len(times)).Draw(t, "values")
		from := rapid.Float64Range(-6, 29).Draw(t, "from")
		e.Load(sampleHTML(t, &Page{Tables: []Table{{Name: "t", Columns: []Column{Floats("time", "s", times), Floats("value", "", values)}}}}))
		e.Eval("var {time, value} = page.tables.t.columns, w = cutWindows(a, b), asked = [0, 50, 95, 100]", from, rapid.Float64Range(from, 31).Draw(t, "to"))
		want := e.Eval("windowPercentiles(w, time, value, asked).map((line) => line.join()).join(' ')")
		require.Equal(t, want, e.Eval("new Samples(value).inWindows(w, time, asked).map((line) => line.join()).join(' ')"))
	})
}

func TestOpenIntervalsAreCounted(t *testing.T) {
	e := pagetest.NewEngine(t, sampleHTML(t, &Page{}))
	assert.Equal(t, "0:1 1:2 2:1 3:2 5:0", e.Eval("(({x, y}) => x.map((at, i) => `${at}:${y[i]}`).join(' '))(countOpen([0, 1, 2, 3], [2, 2, 5, 5]))"))
	assert.Equal(t, "0:1 1:2 4:1", e.Eval("(({x, y}) => x.map((at, i) => `${at}:${y[i]}`).join(' '))(countOpen([1, 0], [4, NaN]))"))
}
