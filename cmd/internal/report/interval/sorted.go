package interval

import (
	"cmp"
	"math"
	"slices"
)

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
