package interval

import (
	"fmt"
	"math"
	"slices"

	"github.com/agentx/agentx/internal/pyrand"
	"github.com/agentx/agentx/replay/measure"
)

// Of returns the interval of each statistic of a sample. The error, if any, is a *fewTreesError.
func Of(s Sample, stats []Statistic, seed Seed) ([]Interval, error) {
	places := s.places()
	if len(places) < MinTrees {
		return nil, &fewTreesError{trees: len(places)}
	}
	p, g := s.prepare(places, stats), seed.generator()
	weights := make([]uint32, len(places))
	drawn := newDraws(stats)
	figures := make([]float64, len(stats))
	for range resamples {
		draw(g, weights)
		p.figures(weights, figures)
		drawn.add(figures)
	}
	return drawn.intervals(stats), nil
}

// draw draws as many trees as there are weights, with replacement: a weight is how often the tree was drawn.
func draw(g *pyrand.PCG64, weights []uint32) {
	clear(weights)
	for range weights {
		weights[g.Bounded(uint32(len(weights)))]++
	}
}

// figures computes the statistics of a sample in which each tree stands as often as its weight says.
func (p *sorted) figures(weights []uint32, to []float64) {
	n, sum := 0, 0.0
	for t, w := range weights {
		n += int(w) * p.count[t]
		sum += float64(w) * p.sum[t]
	}
	for k, c := range p.cuts {
		if c.stat == Mean {
			to[k] = sum / float64(n)
		} else {
			to[k] = p.percentile(&c, n, weights)
		}
	}
}

// percentile returns a percentile of n weighted values, as measure.Percentile of the same values written out.
func (p *sorted) percentile(c *cut, n int, weights []uint32) float64 {
	at, fraction := measure.Linear(int64(n), float64(c.stat))
	below := int(at)
	k, passed := c.from, c.weigh(weights) // values before k, weighted
	if passed > below {
		k, passed = 0, 0
	}
	for ; k < len(p.values); k++ {
		if passed += int(weights[p.tree[k]]); passed > below {
			break
		}
	}
	low, high := p.values[min(k, len(p.values)-1)], 0.0
	if below >= n-1 {
		return low
	}
	if high = low; passed == below+1 { // the next value has another weight
		for k++; weights[p.tree[k]] == 0; k++ {
		}
		high = p.values[k]
	}
	return low + fraction*(high-low)
}

// draws are the figures of all resamples.
type draws struct{ of [][]float64 }

func newDraws(stats []Statistic) draws { return draws{make([][]float64, len(stats))} }

func (d *draws) add(figures []float64) {
	for k, v := range figures {
		d.of[k] = append(d.of[k], v)
	}
}

// intervals returns where the figures lie.
func (d *draws) intervals(stats []Statistic) []Interval {
	list := make([]Interval, len(stats))
	for k, stat := range stats {
		list[k] = unknown
		if stat != Max {
			list[k] = middle(d.of[k])
		}
	}
	return list
}

// middle returns where the middle of figures lies; Unknown if one of them is not a number.
func middle(figures []float64) Interval {
	if slices.ContainsFunc(figures, func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) }) {
		return unknown
	}
	slices.Sort(figures)
	rest := 100 * (1 - level) / 2
	return Interval{measure.Percentile(figures, rest), measure.Percentile(figures, 100-rest)}
}

// Student returns the mean of a figure over runs, and its interval by Student's law. It needs two runs.
func Student(figures []float64) (mean float64, i Interval, err error) {
	n := len(figures)
	if n < 2 {
		return math.NaN(), unknown, fmt.Errorf("an interval over runs needs 2 runs, not %d", n)
	}
	for _, v := range figures {
		mean += (v - figures[0]) / float64(n) // so that the mean of equal figures is that figure
	}
	mean += figures[0]
	square := 0.0
	for _, v := range figures {
		square += (v - mean) * (v - mean)
	}
	half := quantile(n-1) * math.Sqrt(square/float64(n-1)/float64(n))
	return mean, Interval{mean - half, mean + half}, nil
}

// quantile returns the t that a variable of Student's law stays below, in size, with probability Level.
func quantile(freedom int) float64 {
	low, high := 0.0, 1.0
	for within(high, freedom) < level {
		high *= 2
	}
	for range 200 {
		t := (low + high) / 2
		if within(t, freedom) < level {
			low = t
		} else {
			high = t
		}
	}
	return high
}

// within returns the probability that a variable of Student's law lies between -t and t: the finite sums of Abramowitz and Stegun
// 26.7.3 and 26.7.4.
func within(t float64, freedom int) float64 {
	angle := math.Atan2(t, math.Sqrt(float64(freedom)))
	sin, cos := math.Sincos(angle)
	term, sum := 1.0, 0.0
	if freedom%2 == 0 {
		for k := 0; k <= freedom-2; k += 2 {
			sum += term
			term *= cos * cos * float64(k+1) / float64(k+2)
		}
		return sin * sum
	}
	term = cos
	for k := 1; k <= freedom-2; k += 2 {
		sum += term
		term *= cos * cos * float64(k+1) / float64(k+2)
	}
	return 2 / math.Pi * (angle + sin*sum)
}
