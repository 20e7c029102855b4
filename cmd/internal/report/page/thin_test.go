package page

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentx/agentx/cmd/internal/report/page/pagetest"
)

// Bars of a line with steps cover, in each column of pixels, what its value is there at some instant.
func TestBarsCoverSteps(t *testing.T) {
	const width = 10
	e := pagetest.NewEngine(t, sampleHTML(t, &Page{}))
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.SliceOfN(rapid.Float64Range(-3, 9), 1, 40).Draw(t, "x")
		slices.Sort(x)
		y := rapid.SliceOfN(rapid.OneOf(rapid.Float64Range(1, 9), rapid.Just(math.NaN())), len(x), len(x)).Draw(t, "y")
		e.Load(sampleHTML(t, &Page{Tables: []Table{{Name: "t", Columns: []Column{Floats("x", "", x), Floats("y", "", y)}}}}))
		e.Eval("var {x, y} = page.tables.t.columns, bars = stepBars(x, y, 0, x.length, new Scale(0, 10, 0, 10), 10, Number.isFinite)")
		low, high, held := [width]float64{}, [width]float64{}, math.NaN()
		row := 0
		for column := range width {
			low[column], high[column] = math.Inf(1), math.Inf(-1)
			cover := func() {
				if !math.IsNaN(held) {
					low[column], high[column] = min(low[column], held), max(high[column], held)
				}
			}
			for ; row < len(x) && x[row] < float64(column); row++ {
				held = y[row]
			}
			cover()
			for ; row < len(x) && x[row] < float64(column+1); row++ {
				held = y[row]
				cover()
			}
			covered := fmt.Sprintf("bars.filter(({from, to}) => from <= %d && to > %d)", column, column)
			if math.IsInf(low[column], 1) {
				require.Zero(t, e.Number(covered+".length"), "column %d", column)
				continue
			}
			require.EqualValues(t, 1, e.Number(covered+".length"), "column %d", column)
			require.Equal(t, [2]float64{low[column], high[column]}, [2]float64{e.Number(covered + "[0].low"), e.Number(covered + "[0].high")}, "column %d", column)
		}
	})
}

// A dash has its gaps where it has them: after its first length, and again.
func TestGapsOfDashes(t *testing.T) {
	e := pagetest.NewEngine(t, sampleHTML(t, &Page{}))
	gaps := func(dash string) any {
		return e.Eval("Array.from({length: 20}, (_, at) => isGap(" + dash + ", at) ? '.' : '-').join('')")
	}
	assert.Equal(t, "--------------------", gaps("[]"))
	assert.Equal(t, "-------...-------...", gaps("[7, 3]"))
	assert.Equal(t, "---------...--...---", gaps("[9, 3, 2, 3]"))
}

// A line that crosses a range without a point in it is seen there; one with a gap there is not.
func TestLinesCrossARange(t *testing.T) {
	e := pagetest.NewEngine(t, sampleHTML(t, &Page{}))
	e.Eval(`var line = new Line({x: [1, 2, 3, 4], y: [10, 30, NaN, 5]}), span = (from, to) => String(line.spanY(from, to, false))`)
	assert.Equal(t, "10,30", e.Eval("span(1.2, 1.3)"))
	assert.Equal(t, "30,30", e.Eval("span(1.2, 2.3)"), "points in the range alone")
	for _, none := range []string{"span(2.2, 2.8)", "span(0, 0.5)", "span(4.5, 5)", "span(2.5, 3.5)"} {
		assert.Equal(t, "null", e.Eval(none), none)
	}
}
