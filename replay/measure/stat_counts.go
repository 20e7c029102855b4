package measure

import (
	"math"
	"slices"
	"sort"
)

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
