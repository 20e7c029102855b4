package reconstruct

import (
	"math"
	"math/bits"
	"sort"

	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/trace"
)

// CacheQuery is the lookup of one turn in a theoretical prefix cache, which has no limit and which a scope shares:
// doc/spec/reconstruction.md 8.
type CacheQuery struct {
	row        int     // of the turn, in its trace
	Start, end float64 // seconds on the root clock
	order      [3]int  // outer index, session, turn: sorts equal starts
	ids        trace.IDs
	blocks     []span // the same as numbered blocks
}

// countHits calls set for every query with the length, in ids, of its prefix that the cache would have held. The legacy rule
// stores ids when a request starts, the causal rule when it has ended.
func countHits(queries []CacheQuery, blocks uint32, causal bool, set func(q *CacheQuery, hits int)) {
	sort.SliceStable(queries, func(i, j int) bool {
		a, b := &queries[i], &queries[j]
		if a.Start != b.Start {
			return a.Start < b.Start
		}
		for k := range a.order {
			if a.order[k] != b.order[k] {
				return a.order[k] < b.order[k]
			}
		}
		return false
	})
	if causal {
		countCausal(queries, blocks, set)
		return
	}
	seen := make([]uint64, (blocks+63)/64)
	for k := range queries {
		q := &queries[k]
		hits, leading := 0, true
		for _, s := range q.blocks {
			if leading {
				n := leadingOnes(seen, s)
				hits += n
				leading = n == int(s.n)
			}
			if !leading {
				setOnes(seen, s)
			}
		}
		set(q, hits)
	}
}

// countCausal applies the causal rule: a block is available once the earliest request with it has ended.
func countCausal(queries []CacheQuery, blocks uint32, set func(q *CacheQuery, hits int)) {
	available := make([]float64, blocks)
	for k := range available {
		available[k] = math.Inf(1)
	}
	for k := range queries {
		q := &queries[k]
		hits, leading := 0, true
		for _, s := range q.blocks {
			for b := s.first; b < s.first+s.n; b++ {
				if leading = leading && available[b] <= q.Start; leading {
					hits++
				}
			}
		}
		for _, s := range q.blocks {
			for b := s.first; b < s.first+s.n; b++ {
				available[b] = min(available[b], q.end)
			}
		}
		set(q, hits)
	}
}

// GlobalPrefixCache is the theoretical prefix cache that all traces of global scope and equal block size share. The zero value
// is empty.
type GlobalPrefixCache struct {
	blockNumbers
	numbers *numbering
	queries []CacheQuery
}

// Add adds the queries of the next trace. firstRow is the row of its first turn in the whole structure.
func (g *GlobalPrefixCache) Add(queries []CacheQuery, firstRow int) {
	if g.numbers == nil {
		g.numbers = newNumbering("")
	}
	for _, q := range queries {
		q.row += firstRow
		q.blocks = g.numberBlocks(g.numbers, nil, q.ids, 0)
		q.ids = trace.IDs{}
		g.queries = append(g.queries, q)
	}
}

// Count calls set with the row and the hits, in blocks, of every turn that was added.
func (g *GlobalPrefixCache) Count(r rules.Rules, set func(row, hits int)) {
	countHits(g.queries, g.blocks, r.CacheMetric == "causal", func(q *CacheQuery, hits int) { set(q.row, hits) })
}

// leadingOnes returns how many bits from s.first on are set without a gap, at most s.n.
func leadingOnes(set []uint64, s span) int {
	for at, end := s.first, s.first+s.n; at < end; {
		word := set[at/64] >> (at % 64)
		ones := uint32(bits.TrailingZeros64(^word))
		if ones < 64-at%64 || at+ones >= end {
			return int(min(at+ones, end) - s.first)
		}
		at += ones
	}
	return int(s.n)
}

func setOnes(set []uint64, s span) {
	for at, end := s.first, s.first+s.n; at < end; {
		n := min(64-at%64, end-at)
		set[at/64] |= (^uint64(0) >> (64 - n)) << (at % 64)
		at += n
	}
}
