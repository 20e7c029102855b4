package weka

import (
	"cmp"
	"container/heap"
	"slices"
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
