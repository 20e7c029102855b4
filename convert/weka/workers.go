package weka

import (
	"fmt"
	"math"
	"sort"
)

// yardsticks are what workers are measured by: those of the main chain, without the preamble.
type yardsticks struct {
	model int   // of its first request
	peak  int64 // longest prompt, tokens
}

// classify returns the class of a worker chain and the suffix of its session's name: section 5.4. number is its place
// among the workers, group its worker group and place in it.
func (y yardsticks) classify(requests []turn, number int, group [2]int, r Rules) (class, suffix string) {
	first, n := requests[0], int64(len(requests))
	floor := max(r.AuxISLFloor, int64(r.AuxISLRatio*float64(y.peak)))
	switch {
	case n <= r.AuxMaxRequests && (r.AuxCrossModel && first.Model != y.model || first.In < floor):
		class = "aux"
	case n == 1 && first.Out > 0 && first.Out < r.AuxReductionOSLMax && first.In >= r.AuxISLFloor && float64(first.In) > r.AuxReductionRatio*float64(first.Out):
		class = "reduction"
	case group[0] != none:
		return "wg", fmt.Sprintf("wg:%03d_%03d", group[0], group[1])
	default:
		return "fa", fmt.Sprintf("fa:%03d", number)
	}
	return class, fmt.Sprintf("aux:%03d", number)
}

// groups returns the worker group and place of every worker: section 5.4. Workers that left the same chain at the same
// tail and overlap in time are a group from three on.
func (d *detection) groups(workers []int) [][2]int {
	type span struct {
		worker     int
		begin, end float64
		index      int // of the first request
	}
	type point struct{ parent, tail int }
	buckets := map[point][]span{}
	var points []point // in the order of first appearance
	place := make([][2]int, len(workers))
	for n, c := range workers {
		place[n] = [2]int{none, none}
		f := d.chains[c].fork
		if f.depth <= 0 || f.tail == none {
			continue
		}
		s := span{worker: n, begin: d.first(c).t, end: math.Inf(-1), index: d.chains[c].requests[0]}
		for _, k := range d.chains[c].requests {
			s.end = max(s.end, d.list[k].end(d.list[k].t))
		}
		p := point{f.parent, f.tail}
		if buckets[p] == nil {
			points = append(points, p)
		}
		buckets[p] = append(buckets[p], s)
	}
	if d.rules.WorkerGroupMin <= 0 {
		return place
	}
	earlier := func(a, b span) bool { return a.begin < b.begin || a.begin == b.begin && a.index < b.index }
	var components [][]span
	for _, p := range points {
		list := buckets[p]
		sort.Slice(list, func(i, j int) bool { return earlier(list[i], list[j]) })
		var open []span
		end := math.Inf(-1)
		for _, s := range list {
			if len(open) > 0 && end <= s.begin {
				components = append(components, open)
				open, end = nil, math.Inf(-1)
			}
			open = append(open, s)
			end = max(end, s.end)
		}
		components = append(components, open)
	}
	kept := components[:0]
	for _, c := range components {
		if int64(len(c)) >= d.rules.WorkerGroupMin {
			kept = append(kept, c)
		}
	}
	sort.Slice(kept, func(i, j int) bool { return earlier(kept[i][0], kept[j][0]) })
	for g, c := range kept {
		for m, s := range c {
			place[s.worker] = [2]int{g, m}
		}
	}
	return place
}
