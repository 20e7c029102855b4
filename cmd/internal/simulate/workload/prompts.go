package workload

import (
	"fmt"
	"io/fs"
	"math"
	"slices"
	"sort"

	"github.com/agentx/agentx/cmd/internal/simulate/preset"
	"github.com/agentx/agentx/mmapcache"
)

// prompts reads the ids of prompts of a cache.
type prompts struct {
	cache   *mmapcache.Cache
	tokens  int // that an id stands for, in all traces
	narrow  bool
	scopes  map[string]uint32
	plan    *mmapcache.Plan // of the trace that is open
	scopeOf []uint32        // of each of its runs
	path    []int32
	list    []IDRun
}

// newPrompts returns a reader that has no trace open. It compares the blocks of the traces of the first shard: those of the others are
// compared when they are opened.
func newPrompts(c *mmapcache.Cache, width preset.Choice) (*prompts, error) {
	p := &prompts{cache: c, narrow: width == preset.Width32, scopes: map[string]uint32{}}
	err := c.EachShard(func(_ int, s *mmapcache.Structure) error {
		list := s.Traces.Range(nil, 0, uint32(s.Traces.Len())) // column by column
		for k := range list {
			if err := p.checkBlocks(&list[k]); err != nil {
				return err
			}
		}
		if len(list) == 0 {
			return nil
		}
		return fs.SkipAll
	})
	return p, err
}

// checkBlocks refuses a trace whose blocks have other sizes than those of the first.
func (p *prompts) checkBlocks(t *mmapcache.Trace) error {
	if p.tokens == 0 {
		p.tokens = int(t.BlockSize)
	}
	if int(t.BlockSize) != p.tokens {
		return fmt.Errorf("trace %s: blocks of %d tokens, those before have %d", t.ID, t.BlockSize, p.tokens)
	}
	return nil
}

// each opens the first traces of the cache, one after another, and calls visit for each, with when it begins, in milliseconds.
func (p *prompts) each(traces int, visit func(trace int, start float64)) error {
	plan := new(mmapcache.Plan)
	return p.cache.EachShard(func(first int, s *mmapcache.Structure) error {
		for k := range min(s.Traces.Len(), traces-first) {
			s.ReadPlan(k, plan)
			if err := p.open(plan); err != nil {
				return err
			}
			visit(first+k, startOf(s, k, plan.Turns[0]))
		}
		if first+s.Traces.Len() >= traces { // no other shard is needed
			return fs.SkipAll
		}
		return nil
	})
}

// open makes the trace of a plan the one whose ids are read.
func (p *prompts) open(plan *mmapcache.Plan) error {
	p.plan = plan
	p.scopeOf = p.scopeOf[:0]
	for k, r := range plan.Runs {
		if k > 0 && r.Scope == plan.Runs[k-1].Scope {
			p.scopeOf = append(p.scopeOf, p.scopeOf[k-1])
		} else {
			p.scopeOf = append(p.scopeOf, p.scope(r.Scope))
		}
	}
	return p.checkBlocks(&plan.Trace)
}

// ids returns the hash ids of a turn's prompt in order. They are valid until the next call.
func (p *prompts) ids(t mmapcache.Turn) []IDRun {
	p.path, p.list = p.path[:0], p.list[:0]
	for at := t.Last; at != mmapcache.None; at = p.plan.Segments[at].Parent {
		p.path = append(p.path, at)
	}
	for _, at := range slices.Backward(p.path) {
		switch s := &p.plan.Segments[at]; {
		case s.Flags&mmapcache.Filler != 0:
		case s.Flags&mmapcache.Head != 0:
			p.blocks(s.First, 1)
		default:
			p.blocks(s.First, s.Count)
		}
	}
	return p.list
}

// blocks appends the ids of blocks of the trace.
func (p *prompts) blocks(first, count uint32) {
	runs := p.plan.Runs
	k := sort.Search(len(runs), func(k int) bool { return runs[k].First > first }) - 1
	for ; count > 0; k++ {
		r := &runs[k]
		skip := first - r.First
		n := min(r.Count-skip, count)
		p.append(p.scopeOf[k], r.ID+int64(skip), int(n))
		first, count = first+n, count-n
	}
}

func (p *prompts) scope(name string) uint32 {
	n, known := p.scopes[name]
	if !known {
		n = uint32(len(p.scopes))
		p.scopes[name] = n
	}
	return n
}

// append adds a range of ids, of which the low 32 bits count where they are narrow.
func (p *prompts) append(scope uint32, id int64, count int) {
	for count > 0 {
		n := count
		if p.narrow {
			id &= math.MaxUint32
			n = min(n, int(math.MaxUint32-id)+1)
		}
		if k := len(p.list) - 1; k >= 0 && p.list[k].Scope == scope && p.list[k].ID+int64(p.list[k].Count) == id {
			p.list[k].Count += n
		} else {
			p.list = append(p.list, IDRun{scope, id, n})
		}
		id, count = id+int64(n), count-n
	}
}
