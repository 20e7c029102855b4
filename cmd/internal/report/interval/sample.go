// Package interval computes confidence intervals of the figures of a run. Requests of one tree depend on each other, so it resamples trees, not
// requests: 1,000 times, 95 %, by the percentile method. The generator is numpy's, with a seed made of the records: the same records give the
// same intervals.
package interval

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/agentx/agentx/internal/pyrand"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/slo"
)

const (
	// resamples is how often trees are drawn.
	resamples = 1000
	// MinTrees is the least number of trees that has an interval.
	MinTrees = 20
	// level is the share of resamples that an interval holds.
	level = 0.95
)

// Sample is a value of many requests, and the tree of each. A NaN is a request without a value.
type Sample struct {
	Values []float64
	Trees  []int32 // as long as Values
}

// TreeCount returns how many trees have a value.
func (s Sample) TreeCount() int {
	trees := map[int32]bool{}
	for k, v := range s.Values {
		if !math.IsNaN(v) {
			trees[s.Trees[k]] = true
		}
	}
	return len(trees)
}

// Interval is where a figure lies with a probability of 95 %.
type Interval struct {
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// unknown is the interval of a figure that has none.
var unknown = Interval{math.NaN(), math.NaN()}

// Known reports whether there is an interval.
func (i Interval) Known() bool { return !math.IsNaN(i.Low) && !math.IsNaN(i.High) }

// Has reports whether a number lies in the interval.
func (i Interval) Has(v float64) bool { return i.Low <= v && v <= i.High }

// Statistic says how the values of a sample become one figure: Mean, or a percentile from 0 to 100.
type Statistic float64

// Mean is the mean of the values. Max is their largest, which has no interval: no resample exceeds it.
const (
	Mean Statistic = -1
	Max  Statistic = 100
)

// Named returns the statistic that slo.Figure names p95 or max; of another name the mean.
func Named(name string) Statistic {
	if q, ok := slo.Quantile(name); ok {
		return Statistic(q)
	}
	return Mean
}

// Statistics returns the statistics of slo.Statistics.
func Statistics() (list []Statistic) {
	for _, name := range slo.Statistics {
		list = append(list, Named(name))
	}
	return list
}

// fewTreesError says that a sample has too few trees for an interval.
type fewTreesError struct {
	trees int
	pairs bool // they are the trees that two runs have in common
}

func (e *fewTreesError) Error() string {
	of := ""
	if e.pairs {
		of = " in common"
	}
	return measure.Plural(e.trees, "tree", "trees") + of + ": an interval needs " + strconv.Itoa(MinTrees)
}

// places returns the place, from 0, of each tree that has a value, in the order of the trees' numbers.
func (s Sample) places() map[int32]int32 {
	places := map[int32]int32{}
	for k, v := range s.Values {
		if !math.IsNaN(v) {
			places[s.Trees[k]] = 0
		}
	}
	return number(places)
}

// number sets the place of each tree, from 0, in the order of the trees' numbers.
func number(trees map[int32]int32) map[int32]int32 {
	list := make([]int32, 0, len(trees))
	for t := range trees {
		list = append(list, t)
	}
	slices.Sort(list)
	for k, t := range list {
		trees[t] = int32(k)
	}
	return trees
}

// sorted is a sample prepared to be resampled: its values in order, each with the place of its tree.
type sorted struct {
	values []float64
	tree   []int32   // of each value, a place in count and sum
	count  []int     // values of each tree
	sum    []float64 // of each tree
	cuts   []cut     // of each statistic
}

// prepare sorts a sample for statistics. places has the place of each tree in count and sum.
func (s Sample) prepare(places map[int32]int32, stats []Statistic) *sorted {
	order := make([]int32, 0, len(s.Values))
	for k, v := range s.Values {
		if _, ok := places[s.Trees[k]]; ok && !math.IsNaN(v) {
			order = append(order, int32(k))
		}
	}
	slices.SortFunc(order, func(a, b int32) int { return cmp.Compare(s.Values[a], s.Values[b]) })
	p := &sorted{make([]float64, len(order)), make([]int32, len(order)), make([]int, len(places)), make([]float64, len(places)), nil}
	for k, at := range order {
		place := places[s.Trees[at]]
		p.values[k], p.tree[k] = s.Values[at], place
		p.count[place]++
		p.sum[place] += s.Values[at]
	}
	for _, stat := range stats {
		p.cuts = append(p.cuts, p.cut(stat))
	}
	return p
}

// cut is the value at which the search for a percentile begins: only one resample in a million has the percentile before it. Values before the
// cut are counted by tree instead of walked over, which saves most of the time of resampling.
type cut struct {
	stat  Statistic
	from  int     // the first value that is walked over
	below []int32 // by tree: its values before
}

// cut chooses where the search begins: five standard deviations below the percentile. The deviation is that of the share of values
// below it, which trees have in different parts.
func (p *sorted) cut(stat Statistic) cut {
	c := cut{stat: stat, below: make([]int32, len(p.count))}
	if stat == Mean {
		return c
	}
	share := float64(stat) / 100
	at := int(share * float64(len(p.values)))
	for _, tree := range p.tree[:at] {
		c.below[tree]++
	}
	variance := 0.0
	for tree, n := range c.below {
		d := float64(n) - share*float64(p.count[tree])
		variance += d * d
	}
	c.from = max(0, at-int(5*math.Sqrt(variance))-1)
	for _, tree := range p.tree[c.from:at] {
		c.below[tree]--
	}
	return c
}

// weigh returns how many values are before the cut in a resample.
func (c *cut) weigh(weights []uint32) (n int) {
	for t, w := range weights {
		n += int(w) * int(c.below[t])
	}
	return n
}

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

// draw draws as many trees as there are, with replacement: weights gets how often each was drawn.
func draw(g *pyrand.PCG64, weights []uint32) {
	clear(weights)
	for range weights {
		weights[g.Bounded(uint32(len(weights)))]++
	}
}

// figures computes the statistics of a sample in which each tree occurs as often as its weight says, into to.
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

// percentile returns a percentile of n values, in which each tree occurs as often as its weight says. It equals measure.Percentile of these.
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

// newDraws returns no draws, for some statistics.
func newDraws(stats []Statistic) draws { return draws{make([][]float64, len(stats))} }

// add adds the figures of one resample.
func (d *draws) add(figures []float64) {
	for k, v := range figures {
		d.of[k] = append(d.of[k], v)
	}
}

// intervals returns the interval of each statistic over all resamples.
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

// middle returns the interval that has the middle 95 % of figures; unknown if one of them is no finite number.
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

// quantile returns the t for which a variable of Student's law lies between -t and t with probability level.
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
