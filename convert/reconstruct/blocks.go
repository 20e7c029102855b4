package reconstruct

import (
	"math"
	"math/bits"
	"sort"

	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/trace"
)

// numbering gives the hash ids of one scope dense numbers in order of first appearance. Ids come in ascending runs, so that
// most lookups hit the page of the id before.
type numbering struct {
	scope  string
	pages  map[int64]*page
	at     int64 // page of the last id
	page   *page
	budget *trace.Budget
}

// page has the block numbers, plus 1, of consecutive ids; 0 is no number yet.
type page [1 << pageBits]uint32

const pageBits = 5

func newNumbering(scope string) *numbering {
	return &numbering{scope: scope, pages: map[int64]*page{}}
}

// slots returns the places of the numbers of a hash id and of those that follow it on its page.
func (n *numbering) slots(id int64) []uint32 {
	if at := id >> pageBits; n.page == nil || n.at != at {
		n.at, n.page = at, n.pages[at]
		if n.page == nil {
			n.budget.Need(pageBytes)
			n.page = new(page)
			n.pages[at] = n.page
		}
	}
	return n.page[id&(1<<pageBits-1):]
}

// numbering returns the numbers of the hash ids of a scope, and begins them where the scope is new.
func (p *planner) numbering(scope string) *numbering {
	n := p.numbers[scope]
	if n == nil {
		if p.numbers == nil {
			p.numbers = map[string]*numbering{}
		}
		n = newNumbering(scope)
		n.budget = p.budget
		p.numbers[scope] = n
	}
	return n
}

// blockNumbers numbers the blocks of one trace, or of those that share a cache.
type blockNumbers struct {
	ChainBreaks int // times a block followed another block than at its first appearance

	blocks uint32                // numbered so far
	before []uint32              // the first block seen before each, plus 1; 0 for one that began a list
	runs   *[]mmapcache.BlockRun // of the plan; nil: there is none
	budget *trace.Budget
}

// numberBlocks returns the blocks of a list of ids. Its first common ids equal those of the previous list, whose blocks are
// before. It counts chain breaks: blocks that follow another block than at their first appearance. Recordings mostly number
// a prefix tree, but nothing here relies on it. It stops when the memory budget is exceeded.
func (p *blockNumbers) numberBlocks(n *numbering, before []span, ids trace.IDs, common int) []span {
	list := sliceSpans(make([]span, 0, len(ids.Runs)+1), before, 0, common)
	last := uint32(0) // number of the last block, plus 1
	if k := len(list) - 1; k >= 0 {
		last = list[k].first + list[k].n
	}
	skip := common
	for _, r := range ids.Runs {
		if skip >= r.N {
			skip -= r.N
			continue
		}
		for k := skip; k < r.N && !p.budget.Exceeded(); {
			b, count := p.numberSome(n, r.First+int64(k), r.N-k, last)
			if e := len(list) - 1; e >= 0 && list[e].first+list[e].n == b {
				list[e].n += count
			} else {
				p.budget.Need(spanBytes)
				list = append(list, span{b, count})
			}
			last = b + count
			k += int(count)
		}
		skip = 0
	}
	return list
}

// numberSome returns the number of a hash id, and of how many ids from it on, at most most, it has found the numbers, which ascend. An id
// gets a new number at its first appearance. before is the number, plus 1, of the block before it in the list.
func (p *blockNumbers) numberSome(n *numbering, id int64, most int, before uint32) (first, count uint32) {
	slots := n.slots(id)
	if slots[0] != 0 {
		first = slots[0] - 1
		if p.before[first] != before {
			p.ChainBreaks++
		}
		return first, 1
	}
	first = p.blocks
	for k := range slots[:min(most, len(slots))] {
		if slots[k] != 0 {
			break
		}
		p.blocks++
		slots[k] = p.blocks
		p.before = append(p.before, before)
		before = p.blocks
	}
	count = p.blocks - first
	if p.runs == nil {
		return first, count
	}
	if e := len(*p.runs) - 1; e >= 0 {
		if run := &(*p.runs)[e]; run.Scope == n.scope && run.ID+int64(run.Count) == id {
			run.Count += count
			return first, count
		}
	}
	p.budget.Need(blockBytes)
	*p.runs = append(*p.runs, mmapcache.BlockRun{Scope: n.scope, ID: id, First: first, Count: count})
	return first, count
}

// promptShape is how a prompt divides into blocks and filler: doc/spec/reconstruction.md 3.1.
type promptShape struct {
	Full    int // whole blocks in the prompt
	Covered int // of them, blocks that have a hash id
	Filler  int // tokens that no hash id covers
}

// shapeOf divides a prompt of in tokens with n hash ids.
func shapeOf(blockSize, n, in int) promptShape {
	s := promptShape{Full: in / blockSize}
	s.Covered = min(n, s.Full)
	s.Filler = in - s.Covered*blockSize
	return s
}

// span is a stretch of consecutive blocks of a trace.
type span struct{ first, n uint32 }

// sliceSpans appends to dst the part of a list of spans from block index lo up to hi.
func sliceSpans(dst, list []span, lo, hi int) []span {
	at := 0
	for _, s := range list {
		from, to := max(lo-at, 0), min(hi-at, int(s.n))
		if from < to {
			dst = append(dst, span{s.first + uint32(from), uint32(to - from)})
		}
		at += int(s.n)
	}
	return dst
}

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

// setOnes adds the blocks of a span to a set of bits.
func setOnes(set []uint64, s span) {
	for at, end := s.first, s.first+s.n; at < end; {
		n := min(64-at%64, end-at)
		set[at/64] |= (^uint64(0) >> (64 - n)) << (at % 64)
		at += n
	}
}
