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

// Percentile returns the q-th percentile, 0 to 100, of at least one sorted sample: at position q/100*(n-1), linear between
// neighbours. It computes lower + fraction*(upper-lower) in that order, on which the last bit depends.
func Percentile(sorted []float64, q float64) float64 {
	position := q / 100 * float64(len(sorted)-1)
	i := int(position)
	if i >= len(sorted)-1 {
		return sorted[len(sorted)-1]
	}
	return sorted[i] + (position-float64(i))*(sorted[i+1]-sorted[i])
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
	sample := func(i int) float64 { return float64(values[sort.SearchInts(ends, i+1)]) }
	at := func(q float64) Number {
		position := q / 100 * float64(n-1)
		i := min(int(position), n-1)
		lower := sample(i)
		return Number(lower + (position-float64(i))*(sample(min(i+1, n-1))-lower))
	}
	return Stat{Number(mean), at(50), at(75), at(90), at(95), at(99), Number(sample(n - 1)), Number(math.Sqrt(squares / float64(n))), n}
}
