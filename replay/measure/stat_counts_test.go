package measure

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Counted samples have the distribution of the list of them, to the last bit.
func TestCountsHaveTheirStat(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.SampledFrom([]int64{1, 5, 1 << 20}).Draw(t, "most")
		counts, samples := Counts{7: 0}, []float64{}
		for _, v := range rapid.SliceOfN(rapid.Int64Range(-2, most), 1, 400).Draw(t, "samples") {
			counts[v]++
			samples = append(samples, float64(v))
		}
		require.Equal(t, NewStat(samples), counts.Stat())
	})
	require.Zero(t, Counts{}.Stat().N)
}
