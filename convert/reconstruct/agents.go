package reconstruct

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/internal/heap"
	"github.com/agentx/agentx/trace"
)

// none is the position, chain or turn that does not exist.
const none = -1

// agents is a list of requests split by the agents that sent them.
type agents struct {
	preamble     int   // position, none where there is none
	main         []int // positions in the order of the conversation
	workers      []worker
	seams        int
	unclassified int
}

// worker is a side chain.
type worker struct {
	requests []int // positions in the order of the conversation
	fork     fork
	class    string // "aux", "reduction", "wg" or "fa"
	suffix   string // of its session's name
	place    groupPlace
}

// splitAgents finds the agents that sent the requests of a list. top says that it is the trace's own list, not a subagent's.
// If the rules do not split a list, its requests stay in document order at the top, and in order of time in a subagent.
func splitAgents(list []turn, top bool, r rules.Rules) agents {
	a := agents{preamble: none}
	if len(list) < 2 || !r.SplitAgents {
		a.main = byTime(list)
		if top {
			slices.Sort(a.main)
		}
		return a
	}
	a.preamble = preamble(list)
	rest := make([]turn, 0, len(list))
	at := make([]int, 0, len(list)) // position in list of each of rest
	for k, t := range list {
		if k != a.preamble {
			rest, at = append(rest, t), append(at, k)
		}
	}
	d := detect(rest, r)
	a.seams, a.unclassified = d.seams, d.unclassified
	a.collect(d, at)
	a.order(list, top, r.SplicedOrder)
	return a
}

// collect copies the main chain and the workers of a detection. at maps its requests to positions in the whole list.
func (a *agents) collect(d *detection, at []int) {
	main, workers := d.split()
	m := mainChain{model: d.first(main).Model}
	for _, k := range d.chains[main].requests {
		a.main = append(a.main, at[k])
		m.peak = max(m.peak, d.list[k].In)
	}
	places := d.groups(workers)
	for n, c := range workers {
		w := worker{fork: d.chains[c].fork, place: places[n]}
		for _, k := range d.chains[c].requests {
			w.requests = append(w.requests, at[k])
		}
		if w.fork.tail != none {
			w.fork.tail = at[w.fork.tail]
		}
		w.class, w.suffix = m.classify(pick(d.list, d.chains[c].requests), n, w.place, d.rules)
		a.workers = append(a.workers, w)
	}
}

// order sorts the requests of every agent into the order of their conversation, and adds the preamble to the main one.
// spliced leaves them in the order in which seams joined them. That differs from the order of time where a request without
// ids, or one of the same instant, comes after a seam.
func (a *agents) order(list []turn, top, spliced bool) {
	if a.preamble != none {
		a.main = append(a.main, a.preamble)
	}
	switch {
	case top && len(a.workers) == 0:
		slices.Sort(a.main)
	case !spliced || a.preamble != none:
		sortByTime(list, a.main)
	}
	for _, w := range a.workers {
		if !spliced {
			sortByTime(list, w.requests)
		}
	}
}

// preambleOutput is the longest completion, in tokens, that makes a lone first request a preamble whatever its ids.
const preambleOutput = 64

// byTime returns all positions of a list, sorted by start, document order among equal times.
func byTime(list []turn) []int {
	order := make([]int, len(list))
	for k := range order {
		order[k] = k
	}
	sortByTime(list, order)
	return order
}

// sortByTime sorts positions of a list by start, document order among equal times.
func sortByTime(list []turn, positions []int) {
	slices.SortFunc(positions, func(i, j int) int { return cmp.Or(cmp.Compare(list[i].t, list[j].t), i-j) })
}

// preamble returns the position of a lone request before the session itself, such as one that asks for a title, or none:
// doc/spec/reconstruction.md 5.2.
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
		if r.IDs.Len > 0 && trace.CommonPrefix(p.IDs, r.IDs) > 0 {
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
func overlap(a, b trace.IDs) bool {
	for _, x := range a.Runs {
		for _, y := range b.Runs {
			if x.First <= y.First+int64(y.N-1) && y.First <= x.First+int64(x.N-1) {
				return true
			}
		}
	}
	return false
}

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

// match compares the ids of a request with the last list of each chain.
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

// lifetime returns when chain c, which has a number among the workers, was active.
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
