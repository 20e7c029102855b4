package router

import (
	"math"

	"github.com/agentx/agentx/internal/pyrand"
)

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
