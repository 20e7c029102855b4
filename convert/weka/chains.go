package weka

import (
	"cmp"
	"container/heap"
	"math"
	"slices"
	"sort"
)

// A recording interleaves agents in one list of requests. Chain detection takes them apart: a request whose list of ids
// extends that of an earlier one continues its chain; one that shares a prefix forks off, as a seam (the same agent, its
// context shortened) or as a worker (another agent). Sections 5.2 and 5.3 of the specification.

// preambleOutput is the longest completion, in tokens, that makes a lone first request a preamble whatever its ids.
const preambleOutput = 64

// none marks a position or chain that is not there.
const none = -1

// byTime returns the positions of a list in the order of their start, document order among equal times.
func byTime(list []turn) []int {
	order := make([]int, len(list))
	for k := range order {
		order[k] = k
	}
	sortByTime(list, order)
	return order
}

// sortByTime sorts positions of a list as byTime does.
func sortByTime(list []turn, positions []int) {
	slices.SortFunc(positions, func(i, j int) int { return cmp.Or(cmp.Compare(list[i].t, list[j].t), i-j) })
}

// preamble returns the position of a request that stands alone before the session proper, such as one that asks for a
// title; none if there is none.
func preamble(list []turn) int {
	if len(list) < 2 {
		return none
	}
	first := byTime(list)[0]
	p := list[first]
	if p.IDs.Len == 0 {
		return none
	}
	seen := false
	for k, r := range list {
		if k == first {
			continue
		}
		if r.IDs.Len > 0 && commonPrefix(p.IDs, r.IDs) > 0 {
			return none
		}
		seen = seen || overlap(p.IDs, r.IDs)
	}
	if p.Out <= preambleOutput || !seen {
		return first
	}
	return none
}

// overlap reports whether two lists have an id in common.
func overlap(a, b IDs) bool {
	for _, x := range a.Runs {
		for _, y := range b.Runs {
			if x.First <= y.First+int64(y.N-1) && y.First <= x.First+int64(x.N-1) {
				return true
			}
		}
	}
	return false
}

// chain is one agent's requests, as positions in a list.
type chain struct {
	requests []int
	tail     int // last request with ids, none if there is none
	fork     fork
	into     int // chain it was spliced into, none while it is live
}

// fork says where a chain left another.
type fork struct {
	parent int // chain, none if it shares nothing with any
	tail   int // tail of the parent when it forked, none without a parent
	depth  int // ids shared with that tail
}

// detection takes one list apart.
type detection struct {
	list   []turn
	rules  Rules
	order  []int
	chains []chain
	owner  []int         // chain of every request, before splices
	under  map[int][]int // chains registered under a tail
	tails  tailHeap

	seams        int
	unclassified int // requests without ids
}

// detect finds the chains of a list without its preamble.
func detect(list []turn, r Rules) *detection {
	d := &detection{list: list, rules: r, order: byTime(list), owner: make([]int, len(list)), under: map[int][]int{}}
	for _, k := range d.order {
		d.place(k)
	}
	d.splice()
	for k := range d.chains {
		if f := &d.chains[k].fork; f.parent != none {
			f.parent = d.live(f.parent)
		}
	}
	return d
}

// add appends a request to a chain, a new one where there is none of that number.
func (d *detection) add(c, k int) {
	if c == len(d.chains) {
		d.chains = append(d.chains, chain{tail: none, into: none, fork: fork{none, none, 0}})
	}
	d.chains[c].requests = append(d.chains[c].requests, k)
	d.owner[k] = c
	if d.list[k].IDs.Len > 0 {
		d.chains[c].tail = k
	}
}

// place puts the next request, in order of time, into a chain.
func (d *detection) place(k int) {
	r := d.list[k]
	if r.IDs.Len == 0 {
		d.unclassified++
		d.add(0, k)
		return
	}
	if len(d.chains) == 0 {
		d.add(0, k)
		return
	}
	extends, longest := none, 0
	parent, depth, parentLen := none, 0, 0
	tails := false
	for c := range d.chains {
		tail := d.chains[c].tail
		if tail == none {
			continue
		}
		tails = true
		t := d.list[tail]
		common := commonPrefix(t.IDs, r.IDs)
		if common == t.IDs.Len && t.Model == r.Model && t.end(t.t) <= r.t+eps && common > longest {
			extends, longest = c, common
		}
		if common > depth || common == depth && common > 0 && t.IDs.Len > parentLen {
			parent, depth, parentLen = c, common, t.IDs.Len
		}
	}
	switch {
	case extends != none:
		d.add(extends, k)
	case parent == none && !tails:
		d.add(0, k)
	default:
		c := len(d.chains)
		d.add(c, k)
		if parent != none {
			tail := d.chains[parent].tail
			d.chains[c].fork = fork{parent, tail, depth}
			d.register(c, tail)
		}
	}
}

func (d *detection) register(c, tail int) {
	d.under[tail] = append(d.under[tail], c)
	heap.Push(&d.tails, tail)
}

// live returns the chain that a chain has become part of.
func (d *detection) live(c int) int {
	for d.chains[c].into != none {
		c = d.chains[c].into
	}
	return c
}

// splice joins seams: of the chains that forked at a tail that its owner never extended, the best goes on in the
// owner's place, and the others are looked at again behind it.
func (d *detection) splice() {
	processed := map[int]bool{}
	for len(d.tails) > 0 {
		tail := heap.Pop(&d.tails).(int)
		if processed[tail] {
			continue
		}
		processed[tail] = true
		owner := d.live(d.owner[tail])
		if d.chains[owner].tail != tail {
			continue // the longer context was used again: all forks are other agents
		}
		var open []int
		winner := none
		for _, c := range d.under[tail] {
			if d.chains[c].into != none {
				continue
			}
			open = append(open, c)
			if d.isSeam(c, tail) && (winner == none || d.better(c, winner)) {
				winner = c
			}
		}
		if winner == none {
			continue
		}
		d.chains[owner].requests = append(d.chains[owner].requests, d.chains[winner].requests...)
		d.chains[owner].tail = d.chains[winner].tail
		d.chains[winner].into = owner
		d.seams++
		next := d.chains[owner].tail
		for _, c := range open {
			if c == winner {
				continue
			}
			if depth := commonPrefix(d.list[next].IDs, d.first(c).IDs); depth > 0 {
				d.chains[c].fork = fork{owner, next, depth}
				processed[next] = false
				d.register(c, next)
			}
		}
	}
}

func (d *detection) first(c int) turn { return d.list[d.chains[c].requests[0]] }

// isSeam reports whether a chain that forked at a tail can be the same agent going on.
func (d *detection) isSeam(c, tail int) bool {
	t, first, depth := d.list[tail], d.first(c), d.chains[c].fork.depth
	if depth <= 0 || t.end(t.t) > first.t+eps || first.Model != t.Model {
		return false
	}
	return !(first.t-t.end(t.t) > d.rules.SeamMaxGap && float64(depth)/float64(t.IDs.Len) < d.rules.SeamMinOverlap)
}

// better reports whether chain a is to be spliced rather than b: more in common, then earlier, then lower number.
func (d *detection) better(a, b int) bool {
	x, y := d.chains[a].fork.depth, d.chains[b].fork.depth
	if x != y {
		return x > y
	}
	if d.first(a).t != d.first(b).t {
		return d.first(a).t < d.first(b).t
	}
	return a < b
}

// split returns the main chain, which owns the earliest request, and the others in the order of their first request.
func (d *detection) split() (main int, workers []int) {
	main = d.live(d.owner[d.order[0]])
	done := map[int]bool{main: true}
	for _, k := range d.order {
		if c := d.live(d.owner[k]); !done[c] {
			done[c] = true
			workers = append(workers, c)
		}
	}
	return main, workers
}

// tailHeap is a min-heap of positions.
type tailHeap []int

func (h tailHeap) Len() int           { return len(h) }
func (h tailHeap) Less(i, j int) bool { return h[i] < h[j] }
func (h tailHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *tailHeap) Push(x any)        { *h = append(*h, x.(int)) }
func (h *tailHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

// agents is a list of requests taken apart.
type agents struct {
	preamble     int   // position, none if there is none
	main         []int // positions in the order of the conversation
	workers      []worker
	seams        int
	unclassified int
}

// worker is a side chain.
type worker struct {
	requests []int
	fork     fork
	class    string // "aux", "reduction", "wg" or "fa"
	suffix   string // of its session's name
	group    [2]int // worker group and place in it; none, none where it is in none
}

// takeApart finds the agents of a list: the trace's own where top is set, else that of a marker. What is not split keeps
// the order of the document at the top, and that of time inside a marker.
func takeApart(list []turn, top bool, r Rules) agents {
	a := agents{preamble: none}
	if len(list) < 2 || !r.SplitAgents {
		a.main = byTime(list)
		if top {
			sort.Ints(a.main)
		}
		return a
	}
	a.preamble = preamble(list)
	rest := make([]turn, 0, len(list))
	at := make([]int, 0, len(list)) // position of every one of rest
	for k, t := range list {
		if k != a.preamble {
			rest, at = append(rest, t), append(at, k)
		}
	}
	d := detect(rest, r)
	a.seams, a.unclassified = d.seams, d.unclassified
	main, workers := d.split()
	y := yardsticks{model: rest[d.chains[main].requests[0]].Model}
	for _, k := range d.chains[main].requests {
		a.main = append(a.main, at[k])
		y.peak = max(y.peak, rest[k].In)
	}
	groups := d.groups(workers)
	for n, c := range workers {
		w := worker{fork: d.chains[c].fork, group: groups[n]}
		members := make([]turn, 0, len(d.chains[c].requests))
		for _, k := range d.chains[c].requests {
			w.requests = append(w.requests, at[k])
			members = append(members, rest[k])
		}
		if w.fork.tail != none {
			w.fork.tail = at[w.fork.tail]
		}
		w.class, w.suffix = y.classify(members, n, w.group, r)
		a.workers = append(a.workers, w)
	}
	a.order(list, top, r.SplicedOrder)
	return a
}

// order puts the requests of every agent into the order of their conversation, and the preamble among those of the main
// one. spliced leaves them as the seams put them together, which differs from the order of time where a request without
// ids, or one of the same instant, comes after a seam.
func (a *agents) order(list []turn, top, spliced bool) {
	if a.preamble != none {
		a.main = append(a.main, a.preamble)
	}
	switch {
	case top && len(a.workers) == 0:
		sort.Ints(a.main)
	case !spliced || a.preamble != none:
		sortByTime(list, a.main)
	}
	for _, w := range a.workers {
		if !spliced {
			sortByTime(list, w.requests)
		}
	}
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
