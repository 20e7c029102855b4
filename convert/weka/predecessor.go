package weka

import (
	"cmp"
	"slices"
)

// Predecessors finds, for requests of one agent after the other, the request that each goes on from: of those before it that
// had ended, one that shares the most leading blocks, and of these the one that ended last. It takes time proportional to the
// blocks of all prompts.
type Predecessors struct {
	parents []int32 // of each block, the block before it in every prompt that has it
	root    int32   // parent of first blocks
	latest  []int32 // per block: number of the ended request with it that ended last
	next    int32   // number of the first request of the next agent; lower numbers are of other agents
}

// Stay is a request as Predecessors sees it. Times have any unit.
type Stay struct {
	Begin, End int64
	Last       int32 // last block of its prompt, the root where it has none
}

// Predecessor is the request that a request goes on from.
type Predecessor struct {
	Index  int // in the list of requests; -1: none
	Shared int // leading blocks that the two share
}

// NewPredecessors takes the tree of the blocks of a trace.
func NewPredecessors(parents []int32, root int32) *Predecessors {
	return &Predecessors{parents: parents, root: root, latest: make([]int32, len(parents)), next: 1}
}

// Of returns the predecessor of each request of an agent. The requests are in the order of their arrival.
func (p *Predecessors) Of(requests []Stay) []Predecessor {
	ended := make([]int, len(requests)) // in the order in which they ended
	for k := range ended {
		ended[k] = k
	}
	slices.SortFunc(ended, func(a, b int) int { return cmp.Or(cmp.Compare(requests[a].End, requests[b].End), cmp.Compare(a, b)) })
	found := make([]Predecessor, len(requests))
	for k, r := range requests {
		for len(ended) > 0 && ended[0] < k && requests[ended[0]].End <= r.Begin {
			p.mark(requests[ended[0]].Last, p.next+int32(ended[0]))
			ended = ended[1:]
		}
		found[k] = p.deepest(r.Last)
	}
	p.next += int32(len(requests))
	return found
}

// ThinkTimes returns, of each request of an agent, the time since the end of the one that it goes on from; Unknown where there is none.
func (p *Predecessors) ThinkTimes(requests []Stay) []Millis {
	thinks := make([]Millis, len(requests))
	for k, found := range p.Of(requests) {
		if thinks[k] = Unknown; found.Index >= 0 {
			thinks[k] = Millis(requests[k].Begin - requests[found.Index].End)
		}
	}
	return thinks
}

// mark notes a request at every block of its prompt.
func (p *Predecessors) mark(block, number int32) {
	for ; block != p.root; block = p.parents[block] {
		p.latest[block] = number
	}
}

// deepest returns the request noted at the last block of a prompt at which one of this agent is.
func (p *Predecessors) deepest(block int32) Predecessor {
	for block != p.root && p.latest[block] < p.next {
		block = p.parents[block]
	}
	if block == p.root {
		return Predecessor{Index: -1}
	}
	found := Predecessor{Index: int(p.latest[block] - p.next)}
	for ; block != p.root; block = p.parents[block] {
		found.Shared++
	}
	return found
}
