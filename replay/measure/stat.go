package measure

import (
	"encoding/json"
	"math"
	"slices"
	"sort"
)

// Number is a figure that may be missing. A missing one is NaN, and null in JSON.
type Number float64

// Missing is the figure that is not known.
var Missing = Number(math.NaN())

// IsMissing reports whether the figure is not known: NaN or infinite.
func (n Number) IsMissing() bool { return math.IsNaN(float64(n)) || math.IsInf(float64(n), 0) }

// MarshalJSON returns the number, or null when it is missing.
func (n Number) MarshalJSON() ([]byte, error) {
	if n.IsMissing() {
		return []byte("null"), nil
	}
	return json.Marshal(float64(n))
}

// UnmarshalJSON reads a number, or null as Missing.
func (n *Number) UnmarshalJSON(b []byte) error {
	*n = Missing
	var f *float64
	err := json.Unmarshal(b, &f)
	if err == nil && f != nil {
		*n = Number(*f)
	}
	return err
}

// Stat is the distribution of one quantity over the requests that have it. Without such requests every figure is Missing.
type Stat struct {
	Mean Number `json:"mean"`
	P50  Number `json:"p50"`
	P75  Number `json:"p75"`
	P90  Number `json:"p90"`
	P95  Number `json:"p95"`
	P99  Number `json:"p99"`
	Max  Number `json:"max"`
	Std  Number `json:"std"` // of the population
	N    int    `json:"n"`   // samples
}

// NewStat computes the exact distribution of samples, which it sorts in place.
func NewStat(samples []float64) Stat {
	n := len(samples)
	if n == 0 {
		return Stat{Missing, Missing, Missing, Missing, Missing, Missing, Missing, Missing, 0}
	}
	slices.Sort(samples)
	mean, std := MeanAndStd(samples)
	at := func(q float64) Number { return Number(Percentile(samples, q)) }
	return Stat{Number(mean), at(50), at(75), at(90), at(95), at(99), Number(samples[n-1]), Number(std), n}
}

// Method says where the q-th percentile, 0 to 100, of n sorted samples lies: at a sample, counted from 0, or by a fraction between it and the
// next one.
type Method func(n int64, q float64) (at int64, fraction float64)

// Linear is at position q/100*(n-1), between neighbours where that is no whole number.
func Linear(n int64, q float64) (int64, float64) {
	whole, fraction := math.Modf(q / 100 * float64(n-1))
	return int64(whole), fraction
}

// Nearest is the sample nearest to the position of Linear; halves go to the even one.
func Nearest(n int64, q float64) (int64, float64) {
	return int64(math.RoundToEven(q / 100 * float64(n-1))), 0
}

// NearestRank is the smallest sample that q percent of the samples do not exceed.
func NearestRank(n int64, q float64) (int64, float64) {
	return max(1, int64(math.Ceil(q/100*float64(n)-1e-6))) - 1, 0
}

// Of returns a percentile of n samples that a function returns by their places. It computes lower + fraction*(upper-lower) in that order, on
// which the last bit depends.
func (m Method) Of(n int64, q float64, sample func(int64) float64) float64 {
	at, fraction := m(n, q)
	lower := sample(at)
	if fraction == 0 {
		return lower
	}
	return lower + fraction*(sample(at+1)-lower)
}

// Percentile returns the linear percentile of at least one sorted sample.
func Percentile(sorted []float64, q float64) float64 {
	return Method(Linear).Of(int64(len(sorted)), q, func(k int64) float64 { return sorted[k] })
}

// MeanAndStd returns the mean and the standard deviation of the population of at least one sample.
func MeanAndStd(samples []float64) (mean, std float64) {
	for _, x := range samples {
		mean += x
	}
	mean /= float64(len(samples))
	for _, x := range samples {
		std += (x - mean) * (x - mean)
	}
	return mean, math.Sqrt(std / float64(len(samples)))
}

// Counts is a distribution of numbers, as how often each occurs. Of many samples with few different values it takes less memory than a list.
type Counts map[int64]int

// Stat is NewStat of the samples, to the last bit.
func (c Counts) Stat() Stat {
	values := make([]int64, 0, len(c))
	for v, n := range c {
		if n > 0 {
			values = append(values, v)
		}
	}
	if len(values) == 0 {
		return NewStat(nil)
	}
	slices.Sort(values)
	ends := make([]int, len(values)) // how many samples are at most as large
	n, sum := 0, 0.0
	for k, v := range values {
		for range c[v] { // as NewStat adds, sample by sample
			sum += float64(v)
		}
		n += c[v]
		ends[k] = n
	}
	mean, squares := sum/float64(n), 0.0
	for _, v := range values {
		for range c[v] {
			squares += (float64(v) - mean) * (float64(v) - mean)
		}
	}
	sample := func(k int64) float64 { return float64(values[sort.SearchInts(ends, int(k)+1)]) }
	at := func(q float64) Number { return Number(Method(Linear).Of(int64(n), q, sample)) }
	return Stat{Number(mean), at(50), at(75), at(90), at(95), at(99), at(100), Number(math.Sqrt(squares / float64(n))), n}
}
