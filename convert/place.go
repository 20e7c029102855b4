package convert

import (
	"context"
	"sync"

	"github.com/alitto/pond/v2"

	"github.com/agentx/agentx/convert/weka"
	"github.com/agentx/agentx/mmapcache"
)

// placeTraces computes where in the corpus every block and filler of a structure begins, several traces at a time.
func placeTraces(ctx context.Context, s *mmapcache.Structure, table *mmapcache.Placement, corpusTokens int, o Options) error {
	pool := pond.NewPool(o.Workers, pond.WithQueueSize(2*o.Workers))
	defer pool.StopAndWait()
	tasks := pool.NewGroupContext(ctx)
	progress := o.stageProgress("fill", int64(s.Blocks()))
	placers := sync.Pool{New: func() any { return weka.NewPlacer(o.Placement, corpusTokens) }}
	for i := range s.Traces.Len() {
		if ctx.Err() != nil {
			break
		}
		tasks.SubmitErr(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			placer := placers.Get().(*weka.Placer)
			defer placers.Put(placer)
			p := s.Plan(i)
			progress(int64(p.Trace.Blocks))
			return placeTrace(p, s.Blocks(), table, placer)
		})
	}
	if err := tasks.Wait(); err != nil {
		return err
	}
	return ctx.Err()
}

// placeTrace writes the rows of one trace. Fillers follow the blocks of all traces in the table.
func placeTrace(p *mmapcache.Plan, allBlocks int, table *mmapcache.Placement, placer *weka.Placer) error {
	blocks, fillers := placementOf(p, placer)
	if err := table.Put(int(p.Trace.FirstBlock), blocks); err != nil {
		return err
	}
	return table.Put(allBlocks+int(p.Trace.FirstTurn), fillers)
}

// placementOf returns the first token of each block of a trace, and of the filler of each turn.
func placementOf(p *mmapcache.Plan, placer *weka.Placer) (blocks, fillers []uint32) {
	size := p.Trace.BlockSize
	blocks = make([]uint32, p.Trace.Blocks)
	for _, r := range p.Runs {
		placer.Blocks(blocks[r.First:r.First+r.Count], r.Scope, r.ID, int(size))
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
