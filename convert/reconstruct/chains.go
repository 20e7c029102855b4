package reconstruct

import (
	"cmp"

	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/internal/heap"
	"github.com/agentx/agentx/trace"
)

// A recording interleaves the requests of several agents in one list. Chain detection finds which requests are of one agent:
// a request whose list of ids extends that of an earlier one continues its chain; one that shares a prefix forks off, as a
// seam (the same agent, with a shorter context) or as a worker (another agent). doc/spec/reconstruction.md 5.3.

// chain is a sequence of requests of one agent, as positions in a list.
type chain struct {
	requests []int
	tail     int // last request with ids, none where there is none
	fork     fork
	into     int // the chain it was spliced into, none while it is live
}

// fork says where a chain left another.
type fork struct {
	parent int // chain, none where it shares no ids with any
	tail   int // tail of the parent at the time of the fork, none without a parent
	depth  int // ids shared with that tail
}

// detection finds the chains of one list.
type detection struct {
	list   []turn
	rules  rules.Rules
	order  []int // positions by time
	chains []chain
	owner  []int         // by request: its chain before splices
	under  map[int][]int // chains that forked at a tail
	tails  []int         // a heap      // tails to look at

	seams        int
	unclassified int // requests without ids
}

// detect finds the chains of a list without its preamble.
func detect(list []turn, r rules.Rules) *detection {
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

// add appends a request to a chain, to a new one where c is the number of chains.
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

// place adds the next request, in order of time, to a chain.
func (d *detection) place(k int) {
	r := d.list[k]
	if r.IDs.Len == 0 {
		d.unclassified++
		d.add(0, k)
		return
	}
	m := d.match(r)
	switch {
	case m.extends != none:
		d.add(m.extends, k)
	case m.parent == none && !m.anyTail:
		d.add(0, k)
	default:
		c := len(d.chains)
		d.add(c, k)
		if m.parent != none {
			tail := d.chains[m.parent].tail
			d.chains[c].fork = fork{m.parent, tail, m.depth}
			d.register(c, tail)
		}
	}
}

// match is what the chains so far have in common with a request.
type match struct {
	extends int // the chain with the longest list that the request extends, or none
	parent  int // the chain that shares most ids with it, the longest list among equals, or none
	depth   int // ids shared with the parent
	anyTail bool
}

func (d *detection) match(r turn) match {
	m := match{extends: none, parent: none}
	longest, parentLen := 0, 0
	for c := range d.chains {
		if d.chains[c].tail == none {
			continue
		}
		m.anyTail = true
		t := d.list[d.chains[c].tail]
		common := trace.CommonPrefix(t.IDs, r.IDs)
		if common == t.IDs.Len && t.Model == r.Model && t.end() <= r.t+eps && common > longest {
			m.extends, longest = c, common
		}
		if common > m.depth || common == m.depth && common > 0 && t.IDs.Len > parentLen {
			m.parent, m.depth, parentLen = c, common, t.IDs.Len
		}
	}
	return m
}

// register lists a chain under the tail at which it forked, and puts the tail among those to look at.
func (d *detection) register(c, tail int) {
	d.under[tail] = append(d.under[tail], c)
	heap.Push(&d.tails, tail, cmp.Less)
}

// live returns the live chain that a chain is part of.
func (d *detection) live(c int) int {
	for d.chains[c].into != none {
		c = d.chains[c].into
	}
	return c
}

// splice joins seams. At a tail that its owner never extended, the best of the chains that forked there continues the owner,
// and the others count as forks of the owner's new tail where they share ids with it.
func (d *detection) splice() {
	processed := map[int]bool{}
	for len(d.tails) > 0 {
		tail := heap.Pop(&d.tails, cmp.Less)
		if processed[tail] {
			continue
		}
		processed[tail] = true
		owner := d.live(d.owner[tail])
		if d.chains[owner].tail != tail {
			continue // the longer context was used again: all forks are other agents
		}
		forks, winner := d.bestSeam(tail)
		if winner == none {
			continue
		}
		d.join(owner, winner)
		next := d.chains[owner].tail
		for _, c := range forks {
			if c == winner {
				continue
			}
			if depth := trace.CommonPrefix(d.list[next].IDs, d.first(c).IDs); depth > 0 {
				d.chains[c].fork = fork{owner, next, depth}
				processed[next] = false
				d.register(c, next)
			}
		}
	}
}

// bestSeam returns the live chains that forked at a tail, and the one of them that is to be joined, none if none is a seam.
func (d *detection) bestSeam(tail int) (forks []int, winner int) {
	winner = none
	for _, c := range d.under[tail] {
		if d.chains[c].into != none {
			continue
		}
		forks = append(forks, c)
		if d.isSeam(c, tail) && (winner == none || d.better(c, winner)) {
			winner = c
		}
	}
	return forks, winner
}

// join appends a chain to its owner.
func (d *detection) join(owner, c int) {
	d.chains[owner].requests = append(d.chains[owner].requests, d.chains[c].requests...)
	d.chains[owner].tail = d.chains[c].tail
	d.chains[c].into = owner
	d.seams++
}

// first returns the first request of a chain.
func (d *detection) first(c int) turn { return d.list[d.chains[c].requests[0]] }

// isSeam reports whether a chain that forked at a tail can be the same agent.
func (d *detection) isSeam(c, tail int) bool {
	t, first, depth := d.list[tail], d.first(c), d.chains[c].fork.depth
	if depth <= 0 || t.end() > first.t+eps || first.Model != t.Model {
		return false
	}
	return !(first.t-t.end() > d.rules.SeamMaxGap && float64(depth)/float64(t.IDs.Len) < d.rules.SeamMinOverlap)
}

// better reports whether chain a is to be joined rather than b: more shared ids, then the earlier, then the lower number.
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
