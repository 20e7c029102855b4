package engine

import (
	"iter"
	"math"
	"math/big"
	"math/bits"
)

// Gaps are the gaps between tokens of all requests, pooled. Count, sum and deviation are exact; a percentile is the middle
// of a bucket that is narrower than a thousandth of its values.
type Gaps struct {
	Exact map[int64]int64 // for tests: if not nil, how often each gap occurred

	n, sum      int64
	squareHigh  uint64
	squareLow   uint64
	least, most int64
	counts      []int64
}

const mantissaBits = 10

// bucketOf returns the bucket of a gap: its exponent and the bits after its first.
func bucketOf(ns int64) int {
	if ns < 1<<mantissaBits {
		return int(ns)
	}
	shift := bits.Len64(uint64(ns)) - mantissaBits - 1
	return shift<<mantissaBits + int(ns>>shift)
}

// middleOf returns the gap that stands for a bucket.
func middleOf(bucket int) float64 {
	if bucket < 1<<(mantissaBits+1) {
		return float64(bucket)
	}
	shift := bucket>>mantissaBits - 1
	low := int64(bucket-shift<<mantissaBits) << shift
	return float64(low) + float64(int64(1)<<shift-1)/2
}

// Add counts a gap of ns nanoseconds, at least 0, n times.
func (g *Gaps) Add(ns, n int64) {
	bucket := bucketOf(ns)
	if bucket >= len(g.counts) {
		g.grow(bucket)
	}
	g.counts[bucket] += n
	if g.n == 0 || ns < g.least {
		g.least = ns
	}
	g.most = max(g.most, ns)
	g.n += n
	g.sum += ns * n
	high, low := bits.Mul64(uint64(ns), uint64(ns))
	over, low := bits.Mul64(low, uint64(n))
	var carry uint64
	g.squareLow, carry = bits.Add64(g.squareLow, low, 0)
	g.squareHigh, _ = bits.Add64(g.squareHigh, high*uint64(n)+over, carry)
	if g.Exact != nil {
		g.Exact[ns] += n
	}
}

// grow makes room for the counts up to a bucket.
func (g *Gaps) grow(bucket int) {
	counts := make([]int64, (bucket>>mantissaBits+1)<<mantissaBits)
	copy(counts, g.counts)
	g.counts = counts
}

// All returns the gaps in rising order, within a thousandth, and how often each occurred.
func (g *Gaps) All() iter.Seq2[float64, int64] {
	return func(yield func(float64, int64) bool) {
		for bucket, n := range g.counts {
			if n > 0 && !yield(min(max(middleOf(bucket), float64(g.least)), float64(g.most)), n) {
				return
			}
		}
	}
}

// Count returns the number of gaps.
func (g *Gaps) Count() int64 { return g.n }

// Min and Max return the least and the greatest gap.
func (g *Gaps) Min() int64 { return g.least }

// Max returns the greatest gap.
func (g *Gaps) Max() int64 { return g.most }

// Mean returns the mean gap in nanoseconds; NaN without a gap.
func (g *Gaps) Mean() float64 { return float64(g.sum) / float64(g.n) }

// Deviation returns the standard deviation of the population in nanoseconds; NaN without a gap.
func (g *Gaps) Deviation() float64 {
	if g.n == 0 {
		return math.NaN()
	}
	squares := new(big.Int).SetUint64(g.squareHigh)
	squares.Lsh(squares, 64).Add(squares, new(big.Int).SetUint64(g.squareLow))
	n, sum := big.NewInt(g.n), big.NewInt(g.sum)
	spread := new(big.Int).Mul(n, squares)
	spread.Sub(spread, sum.Mul(sum, sum))
	f, _ := new(big.Float).SetInt(spread).Float64()
	return math.Sqrt(f) / float64(g.n)
}

// Percentile returns the gap at rank floor((n-1)q/100 + 0.5), within a thousandth; NaN without a gap.
func (g *Gaps) Percentile(q float64) float64 {
	if g.n == 0 {
		return math.NaN()
	}
	rank := int64(math.Floor(float64(g.n-1)*q/100 + 0.5))
	for bucket, n := range g.counts {
		if rank -= n; rank < 0 {
			return min(max(middleOf(bucket), float64(g.least)), float64(g.most))
		}
	}
	return float64(g.most)
}
