package workload

import (
	"math"
	"slices"
	"sort"

	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/simulate/preset"
)

// Mooncake returns the sessions of a structure that was made of Mooncake rows, for engine blocks of so many tokens:
// doc/spec/simulate.md 3.1.
func Mooncake(s *mmapcache.Structure, block int, width preset.IDWidth) (*Sessions, error) {
	traces, traceBlock, err := tracesOf(s)
	if err != nil {
		return nil, err
	}
	list, numbers, reader := &Sessions{}, NewChains(traceBlock, block), newPrompts(s, width)
	for k := range traces {
		reader.open(traces[k])
		list.begin(startOf(s, k, reader.turns[0]))
		for n, t := range reader.turns {
			list.add(turn{delay: delayOf(reader.turns, n), prompt: int(t.In), output: t.MaxTokens(), chain: numbers.Add(reader.ids(t), int(t.In))})
		}
	}
	list.chains = numbers.Count()
	list.align()
	return list, nil
}

// delayOf returns the milliseconds between the completion of the turn before and a turn: what its row says, else the difference of
// their timestamps.
func delayOf(turns []mmapcache.Turn, n int) float64 {
	switch {
	case n == 0:
		return 0
	case math.IsNaN(turns[n].ThinkTime):
		return max(turns[n].T-turns[n-1].T, 0) * 1000
	default:
		return turns[n].ThinkTime * 1000
	}
}

// startOf returns when the first turn of a trace begins, in milliseconds.
func startOf(s *mmapcache.Structure, trace int, first mmapcache.Turn) float64 {
	if ms, ok := s.RecordedStart(trace); ok {
		return ms
	}
	return first.T * 1000
}

// prompts reads the ids of prompts from a structure.
type prompts struct {
	structure *mmapcache.Structure
	narrow    bool
	scopes    map[string]uint32
	turns     []mmapcache.Turn
	segments  []mmapcache.Segment
	runs      []mmapcache.BlockRun
	scopeOf   []uint32 // of each of runs
	path      []int32
	list      []IDRun
}

func newPrompts(s *mmapcache.Structure, width preset.IDWidth) *prompts {
	return &prompts{structure: s, narrow: width == preset.Width32, scopes: map[string]uint32{}}
}

// open reads the tables of a trace.
func (p *prompts) open(t mmapcache.Trace) {
	p.turns = p.structure.Turns.Range(p.turns[:0], t.FirstTurn, t.Turns)
	p.segments = p.structure.Segments.Range(p.segments[:0], t.FirstSegment, t.Segments)
	p.runs = p.structure.Runs.Range(p.runs[:0], t.FirstRun, t.Runs)
	p.scopeOf = p.scopeOf[:0]
	for k, r := range p.runs {
		if k > 0 && r.Scope == p.runs[k-1].Scope {
			p.scopeOf = append(p.scopeOf, p.scopeOf[k-1])
		} else {
			p.scopeOf = append(p.scopeOf, p.scope(r.Scope))
		}
	}
}

// ids returns the hash ids of a turn's prompt in order. They are valid until the next call.
func (p *prompts) ids(t mmapcache.Turn) []IDRun {
	p.path, p.list = p.path[:0], p.list[:0]
	for at := t.Last; at != mmapcache.None; at = p.segments[at].Parent {
		p.path = append(p.path, at)
	}
	for _, at := range slices.Backward(p.path) {
		switch s := &p.segments[at]; {
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
	k := sort.Search(len(p.runs), func(k int) bool { return p.runs[k].First > first }) - 1
	for ; count > 0; k++ {
		r := &p.runs[k]
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
