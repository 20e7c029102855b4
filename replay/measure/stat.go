package measure

import (
	"encoding/json"
	"math"
	"slices"
)

// Number is a figure that may be missing: NaN, which JSON has as null.
type Number float64

// Missing is a figure that there is none of.
var Missing = Number(math.NaN())

// IsMissing reports whether there is no figure.
func (n Number) IsMissing() bool { return math.IsNaN(float64(n)) || math.IsInf(float64(n), 0) }

// MarshalJSON writes the number, or null when it is missing.
func (n Number) MarshalJSON() ([]byte, error) {
	if n.IsMissing() {
		return []byte("null"), nil
	}
	return json.Marshal(float64(n))
}

// UnmarshalJSON reads a number or null.
func (n *Number) UnmarshalJSON(b []byte) error {
	*n = Missing
	var f *float64
	err := json.Unmarshal(b, &f)
	if err == nil && f != nil {
		*n = Number(*f)
	}
	return err
}

// Stat is the distribution of one quantity over the requests that have it. Without any, every figure is missing.
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

// NewStat computes the distribution exactly, over all samples, which it sorts.
func NewStat(samples []float64) Stat {
	n := len(samples)
	if n == 0 {
		return Stat{Missing, Missing, Missing, Missing, Missing, Missing, Missing, Missing, 0}
	}
	slices.Sort(samples)
	mean, std := meanAndStd(samples)
	at := func(q float64) Number { return Number(Percentile(samples, q)) }
	return Stat{Number(mean), at(50), at(75), at(90), at(95), at(99), Number(samples[n-1]), Number(std), n}
}

// Percentile is the q-th percentile of sorted samples, of which there must be one at least: position q/100*(n-1),
// linear between neighbours, as lower + fraction*(upper-lower) in that order, on which the last bit depends.
func Percentile(sorted []float64, q float64) float64 {
	position := q / 100 * float64(len(sorted)-1)
	i := int(position)
	if i >= len(sorted)-1 {
		return sorted[len(sorted)-1]
	}
	return sorted[i] + (position-float64(i))*(sorted[i+1]-sorted[i])
}

func meanAndStd(samples []float64) (mean, std float64) {
	for _, x := range samples {
		mean += x
	}
	mean /= float64(len(samples))
	for _, x := range samples {
		std += (x - mean) * (x - mean)
	}
	return mean, math.Sqrt(std / float64(len(samples)))
}
