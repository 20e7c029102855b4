package interval

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentx/agentx/replay/measure"
)

// plain computes the intervals of a sample with the values of every resample written out and sorted.
func plain(s Sample, stats []Statistic, seed Seed) []Interval {
	byTree := map[int32][]float64{}
	for k, v := range s.Values {
		if !math.IsNaN(v) {
			byTree[s.Trees[k]] = append(byTree[s.Trees[k]], v)
		}
	}
	var trees []int32
	for t := range byTree {
		trees = append(trees, t)
	}
	slices.Sort(trees)
	g := seed.generator()
	figures := make([][]float64, len(stats))
	for range resamples {
		var values []float64
		for range trees {
			values = append(values, byTree[trees[g.Bounded(uint32(len(trees)))]]...)
		}
		slices.Sort(values)
		for k, stat := range stats {
			figures[k] = append(figures[k], figure(values, stat))
		}
	}
	list := make([]Interval, len(stats))
	for k := range stats {
		slices.Sort(figures[k])
		list[k] = Interval{measure.Percentile(figures[k], 2.5), measure.Percentile(figures[k], 97.5)}
	}
	return list
}

func figure(values []float64, stat Statistic) float64 {
	if stat == Mean {
		mean, _ := measure.MeanAndStd(values)
		return mean
	}
	return measure.Percentile(values, float64(stat))
}

var tableStats = []Statistic{Mean, 0, 50, 75, 90, 95, 99}

func TestOfEqualsPlainResampling(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s Sample
		value := rapid.OneOf(rapid.Float64Range(0, 3), rapid.SampledFrom([]float64{0, 1, math.NaN()}))
		for tree := range rapid.IntRange(20, 30).Draw(t, "trees") {
			for range rapid.IntRange(1, 8).Draw(t, "requests") {
				s.Values, s.Trees = append(s.Values, value.Draw(t, "value")), append(s.Trees, int32(7*tree))
			}
			s.Values, s.Trees = append(s.Values, 2), append(s.Trees, int32(7*tree))
		}
		seed := Seed{rapid.Byte().Draw(t, "seed")}
		got, err := Of(s, tableStats, seed)
		require.NoError(t, err)
		for k, want := range plain(s, tableStats, seed) {
			require.InDelta(t, want.Low, got[k].Low, 1e-12, "%v", tableStats[k])
			require.InDelta(t, want.High, got[k].High, 1e-12, "%v", tableStats[k])
		}
	})
}

func TestOfFewTrees(t *testing.T) {
	var s Sample
	for k := range int32(19) {
		s.Values, s.Trees = append(s.Values, 1), append(s.Trees, k)
	}
	_, err := Of(s, tableStats, Seed{})
	require.EqualError(t, err, "19 trees: an interval needs 20")
	_, err = Of(Sample{Values: []float64{1}, Trees: []int32{0}}, tableStats, Seed{})
	require.EqualError(t, err, "1 tree: an interval needs 20")
	s.Values, s.Trees = append(s.Values, math.NaN()), append(s.Trees, 19)
	_, err = Of(s, tableStats, Seed{})
	require.Error(t, err, "a tree without a value")
	s.Values[19] = 3
	list, err := Of(s, []Statistic{50, Max}, Seed{})
	require.NoError(t, err)
	require.Equal(t, Interval{1, 1}, list[0])
	require.False(t, list[1].Known(), "a maximum has none")
}

// Wherever the search for a percentile begins, also behind it, it finds the same.
func TestPercentileFromAnyCut(t *testing.T) {
	s := lognormal{trees: 25, requests: 9, between: 1, within: 1}.draw(1)
	p, weights := s.prepare(s.places(), nil), make([]uint32, 25)
	g := Seed{}.generator()
	for range 50 {
		draw(g, weights)
		var values []float64
		for k, v := range p.values {
			for range weights[p.tree[k]] {
				values = append(values, v)
			}
		}
		for _, stat := range tableStats[1:] {
			for from := 0; from <= len(p.values); from += 15 {
				c := cut{stat: stat, from: from, below: make([]int32, 25)}
				for _, tree := range p.tree[:from] {
					c.below[tree]++
				}
				require.Equal(t, measure.Percentile(values, float64(stat)), p.percentile(&c, len(values), weights), "%v from %d", stat, from)
			}
		}
	}
}
