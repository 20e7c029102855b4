package weka

import "sort"

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

// splitAgents finds the agents of a list: the trace's own where top is set, else that of a marker. What is not split keeps
// the order of the document at the top, and that of time inside a marker.
func splitAgents(list []turn, top bool, r Rules) agents {
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
