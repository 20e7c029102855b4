package reconstruct

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/agentx/agentx/convert/rules"
)

// mainChain is what workers are compared with: the main chain without the preamble.
type mainChain struct {
	model int   // of its first request
	peak  int64 // longest prompt, tokens
}

// groupPlace is a worker group and a place in it, both from 0; none, none for a worker in no group.
type groupPlace struct{ group, member int }

// classify returns the class of a worker chain and the suffix of its session's name: doc/spec/reconstruction.md 5.4. number
// is its number among the workers.
func (m mainChain) classify(requests []turn, number int, place groupPlace, r rules.Rules) (class, suffix string) {
	first, n := requests[0], int64(len(requests))
	floor := max(r.AuxISLFloor, int64(r.AuxISLRatio*float64(m.peak)))
	switch {
	case n <= r.AuxMaxRequests && (r.AuxCrossModel && first.Model != m.model || first.In < floor):
		class = "aux"
	case n == 1 && first.Out > 0 && first.Out < r.AuxReductionOSLMax && first.In >= r.AuxISLFloor && float64(first.In) > r.AuxReductionRatio*float64(first.Out):
		class = "reduction"
	case place.group != none:
		return "wg", fmt.Sprintf("wg:%03d_%03d", place.group, place.member)
	default:
		return "fa", fmt.Sprintf("fa:%03d", number)
	}
	return class, fmt.Sprintf("aux:%03d", number)
}

// lifetime is when a worker chain was active, in seconds.
type lifetime struct {
	worker     int
	begin, end float64
	first      int // position of its first request
}

func compareLifetimes(a, b lifetime) int {
	return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.first, b.first))
}

// groups returns the group place of every worker: doc/spec/reconstruction.md 5.4. Workers that forked at the same tail of
// the same chain and overlap in time are a group, from Rules.WorkerGroupMin workers on.
func (d *detection) groups(workers []int) []groupPlace {
	places := make([]groupPlace, len(workers))
	for n := range places {
		places[n] = groupPlace{none, none}
	}
	if d.rules.WorkerGroupMin <= 0 {
		return places
	}
	var groups [][]lifetime
	for _, siblings := range d.siblings(workers) {
		for _, group := range overlapping(siblings) {
			if int64(len(group)) >= d.rules.WorkerGroupMin {
				groups = append(groups, group)
			}
		}
	}
	slices.SortFunc(groups, func(a, b []lifetime) int { return compareLifetimes(a[0], b[0]) })
	for g, members := range groups {
		for m, l := range members {
			places[l.worker] = groupPlace{g, m}
		}
	}
	return places
}

// siblings returns the lifetimes of the workers that forked at the same tail of the same chain, a list per tail.
func (d *detection) siblings(workers []int) [][]lifetime {
	type point struct{ parent, tail int }
	at := map[point]int{} // index of the list of a tail
	var lists [][]lifetime
	for n, c := range workers {
		f := d.chains[c].fork
		if f.depth <= 0 || f.tail == none {
			continue
		}
		p := point{f.parent, f.tail}
		if _, ok := at[p]; !ok {
			at[p] = len(lists)
			lists = append(lists, nil)
		}
		lists[at[p]] = append(lists[at[p]], d.lifetime(n, c))
	}
	return lists
}

func (d *detection) lifetime(worker, c int) lifetime {
	l := lifetime{worker: worker, begin: d.first(c).t, end: math.Inf(-1), first: d.chains[c].requests[0]}
	for _, k := range d.chains[c].requests {
		l.end = max(l.end, d.list[k].end())
	}
	return l
}

// overlapping cuts a list of lifetimes, which it sorts, wherever one begins after all before it have ended.
func overlapping(list []lifetime) (parts [][]lifetime) {
	slices.SortFunc(list, compareLifetimes)
	end := math.Inf(-1)
	for k, l := range list {
		if k == 0 || end <= l.begin {
			parts = append(parts, nil)
			end = math.Inf(-1)
		}
		last := &parts[len(parts)-1]
		*last = append(*last, l)
		end = max(end, l.end)
	}
	return parts
}
