package page

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentx/agentx/cmd/internal/report/page/pagetest"
)

// Columns of every kind come out of the drawing code as they went in, bit by bit.
func TestColumnsComeOutAsTheyWentIn(t *testing.T) {
	e := pagetest.NewEngine(t, sampleHTML(t, &Page{}))
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 20).Draw(t, "rows")
		number := rapid.OneOf(rapid.Float64(), rapid.Just(math.NaN()), rapid.Just(math.Copysign(0, -1)), rapid.Just(math.Inf(1)),
			rapid.Map(rapid.Int64Range(-1<<50, 1<<50), func(ns int64) float64 { return float64(ns) / 1e9 }))
		floats := rapid.SliceOfN(number, n, n).Draw(t, "floats")
		ints := rapid.SliceOfN(rapid.OneOf(rapid.Int64Range(-maxWhole, maxWhole), rapid.Int64Range(-9, 9), rapid.Just(Missing)), n, n).Draw(t, "ints")
		texts := rapid.SliceOfN(rapid.SampledFrom([]string{"", "a", "b", "</script>", "\u2028", "ü", "𝄞"}), n, n).Draw(t, "texts")
		nanos := make([]float64, n)
		for i := range nanos {
			nanos[i] = float64(rapid.Int64Range(-1<<40, 1<<44).Draw(t, "ns")) / 1e9
		}
		e.Load(sampleHTML(t, &Page{Tables: []Table{{Name: "t", Columns: []Column{Floats("floats", "s", floats), Ints("ints", "", ints), Texts("texts", texts), Floats("nanos", "s", nanos)}}}}))
		require.EqualValues(t, n, e.Eval("page.tables.t.rows"))
		for i := range n {
			requireSame(t, floats[i], e.Eval("page.tables.t.columns.floats[a]", i))
			requireSame(t, nanos[i], e.Eval("page.tables.t.columns.nanos[a]", i))
			whole := math.NaN()
			if ints[i] != Missing {
				whole = float64(ints[i])
			}
			requireSame(t, whole, e.Eval("page.tables.t.columns.ints[a]", i))
			require.Equal(t, texts[i], e.Eval("page.tables.t.columns.texts.at(a)", i))
		}
	})
}

// requireSame compares numbers; NaN is like NaN, and 0 is not like -0.
func requireSame(t *rapid.T, want float64, got any) {
	f, ok := got.(float64)
	if n, whole := got.(int64); whole {
		f, ok = float64(n), true
	}
	require.True(t, ok, "%v of type %T", got, got)
	if math.IsNaN(want) {
		require.True(t, math.IsNaN(f))
		return
	}
	require.Equal(t, math.Float64bits(want), math.Float64bits(f), "want %v, got %v", want, f)
}

// Seconds that were nanoseconds take the bytes that their differences need, not eight.
func TestInstantsArePackedAsDifferences(t *testing.T) {
	instants := make([]float64, 1000)
	for i := range instants {
		instants[i] = float64(int64(i)*1_250_000+int64(i%7)*333) / 1e9
	}
	c := Floats("sent", "s", instants)
	assert.Equal(t, deltas, c.as)
	assert.Equal(t, 1e9, c.scale)
	assert.LessOrEqual(t, len(c.packed), 4*len(instants))
	assert.Equal(t, doubles, Floats("x", "", []float64{math.Pi, math.E}).as)
	assert.Equal(t, varints, Ints("x", "", []int64{1 << 40, 0, 1 << 40, 0}).as)
}

func TestPackedColumnsAreAsWritten(t *testing.T) {
	for want, c := range map[string]Column{
		`{"name":"n","unit":"tokens","as":"deltas","data":"BwAB"}`:             Ints("n", "tokens", []int64{3, Missing, 3}),
		`{"name":"w","as":"deltas","words":["b","a"],"data":"AQMB"}`:           Texts("w", []string{"b", "a", "a"}),
		`{"name":"s","unit":"s","as":"deltas","scale":1000,"data":"zQ/hCwA="}`: Floats("s", "s", []float64{0.998, 1.75, math.NaN()}),
	} {
		assert.Equal(t, want, string(c.appendJSON(nil)))
	}
}
