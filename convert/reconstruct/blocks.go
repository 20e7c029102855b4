package reconstruct

import (
	"math"
	"math/bits"
	"slices"
	"sort"

	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/trace"
)

// numbering gives the hash ids of one scope dense numbers in order of first appearance. Ids come in ascending runs, so it keeps stretches
// of them, and not each.
type numbering struct {
	scope  string
	parts  [][]stretch // by id; none is empty
	budget *trace.Budget
}

// stretch is n ids from id on, whose blocks have the numbers from first on. Each but the first of these followed the one before it at its
// first appearance.
type stretch struct {
	id       int64
	first, n uint32
	before   uint32 // number, plus 1, of the block that the first one followed; 0: it began a list
}

// maxPart is the most stretches of a part of a numbering: one that is inserted moves those behind it.
const maxPart = 256

// find returns the part with the last stretch that begins at id or below, and its place there: -1 where none does.
func (n *numbering) find(id int64) (part, k int) {
	part = max(0, sort.Search(len(n.parts), func(i int) bool { return n.parts[i][0].id > id })-1)
	if part == len(n.parts) {
		return part, -1
	}
	list := n.parts[part]
	return part, sort.Search(len(list), func(i int) bool { return list[i].id > id }) - 1
}

// room returns how many ids from id on, at most most, are before the stretch behind a place, and have no number.
func (n *numbering) room(part, k int, id int64, most int) uint32 {
	last := int64(math.MaxInt64)
	if part < len(n.parts) {
		if k++; k == len(n.parts[part]) {
			part, k = part+1, 0
		}
	}
	if part < len(n.parts) {
		last = n.parts[part][k].id - 1
	}
	return uint32(min(uint64(most-1), uint64(last)-uint64(id))) + 1
}

// insert adds a stretch behind a place.
func (n *numbering) insert(part, k int, s stretch) {
	n.budget.Need(stretchBytes)
	if part == len(n.parts) {
		n.parts = append(n.parts, nil)
	}
	list := slices.Insert(n.parts[part], k+1, s)
	if half := len(list) / 2; len(list) > maxPart {
		n.parts = slices.Insert(n.parts, part+1, slices.Clone(list[half:]))
		list = list[:half]
	}
	n.parts[part] = list
}

// numbering returns the numbers of the hash ids of a scope, and begins them where the scope is new.
func (p *planner) numbering(scope string) *numbering {
	n := p.numbers[scope]
	if n == nil {
		if p.numbers == nil {
			p.numbers = map[string]*numbering{}
		}
		n = &numbering{scope: scope, budget: p.budget}
		p.numbers[scope] = n
	}
	return n
}

// blockNumbers numbers the blocks of one trace, or of those that share a cache.
type blockNumbers struct {
	ChainBreaks int // times a block followed another block than at its first appearance

	blocks uint32                // numbered so far
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
	part, k := n.find(id)
	var s *stretch
	if k >= 0 {
		s = &n.parts[part][k]
		if at := uint64(id) - uint64(s.id); at < uint64(s.n) {
			first, was := s.first+uint32(at), s.before
			if at > 0 {
				was = first
			}
			if was != before {
				p.ChainBreaks++
			}
			return first, uint32(min(uint64(most), uint64(s.n)-at))
		}
	}
	first, count = p.blocks, n.room(part, k, id, most)
	p.blocks += count
	if s != nil && s.id+int64(s.n) == id && s.first+s.n == first && before == first {
		s.n += count
	} else {
		n.insert(part, k, stretch{id, first, count, before})
	}
	p.noteRun(n.scope, id, first, count)
	return first, count
}

// noteRun adds blocks that have got numbers to the runs of the plan.
func (p *blockNumbers) noteRun(scope string, id int64, first, count uint32) {
	if p.runs == nil {
		return
	}
	if e := len(*p.runs) - 1; e >= 0 {
		if run := &(*p.runs)[e]; run.Scope == scope && run.ID+int64(run.Count) == id {
			run.Count += count
			return
		}
	}
	p.budget.Need(blockBytes)
	*p.runs = append(*p.runs, mmapcache.BlockRun{Scope: scope, ID: id, First: first, Count: count})
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
		g.numbers = &numbering{}
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
