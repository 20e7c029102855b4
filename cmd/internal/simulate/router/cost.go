package router

import (
	"math"

	"github.com/agentx/agentx/cmd/internal/simulate/preset"
	"github.com/agentx/agentx/internal/pyrand"
)

// candidate is a worker as a request sees it.
type candidate struct {
	worker        *worker
	prefillTokens int     // of the prefills in flight
	excess        float64 // blocks of them above those of the worker that has the fewest
	overlap       int     // blocks of the request that are visible there
	active        int     // prompt blocks in flight
	lead          int     // blocks of the request that are among them
	requests      int     // in flight
	index         int     // visible blocks
	dispatched    int     // requests so far
	cost          float64
}

// costs is a cost function: doc/spec/simulate.md 8.2. Every product is converted, so that no machine fuses it with a sum.
type costs struct {
	Config
	kind      preset.Choice
	decode    bool // of a decode pool
	blockSize int
}

// of returns the cost of a prompt on a worker, in blocks.
func (k *costs) of(c *candidate, prompt int) float64 {
	size := float64(k.blockSize)
	blocks := blocksOf(prompt, k.blockSize)
	decode := float64(c.active + blocks - c.lead)
	switch {
	case k.decode:
		requests := 0.0
		if k.kind == preset.CostCredit {
			requests = float64(k.ActiveRequestWeight * float64(c.requests))
		}
		return max(decode-float64(k.DecodeOverlapCredit*float64(c.overlap)), 0) + requests
	case k.kind == preset.CostWeight:
		return float64(k.OverlapWeight*(float64(c.prefillTokens+max(prompt-c.overlap*k.blockSize, 0))/size)) + decode
	}
	decay := 1 / (1 + float64(k.OverlapCreditDecay*(c.excess/float64(blocks))))
	load := float64(c.prefillTokens+prompt)/size - float64(float64(k.OverlapCredit*decay)*float64(c.overlap))
	return float64(k.PrefillLoadScale*max(load, 0)) + decode + float64(k.ActiveRequestWeight*float64(c.requests))
}

// blocksOf returns how many blocks so many tokens fill or begin.
func blocksOf(tokens, size int) int { return (tokens + size - 1) / size }

// picker chooses among candidates that have a cost.
type picker struct {
	temperature float64
	randomTies  bool
	stream      *pyrand.PCG64
	weights     []float64
	ties        []int
}

// pick returns the number of the candidate that gets the request.
func (p *picker) pick(list []candidate) int {
	if p.temperature > 0 {
		return p.draw(list)
	}
	best := 0
	p.ties = append(p.ties[:0], 0)
	for k := 1; k < len(list); k++ {
		switch a, b := &list[k], &list[best]; {
		case a.cost < b.cost:
			best, p.ties = k, append(p.ties[:0], k)
		case a.cost == b.cost:
			p.ties = append(p.ties, k)
			if a.before(b) {
				best = k
			}
		}
	}
	if p.randomTies {
		return p.ties[p.stream.Bounded(uint32(len(p.ties)))]
	}
	return best
}

// before reports whether a candidate goes before one of the same cost with a lower id.
func (c *candidate) before(other *candidate) bool {
	if c.index != other.index {
		return c.index < other.index
	}
	return c.dispatched < other.dispatched
}

// draw returns a candidate at random, a cheap one more often than others.
func (p *picker) draw(list []candidate) int {
	p.weigh(list)
	u := p.stream.Float64()
	for k, w := range p.weights {
		if u -= w; u < 0 {
			return k
		}
	}
	return len(list) - 1
}

// weigh computes the probabilities of candidates.
func (p *picker) weigh(list []candidate) {
	low, high := list[0].cost, list[0].cost
	for k := range list {
		low, high = min(low, list[k].cost), max(high, list[k].cost)
	}
	p.weights = p.weights[:0]
	sum := 0.0
	for k := range list {
		w := 1.0
		if high > low {
			w = math.Exp((low - list[k].cost) / float64((high-low)*p.temperature))
		}
		p.weights = append(p.weights, w)
		sum += w
	}
	for k := range p.weights {
		p.weights[k] /= sum
	}
}
