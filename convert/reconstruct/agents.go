package reconstruct

import (
	"cmp"
	"slices"

	"github.com/agentx/agentx/convert/rules"
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
