package convert

import (
	"context"
	"slices"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/alitto/pond/v2"

	"github.com/agentx/agentx/convert/reconstruct"
	"github.com/agentx/agentx/mmapcache"
)

// placing is what the placement of a structure is made of.
type placing struct {
	structure *mmapcache.Structure
	table     *mmapcache.Placement
	tokens    int                // of the corpus
	edges     *reconstruct.Edges // of rules.Exact; nil: none
	progress  func(blocks int64)
	windows   atomic.Int64
	inexact   atomic.Int64 // of the windows, see reconstruct.Placer
}

// run computes where in the corpus every block and filler begins, several traces at a time.
func (g *placing) run(ctx context.Context, o Options) error {
	pool := pond.NewPool(o.Workers, pond.WithQueueSize(2*o.Workers))
	defer pool.StopAndWait()
	tasks := pool.NewGroupContext(ctx)
	s, heads := g.structure, headsOf(g.structure)
	type worker struct {
		plan   mmapcache.Plan
		placer *reconstruct.Placer
	}
	workers := sync.Pool{New: func() any { return &worker{placer: reconstruct.NewPlacer(o.Placement, g.tokens, g.edges)} }}
	for i := range s.Traces.Len() {
		if ctx.Err() != nil {
			break
		}
		tasks.SubmitErr(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			w := workers.Get().(*worker)
			defer workers.Put(w)
			s.ReadPlan(i, &w.plan)
			g.progress(int64(w.plan.Trace.Blocks))
			return g.place(&w.plan, w.placer, heads)
		})
	}
	if err := tasks.Wait(); err != nil {
		return err
	}
	return ctx.Err()
}

// place writes the rows of one trace. Fillers follow the blocks of all traces in the table.
func (g *placing) place(p *mmapcache.Plan, placer *reconstruct.Placer, heads headLengths) error {
	placer.Windows, placer.Inexact = 0, 0
	blocks, fillers := placementOf(p, placer, heads)
	g.windows.Add(int64(placer.Windows))
	g.inexact.Add(int64(placer.Inexact))
	if err := g.table.Put(int(p.Trace.FirstBlock), blocks); err != nil {
		return err
	}
	return g.table.Put(g.structure.Blocks()+int(p.Trace.FirstTurn), fillers)
}

// placementOf returns the first token of each block of a trace, and of the filler of each turn.
func placementOf(p *mmapcache.Plan, placer *reconstruct.Placer, heads headLengths) (blocks, fillers []uint32) {
	size := p.Trace.BlockSize
	blocks = make([]uint32, p.Trace.Blocks)
	for _, r := range p.Runs {
		placer.Blocks(blocks[r.First:r.First+r.Count], r.Scope, r.ID, int(size))
		for k := uint32(0); k < r.Count && len(heads) > 0; k++ {
			id, start := r.ID+int64(k), &blocks[r.First+k]
			if lengths := heads[blockName{r.Scope, id}]; lengths != nil {
				*start = placer.WithHeads(*start, r.Scope, id, int(size), lengths)
			}
		}
	}
	fillers = make([]uint32, len(p.Turns))
	for _, s := range p.Sessions {
		for k := range s.Turns {
			if n := p.Turns[s.FirstTurn+k].FillerTokens(size); n > 0 {
				fillers[s.FirstTurn+k] = placer.Filler(s.ID, int(k), int(n))
			}
		}
	}
	return blocks, fillers
}

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
	isHead := func(s mmapcache.Segment) bool { return s.Flags&mmapcache.Head != 0 }
	var segments []mmapcache.Segment
	for i := range s.Traces.Len() {
		t := s.Traces.At(i)
		segments = s.Segments.Range(segments[:0], t.FirstSegment, t.Segments)
		if slices.ContainsFunc(segments, isHead) {
			h.add(s.Plan(i))
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
