package workload

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"sort"

	"github.com/agentx/agentx/cmd/internal/simulate/engine"
	"github.com/agentx/agentx/cmd/internal/simulate/preset"
	"github.com/agentx/agentx/internal/pyrand"
	"github.com/agentx/agentx/mmapcache"
)

// Sessions are the turns of an input, as a table: those of a session stand together, sessions in file order.
type Sessions struct {
	list  []session
	turns []turn
}

type session struct {
	start       float64 // first arrival, milliseconds from the earliest
	first, next int     // its turns: first to next-1
}

type turn struct {
	session        int
	delay          float64 // milliseconds after the completion of the turn before
	prompt, output int
	chain          []engine.Run
}

// First returns the first n sessions, the earliest of which arrives at 0.
func (s *Sessions) First(n int) *Sessions {
	if n >= len(s.list) {
		return s
	}
	first := &Sessions{list: slices.Clone(s.list[:n])}
	if n > 0 {
		first.turns = s.turns[:s.list[n-1].next]
	}
	first.align()
	return first
}

// Turn returns turn i of the table.
func (s *Sessions) Turn(i int) Turn {
	t := &s.turns[i]
	return Turn{ID: i, Session: t.session, Number: i - s.list[t.session].first, Prompt: t.prompt, Output: t.output, Chain: t.chain}
}

// begin starts a session, and add adds a turn to the last one.
func (s *Sessions) begin(start float64) {
	n := len(s.turns)
	s.list = append(s.list, session{start: start, first: n, next: n})
}

// add adds a turn to the last session.
func (s *Sessions) add(t turn) {
	t.session = len(s.list) - 1
	t.output = max(t.output, 1)
	s.turns = append(s.turns, t)
	s.list[t.session].next++
}

// last reports whether a turn is the last of its session.
func (s *Sessions) last(id int) bool { return id+1 == s.list[s.turns[id].session].next }

// align shifts all sessions so that the earliest first arrival is at 0.
func (s *Sessions) align() {
	earliest := math.Inf(1)
	for _, one := range s.list {
		earliest = min(earliest, one.start)
	}
	for k := range s.list {
		s.list[k].start -= earliest
	}
}

// nanoseconds returns milliseconds as nanoseconds, divided by a speed-up. Times that no run reaches become unreached.
func nanoseconds(ms, speedup float64) int64 {
	return int64(min(math.RoundToEven(float64(ms/speedup)*1e6), unreached))
}

// unreached is a time that no run reaches; two of them fit an int64.
const unreached = 1<<61 + 1<<60

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
		return fmt.Errorf("trace %s: blocks of %d tokens, those before have %d: simulate traces of one block size", t.ID, t.BlockSize, p.tokens)
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

// open makes the trace of a plan the one that ids reads.
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

// blocks appends the ids of count blocks of the trace, from block first on.
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

// scope returns the number of a scope of ids by its name.
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

// Timed returns the sessions of a cache whose traces are single sessions with recorded starts, such as those of Mooncake rows, for engine
// blocks of so many tokens: doc/spec/simulate.md 3.1.
func Timed(c *mmapcache.Cache, block int, width preset.Choice) (*Sessions, error) {
	reader, err := newPrompts(c, width)
	if err != nil {
		return nil, err
	}
	list, numbers := &Sessions{}, NewChains(reader.tokens, block)
	err = reader.each(c.Traces(), func(_ int, start float64) {
		list.begin(start)
		for n, t := range reader.plan.Turns {
			list.add(turn{delay: delayOf(reader.plan.Turns, n), prompt: max(int(t.In), 1), output: t.MaxTokens(), chain: numbers.Add(reader.ids(t), int(t.In))})
		}
	})
	list.align()
	return list, err
}

// delayOf returns the milliseconds between the completion of the turn before and a turn: what its row says, else the difference of
// their timestamps, less the time that the turn before took where that is recorded.
func delayOf(turns []mmapcache.Turn, n int) float64 {
	switch {
	case n == 0:
		return 0
	case !math.IsNaN(turns[n].ThinkTime):
		return turns[n].ThinkTime * 1000
	case math.IsNaN(turns[n-1].APITime):
		return max(turns[n].T-turns[n-1].T, 0) * 1000
	}
	return max(turns[n].T-turns[n-1].T-turns[n-1].APITime, 0) * 1000
}

// startOf returns when the first turn of a trace begins, in milliseconds.
func startOf(s *mmapcache.Structure, trace int, first mmapcache.Turn) float64 {
	if ms, ok := s.RecordedStart(trace); ok {
		return ms
	}
	return first.T * 1000
}

// Roots returns one session for each trace of trees: its requests in the order of the file, as far as they are not of a subagent, with
// the recorded think time before each. Nothing waits for a subagent, and nothing runs beside another request of its trace: the load of
// the figures in doc/spec/simulate.md 13. [Lanes] plays whole trees.
func Roots(c *mmapcache.Cache, block int, width preset.Choice) (*Sessions, error) {
	reader, err := newPrompts(c, width)
	if err != nil {
		return nil, err
	}
	list, numbers := &Sessions{}, NewChains(reader.tokens, block)
	err = reader.each(c.Traces(), func(int, float64) {
		list.begin(0)
		turns := slices.DeleteFunc(reader.plan.Turns, func(t mmapcache.Turn) bool { return t.Inner != mmapcache.None })
		slices.SortStableFunc(turns, func(a, b mmapcache.Turn) int { return cmp.Compare(a.Outer, b.Outer) })
		for n, t := range turns {
			delay := 0.0
			if n > 0 && !math.IsNaN(t.ThinkTime) {
				delay = max(t.ThinkTime, 0) * 1000
			}
			list.add(turn{delay: delay, prompt: max(int(t.In), 1), output: t.MaxTokens(), chain: numbers.Add(reader.ids(t), int(t.In))})
		}
	})
	return list, err
}

// Recorded returns the turns of the first traces (0: of all) in the order of their recorded times, subagents included. A trace whose format says
// nothing of when it began begins at 0.
func Recorded(c *mmapcache.Cache, first, block int, width preset.Choice) ([]Turn, error) {
	reader, err := newPrompts(c, width)
	if err != nil {
		return nil, err
	}
	type timed struct {
		at float64 // milliseconds
		Turn
	}
	var list []timed
	numbers := NewChains(reader.tokens, block)
	if first == 0 {
		first = c.Traces()
	}
	err = reader.each(first, func(k int, start float64) {
		for n, t := range reader.plan.Turns {
			list = append(list, timed{start + (t.T-reader.plan.Turns[0].T)*1000, Turn{
				ID: len(list), Session: k, Number: n, Prompt: max(int(t.In), 1), Output: max(t.MaxTokens(), 1), Chain: numbers.Add(reader.ids(t), int(t.In)),
			}})
		}
	})
	slices.SortStableFunc(list, func(a, b timed) int { return cmp.Compare(a.at, b.at) })
	turns := make([]Turn, len(list))
	for k := range list {
		turns[k] = list[k].Turn
	}
	return turns, err
}

// SyntheticOptions are a load without an input: doc/spec/simulate.md 3.5.
type SyntheticOptions struct {
	Sessions  int     // how many arrive
	Turns     int     // of each session; 0: one
	In, Out   int     // tokens of each prompt and of its answer
	EveryMS   float64 // between arrivals; with Rate 0
	Rate      float64 // arrivals a second, at random (Poisson)
	ThinkMS   float64 // between the completion of a turn and the next
	Shared    float64 // the share of a prompt's blocks that its group has in common, 0 to 1
	Groups    int     // into which sessions fall at random; 0: one
	BlockSize int     // of the engine
	Seed      uint64
}

// maxTurns bounds the turns of a synthetic load.
const maxTurns = 1 << 26

// Validate returns an error about each option that cannot be used, joined.
func (o SyntheticOptions) Validate() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf("synthetic: "+format, args...)) }
	for _, n := range []struct {
		name         string
		value, least int
	}{{"n", o.Sessions, 0}, {"turns", o.Turns, 0}, {"in", o.In, 1}, {"out", o.Out, 1}, {"groups", o.Groups, 0}, {"block size", o.BlockSize, 1}} {
		if n.value < n.least || n.value > maxTurns {
			wrong("%s %d: want %d to %d", n.name, n.value, n.least, maxTurns)
		}
	}
	if errs == nil && o.Sessions*max(o.Turns, 1) > maxTurns {
		wrong("%d sessions of %d turns: want at most %d turns", o.Sessions, o.Turns, maxTurns)
	}
	for _, n := range []struct {
		name  string
		value float64
		most  float64
	}{{"every", o.EveryMS, 1e12}, {"rate", o.Rate, 1e9}, {"think", o.ThinkMS, 1e12}, {"shared", o.Shared, 1}} {
		if !(n.value >= 0 && n.value <= n.most) {
			wrong("%s %g: want 0 to %g", n.name, n.value, n.most)
		}
	}
	if o.EveryMS > 0 && o.Rate > 0 {
		wrong("every %g ms and a rate of %g/s contradict each other: leave one of them out", o.EveryMS, o.Rate)
	}
	return errors.Join(errs...)
}

// The streams of draws: an option draws from its own, so that it does not move what others draw.
const (
	streamArrivals = iota + 1
	streamGroups
)

// stream returns the generator of a stream of draws, which no other option moves.
func stream(seed uint64, number uint64) *pyrand.PCG64 { return pyrand.NewPCG64(seed + number<<48) }

// Synthetic returns the sessions of a load without an input. Prompts are unique but for the blocks of their group.
func Synthetic(o SyntheticOptions) (*Sessions, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	common := uint32(math.RoundToEven(float64(o.In/o.BlockSize) * o.Shared))
	groups := uint32(max(o.Groups, 1))
	arrivals, draws := stream(o.Seed, streamArrivals), stream(o.Seed, streamGroups)
	s := &Sessions{}
	at := 0.0
	for n := range o.Sessions {
		switch {
		case n == 0:
		case o.Rate > 0:
			at += 1000 / o.Rate * arrivals.InvertedExponential()
		default:
			at = float64(n) * o.EveryMS
		}
		s.begin(at)
		var chain []engine.Run
		if common > 0 {
			chain = []engine.Run{{First: draws.Bounded(groups) * common, Count: common}}
		}
		for k := range max(o.Turns, 1) {
			think := o.ThinkMS
			if k == 0 {
				think = 0
			}
			s.add(turn{delay: think, prompt: o.In, output: o.Out, chain: chain})
		}
	}
	return s, nil
}
