// Package interval says how sure the numbers of a run are. Requests of one tree depend on each other, so it resamples trees, not
// requests: 1,000 times, 95 %, by the percentile method. The generator is numpy's, with a seed made of the records: the same records
// give the same intervals.
package interval

import (
	"cmp"
	"math"
	"slices"
	"strconv"

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

// Interval is where a figure lies with a probability of Level, such as in the resamples but for the lowest and the highest 2.5 %.
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

// Statistic is how the values of a sample become one figure: Mean, or a percentile from 0 to 100.
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

// Statistics are those of slo.Statistics.
func Statistics() (list []Statistic) {
	for _, name := range slo.Statistics {
		list = append(list, Named(name))
	}
	return list
}

// fewTreesError says that a sample has no interval.
type fewTreesError struct {
	trees int
	pairs bool // the trees are those that two runs have in common
}

func (e *fewTreesError) Error() string {
	of := ""
	if e.pairs {
		of = " in common"
	}
	return measure.Plural(e.trees, "tree", "trees") + of + ": an interval needs " + strconv.Itoa(MinTrees)
}

// places numbers the trees that have a value, in the order of their numbers.
func (s Sample) places() map[int32]int32 {
	places := map[int32]int32{}
	for k, v := range s.Values {
		if !math.IsNaN(v) {
			places[s.Trees[k]] = 0
		}
	}
	return number(places)
}

// number numbers trees in their order.
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

// cut is where the search for a percentile begins: resamples have it behind that value, but for one in a million. The values before
// are counted by tree and not walked over, which is most of the time that resampling would take.
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

// weigh returns how many weighted values stand before the cut.
func (c *cut) weigh(weights []uint32) (n int) {
	for t, w := range weights {
		n += int(w) * int(c.below[t])
	}
	return n
}
