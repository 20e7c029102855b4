package weka

import "github.com/agentx/agentx/mmapcache"

// numbering gives the hash ids of one scope dense numbers in order of first appearance. Ids come in ascending runs, so that
// most lookups hit the page of the id before.
type numbering struct {
	scope  string
	pages  map[int64]*page
	at     int64 // page of the last id
	page   *page
	budget *memoryBudget
}

// page has the block numbers, plus 1, of consecutive ids; 0 is no number yet.
type page [1 << pageBits]uint32

const pageBits = 5

func newNumbering(scope string) *numbering {
	return &numbering{scope: scope, pages: map[int64]*page{}}
}

// slot returns the place of a hash id's number.
func (n *numbering) slot(id int64) *uint32 {
	if at := id >> pageBits; n.page == nil || n.at != at {
		n.at, n.page = at, n.pages[at]
		if n.page == nil {
			n.budget.need(pageBytes)
			n.page = new(page)
			n.pages[at] = n.page
		}
	}
	return &n.page[id&(1<<pageBits-1)]
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

// numberBlocks returns the blocks of a list of ids. Its first common ids equal those of the previous list, whose blocks are
// before. It counts chain breaks: blocks that follow another block than at their first appearance. Recordings mostly number
// a prefix tree, but nothing here relies on it. It stops when the memory budget is exceeded.
func (p *planner) numberBlocks(n *numbering, before []span, ids IDs, common int) []span {
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
		for k := skip; k < r.N && !p.budget.exceeded(); k++ {
			b := p.block(n, r.First+int64(k), last)
			if e := len(list) - 1; e >= 0 && list[e].first+list[e].n == b {
				list[e].n++
			} else {
				p.budget.need(spanBytes)
				list = append(list, span{b, 1})
			}
			last = b + 1
		}
		skip = 0
	}
	return list
}

// block returns the number of a hash id, a new one at its first appearance. before is the number, plus 1, of the block before
// it in the list.
func (p *planner) block(n *numbering, id int64, before uint32) uint32 {
	slot := n.slot(id)
	if *slot != 0 {
		b := *slot - 1
		if p.before[b] != before {
			p.notes.ChainBreaks++
		}
		return b
	}
	b := p.blocks
	p.blocks++
	*slot = b + 1
	p.before = append(p.before, before)
	if e := len(p.plan.Runs) - 1; e >= 0 {
		if run := &p.plan.Runs[e]; run.Scope == n.scope && run.ID+int64(run.Count) == id {
			run.Count++
			return b
		}
	}
	p.budget.need(blockBytes)
	p.plan.Runs = append(p.plan.Runs, mmapcache.BlockRun{Scope: n.scope, ID: id, First: b, Count: 1})
	return b
}
