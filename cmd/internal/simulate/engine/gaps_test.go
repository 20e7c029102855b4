package engine

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// Percentiles are within a thousandth, all else is exact, whatever the gaps.
//
// Covers S-31.
func TestGaps(t *testing.T) {
	draw := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		var list []int64
		var whole Gaps
		for range 1 + draw.IntN(400) {
			ns, n := int64(math.Exp(draw.Float64()*32)), 1+draw.Int64N(3)
			whole.Add(ns, n)
			for range n {
				list = append(list, ns)
			}
		}
		slices.Sort(list)
		mean, squares := 0.0, 0.0
		for _, v := range list {
			mean += float64(v) / float64(len(list))
		}
		for _, v := range list {
			squares += (float64(v) - mean) * (float64(v) - mean) / float64(len(list))
		}
		g := &whole
		require.Equal(t, []int64{int64(len(list)), list[0], list[len(list)-1]}, []int64{g.Count(), g.Min(), g.Max()})
		require.InEpsilon(t, mean+1, g.Mean()+1, 1e-12)
		require.InEpsilon(t, math.Sqrt(squares)+1, g.Deviation()+1, 1e-9)
		for _, q := range []float64{0, 1, 50, 75, 99, 100} {
			want := float64(list[int(math.Floor(float64(len(list)-1)*q/100+0.5))])
			require.InDelta(t, want, g.Percentile(q), want/1000, "%g", q)
		}
	}
	var none Gaps
	require.True(t, math.IsNaN(none.Mean()) && math.IsNaN(none.Percentile(50)) && math.IsNaN(none.Deviation()))
	g := &Gaps{}
	for _, ns := range []int64{1, 1, 98} {
		g.Add(ns, 1)
	}
	require.Equal(t, []float64{1, 98}, []float64{g.Percentile(50), g.Percentile(75)})
}
