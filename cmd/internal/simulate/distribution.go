package simulate

import (
	"math"
	"slices"

	"github.com/agentx/agentx/cmd/internal/simulate/engine"
	"github.com/agentx/agentx/replay/measure"
)

// Distribution is that of durations, in seconds. Without a case every figure is missing.
type Distribution struct {
	Mean measure.Number `json:"mean"`
	Min  measure.Number `json:"min"`
	P50  measure.Number `json:"p50"`
	P75  measure.Number `json:"p75"`
	P90  measure.Number `json:"p90"`
	P95  measure.Number `json:"p95"`
	P99  measure.Number `json:"p99"`
	Max  measure.Number `json:"max"`
	Std  measure.Number `json:"std"` // of the population
	N    int64          `json:"n"`
}

// percentiles are those of a distribution.
var percentiles = [...]float64{50, 75, 90, 95, 99}

// distributionOf returns the exact distribution of nanoseconds, which it sorts: doc/spec/simulate.md 9.1.
func distributionOf[T int64 | float64](list []T) Distribution {
	if len(list) == 0 {
		return newDistribution(0, math.NaN(), math.NaN(), math.NaN(), math.NaN(), [5]float64{})
	}
	slices.Sort(list)
	sum := 0.0
	for _, v := range list {
		sum += float64(v)
	}
	mean := sum / float64(len(list))
	squares := 0.0
	for _, v := range list {
		squares += float64((float64(v) - mean) * (float64(v) - mean))
	}
	var at [5]float64
	for k, q := range percentiles {
		at[k] = float64(list[rank(len(list), q)])
	}
	return newDistribution(int64(len(list)), mean, float64(list[0]), float64(list[len(list)-1]), math.Sqrt(squares/float64(len(list))), at)
}

// distributionOfGaps returns the distribution of gaps: count, mean and deviation are exact, percentiles within a thousandth.
func distributionOfGaps(g *engine.Gaps) Distribution {
	if g.Count() == 0 {
		return distributionOf[int64](nil)
	}
	var at [5]float64
	for k, q := range percentiles {
		at[k] = g.Percentile(q)
	}
	return newDistribution(g.Count(), g.Mean(), float64(g.Min()), float64(g.Max()), g.Deviation(), at)
}

// rank returns the position of a percentile in n sorted values.
func rank(n int, q float64) int { return int(math.Floor(float64(n-1)*q/100 + 0.5)) }

// newDistribution takes nanoseconds.
func newDistribution(n int64, mean, least, most, std float64, at [5]float64) Distribution {
	seconds := func(ns float64) measure.Number {
		if n == 0 {
			return measure.Missing
		}
		return measure.Number(ns / 1e9)
	}
	return Distribution{
		Mean: seconds(mean), Min: seconds(least), Max: seconds(most), Std: seconds(std),
		P50: seconds(at[0]), P75: seconds(at[1]), P90: seconds(at[2]), P95: seconds(at[3]), P99: seconds(at[4]), N: n,
	}
}
