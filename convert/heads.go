package convert

import (
	"slices"
	"sort"

	"github.com/agentx/agentx/mmapcache"
)

// headLengths are the numbers of tokens, ascending, of the heads of blocks: prompts that end within a block have only these of it.
type headLengths map[blockName][]int

// blockName is what traces call a block by.
type blockName struct {
	scope string
	id    int64
}

// headsOf returns the heads in the prompts of a structure.
func headsOf(s *mmapcache.Structure) headLengths {
	h := headLengths{}
	for i := range s.Traces.Len() {
		t := s.Traces.At(i)
		for k := range t.Segments {
			if s.Segments.At(int(t.FirstSegment+k)).Flags&mmapcache.Head != 0 {
				h.add(s.Plan(i))
				break
			}
		}
	}
	return h
}

// add adds the heads in the prompts of a trace.
func (h headLengths) add(p *mmapcache.Plan) {
	for _, s := range p.Segments {
		if s.Flags&mmapcache.Head == 0 {
			continue
		}
		r := p.Runs[sort.Search(len(p.Runs), func(k int) bool { return p.Runs[k].First > s.First })-1]
		name := blockName{r.Scope, r.ID + int64(s.First-r.First)}
		lengths := h[name]
		if at, known := slices.BinarySearch(lengths, int(s.Count)); !known {
			h[name] = slices.Clip(slices.Insert(lengths, at, int(s.Count)))
		}
	}
}
