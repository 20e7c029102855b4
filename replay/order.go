package replay

import (
	"slices"

	"github.com/agentx/agentx/internal/pyrand"
	"github.com/agentx/agentx/replay/resume"
)

// Order is the order in which traces are dealt to lanes. What is drawn depends on the seed alone.
type Order uint8

// The orders.
const (
	Sequential Order = iota // that of the cache, again and again
	Shuffle                 // a new permutation for every pass over the traces
	Random                  // drawn with replacement
)

// dealer deals the selected traces in their order, again and again unless each is to be dealt once.
type dealer struct {
	traces       []int // positions in the cache
	order        Order
	seed         string
	once         bool           // every trace is dealt once
	part         Part           // whose deals are dealt alone; the zero value: all
	ordered      bool           // the first pass has the order of traces, whatever order says
	dealt        int            // traces dealt
	permutations [2]permutation // of the last two passes that were asked for
}

type permutation struct {
	pass int
	list []int
}

// deal returns the next trace. ok is false if every trace was dealt once, and that is enough.
func (d *dealer) deal() (trace int, ok bool) {
	if d.once && d.dealt >= d.part.Share(len(d.traces)) {
		return 0, false
	}
	d.dealt++
	return d.at(d.dealt - 1), true
}

// next deals traces until one is usable; ok is false if none is. Twice as many deals as there are traces hold each of them in
// every order but Random, in which the draws may miss one.
func (d *dealer) next(usable func(trace int) bool) (trace int, ok bool) {
	for range 2 * len(d.traces) {
		if trace, ok = d.deal(); !ok {
			return 0, false
		}
		if usable(trace) {
			return trace, true
		}
	}
	if k := slices.IndexFunc(d.traces, usable); k >= 0 {
		return d.traces[k], true
	}
	return 0, false
}

// ended does nothing: any number of lanes may play a trace.
func (d *dealer) ended(int) {}

func (d *dealer) hold(int, int) {}

// queue returns the traces in the order of the first pass over them, those of the cache where draws repeat traces. If each is
// dealt once, it returns those that are left.
func (d *dealer) queue() (list []int) {
	if d.order == Random {
		return slices.Clone(d.traces)
	}
	first := 0
	if d.once {
		first = d.dealt
	}
	for k := first; k < len(d.traces); k++ {
		list = append(list, d.at(k))
	}
	return list
}

// upcoming returns the traces that are dealt next, at most n.
func (d *dealer) upcoming(n int) (list []int) {
	for k := d.dealt; k < d.dealt+n && !(d.once && k >= d.part.Share(len(d.traces))); k++ {
		list = append(list, d.at(k))
	}
	return list
}

// at returns the k-th trace that is dealt, counted from 0.
func (d *dealer) at(k int) int {
	k = d.part.whole(k)
	n := len(d.traces)
	switch {
	case d.order == Random:
		g := pyrand.NewPCG64(resume.LaneSeed(d.seed, "random", k))
		return d.traces[g.Bounded(uint32(n))]
	case d.order == Shuffle && !(d.ordered && k < n):
		return d.permutation(k / n)[k%n]
	}
	return d.traces[k%n]
}

// permutation returns the order of a pass.
func (d *dealer) permutation(pass int) []int {
	p := &d.permutations[pass%2]
	if p.list == nil || p.pass != pass {
		g := pyrand.NewPCG64(resume.LaneSeed(d.seed, "shuffle", pass))
		p.pass, p.list = pass, append(p.list[:0], d.traces...)
		for k := len(p.list) - 1; k > 0; k-- {
			j := g.Bounded(uint32(k + 1))
			p.list[k], p.list[j] = p.list[j], p.list[k]
		}
	}
	return p.list
}
