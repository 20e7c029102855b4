package replay

import (
	"github.com/agentx/agentx/internal/pyrand"
	"github.com/agentx/agentx/replay/resume"
)

// Order is the order in which traces are dealt.
type Order uint8

// The orders: that of the cache; a new one for every pass; with replacement. What is drawn depends on the seed alone.
const (
	Sequential Order = iota
	Shuffle
	Random
)

// order says which trace is dealt at each turn.
type order struct {
	traces []int
	how    Order
	seed   string
	passes [2]permutation // the last two that were looked at
}

type permutation struct {
	pass int
	list []int
}

// at returns the trace of a turn, counted from 0.
func (o *order) at(turn int) int {
	n := len(o.traces)
	switch o.how {
	case Random:
		g := pyrand.NewPCG64(resume.LaneSeed(o.seed, "random", turn))
		return o.traces[g.Bounded(uint32(n))]
	case Shuffle:
		return o.shuffled(turn / n)[turn%n]
	}
	return o.traces[turn%n]
}

// shuffled returns the order of a pass.
func (o *order) shuffled(pass int) []int {
	p := &o.passes[pass%2]
	if p.list == nil || p.pass != pass {
		g := pyrand.NewPCG64(resume.LaneSeed(o.seed, "shuffle", pass))
		p.pass, p.list = pass, append(p.list[:0], o.traces...)
		for k := len(p.list) - 1; k > 0; k-- {
			j := g.Bounded(uint32(k + 1))
			p.list[k], p.list[j] = p.list[j], p.list[k]
		}
	}
	return p.list
}
