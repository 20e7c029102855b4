package reconstruct

import (
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
