package hitcurve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/agentx/agentx/cmd/internal/simulate/engine"
	"github.com/agentx/agentx/cmd/internal/simulate/fleet"
	"github.com/agentx/agentx/cmd/internal/simulate/workload"
	"github.com/agentx/agentx/internal/heap"
)

// Access is a prompt that meets the cache.
type Access struct {
	Prompt int // tokens
	Chain  []engine.Run
}

// Rates are those of a server that computes every request on its own, however many there are: tokens a second.
type Rates struct {
	Prefill float64 `json:"prefill"`
	Decode  float64 `json:"decode"`
}

// Validate returns an error about a rate that cannot be used.
func (r Rates) Validate() error {
	for _, one := range []struct {
		name string
		rate float64
	}{{"prefill", r.Prefill}, {"decode", r.Decode}} {
		if !(one.rate > 0) || math.IsInf(one.rate, 0) {
			return fmt.Errorf("%s rate %v: want a finite number of tokens a second above 0", one.name, one.rate)
		}
	}
	return nil
}

// Order returns the prompts of a load in the order in which they leave, against a server of such rates.
func Order(ctx context.Context, load workload.Load, r Rates) (list []Access, err error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	p := &player{load: load}
	p.arrive = func(now int64, t workload.Turn) {
		list = append(list, Access{t.Prompt, t.Chain})
		p.begin(event{at: now + r.duration(t), turn: t.ID})
	}
	return list, p.play(ctx)
}

// prefill returns the nanoseconds until the first token of a request, and duration those until its end: at least 1.
func (r Rates) prefill(t workload.Turn) int64 { return nanoseconds(float64(t.Prompt) / r.Prefill) }
func (r Rates) duration(t workload.Turn) int64 {
	return nanoseconds(float64(float64(t.Prompt)/r.Prefill) + float64(float64(t.Output)/r.Decode))
}

// nanoseconds returns seconds as nanoseconds: at least 1, at most three years.
func nanoseconds(seconds float64) int64 {
	return int64(min(max(1, math.RoundToEven(seconds*1e9)), 1e17))
}

// player plays a load on a virtual clock. Who uses it says what becomes of a turn that leaves.
type player struct {
	load   workload.Load
	busy   []event // a heap
	begun  int
	arrive func(now int64, t workload.Turn)
	happen func(e event)   // before the load hears of an end; nil: there is no listener
	settle func(now int64) // after all that happens at an instant; nil: nothing is to do
}

// event is the first token of a request, or its end.
type event struct {
	at      int64
	order   int // of the beginning: the earlier one first at one instant
	turn    int
	first   bool // the first token, not the end
	request *fleet.Request
}

// begin schedules an event.
func (p *player) begin(e event) {
	p.begun++
	e.order = p.begun
	heap.Push(&p.busy, e, event.before)
}

// play plays the load to its end.
func (p *player) play(ctx context.Context) error {
	for now := int64(0); ; {
		progress := false
		for len(p.busy) > 0 && p.busy[0].at <= now {
			p.end(heap.Pop(&p.busy, event.before), now)
			progress = true
		}
		for t, ok := p.load.Release(now); ok; t, ok = p.load.Release(now) {
			p.arrive(now, t)
			progress = true
		}
		if p.settle != nil {
			p.settle(now)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		at, ok := p.load.Next()
		switch {
		case ok && (at > now || progress) && (len(p.busy) == 0 || at < p.busy[0].at):
			now = max(now, at)
		case len(p.busy) > 0:
			now = p.busy[0].at
		case ok || p.load.Left() > 0:
			return errors.New("the load has turns left that wait for no request: this is a bug in agentx")
		default:
			return nil
		}
	}
}

// end tells the listener of an event, and the load of the end of a request.
func (p *player) end(e event, now int64) {
	if p.happen != nil {
		p.happen(e)
	}
	if !e.first {
		p.load.Completed(e.turn, now)
	}
}

func (e event) before(other event) bool {
	return e.at < other.at || e.at == other.at && e.order < other.order
}

// Routed is a load whose requests a router sends to pools, by what their caches hold. Every size is a play of its own.
type Routed struct {
	Load   func() (workload.Load, error) // the same at every call
	Router func() (fleet.Router, error)
	Rates  Rates
}

// Compute returns the curve of a load. The router sees caches of LRU; other policies find what they find among the requests that
// it then sends to each pool.
func (r Routed) Compute(ctx context.Context, o Options) (*Curve, error) {
	if err := cmp.Or(o.complete(), r.Rates.Validate()); err != nil {
		return nil, err
	}
	all, err := r.play(ctx, &o, math.MaxInt64)
	if err != nil {
		return nil, err
	}
	c := &Curve{Pools: o.Pools, Found: all.found}
	for k, pool := range all.pools {
		c.Requests += len(pool)
		for _, a := range pool {
			c.InputTokens += int64(a.Prompt)
		}
		c.blocks = max(c.blocks, all.caches[k].used)
		o.chains = max(o.chains, len(all.caches[k].owner))
	}
	c.Enough = c.blocks // no cache evicts
	c.points(func(int64) int64 { return 0 }, &o)
	return c, eachPoint(ctx, c.Points, func(p *Point) error { return r.point(ctx, p, &o) })
}

// point adds what the policies find at a size.
func (r *Routed) point(ctx context.Context, p *Point, o *Options) error {
	split, err := r.play(ctx, o, p.Size)
	if err != nil {
		return err
	}
	if slices.Contains(o.Policies, LRU) {
		p.Found[LRU] = split.found
	}
	other(p, split.pools, nextUses(split.pools, o), o)
	return nil
}

// split is a load that was played: what each pool got, and what LRU found.
type split struct {
	pools  [][]Access
	caches []cache
	found  int64 // tokens

	player
	router fleet.Router
	routed *Routed
	o      *Options
}

// play plays the load with caches of a size.
func (r *Routed) play(ctx context.Context, o *Options, size int64) (*split, error) {
	load, err := r.Load()
	if err != nil {
		return nil, err
	}
	router, err := r.Router()
	if err != nil {
		return nil, err
	}
	s := &split{pools: make([][]Access, o.Pools), caches: make([]cache, o.Pools), router: router, routed: r, o: o}
	var ids []int
	for k := range s.caches {
		s.caches[k].size, s.caches[k].owner = size, make([]int32, o.chains)
		ids = append(ids, k)
	}
	router.Workers(0, ids)
	s.player = player{load: load, arrive: s.route, happen: s.tell, settle: s.release}
	return s, s.player.play(ctx)
}

// route gives a turn to the router, which may keep it.
func (s *split) route(now int64, t workload.Turn) {
	r := &fleet.Request{Request: engine.Request{ID: t.ID, Prompt: t.Prompt, Output: t.Output, Chain: t.Chain}, Session: t.Session, Number: t.Number, Arrival: now, Worker: -1}
	if worker, ok := s.router.Route(now, r); ok {
		s.start(now, r, worker)
	}
}

// release starts the requests that the router kept and now releases.
func (s *split) release(now int64) {
	for r, worker := s.router.Next(now); r != nil; r, worker = s.router.Next(now) {
		s.start(now, r, worker)
	}
}

// start takes a request into the cache of its pool, and to its server.
func (s *split) start(now int64, r *fleet.Request, worker int) {
	a := Access{r.Prompt, r.Chain}
	s.pools[worker] = append(s.pools[worker], a)
	cache := &s.caches[worker]
	s.found += min(cache.take(r.Chain), int64(s.o.most(a))) * int64(s.o.BlockSize)
	s.router.Events(worker, cache.told)
	t := workload.Turn{Prompt: r.Prompt, Output: r.Output}
	s.begin(event{at: now + s.routed.Rates.prefill(t), first: true, request: r})
	s.begin(event{at: now + s.routed.Rates.duration(t), turn: r.ID, request: r})
}

// tell tells the router of a first token, or of an end.
func (s *split) tell(e event) {
	if e.first {
		s.router.FirstToken(e.at, e.request)
	} else {
		s.router.Completed(e.at, e.request)
	}
}

// cache is an LRU cache of one pool, of which a router hears. What a prompt was the last to use stands together in it: a piece of that
// prompt, from where later prompts have left it to where evictions have come.
type cache struct {
	size, used int64
	owner      []int32 // by chain number: the access that used it last, plus 1; 0: none has
	held       []held  // by access
	oldest     int     // no access before it holds a block
	told       []engine.KVEvent
}

// held is the blocks of an access that it was the last to use, and that are there.
type held struct {
	chain    []engine.Run
	from, to int64
}

// take returns how many blocks at the beginning of a prompt are there, and leaves all of them as the most recent, the last one first.
// told has what became of the cache, until the next call.
func (c *cache) take(chain []engine.Run) (leading int64) {
	c.told = c.told[:0]
	total := c.own(chain, &leading)
	c.tell(chain, leading, total, false)
	c.held = append(c.held, held{chain, 0, total})
	for c.used += total - leading; c.used > c.size; {
		h := &c.held[c.oldest]
		n := min(c.used-c.size, h.to-h.from)
		c.tell(h.chain, h.to-n, h.to, true)
		h.to -= n
		c.used -= n
		if h.from == h.to {
			h.chain = nil
			c.oldest++
		}
	}
	return leading
}

// own makes the next access the owner of a prompt, and counts the leading blocks that are there. All blocks before one that is there
// are there too: whoever used it used them, and later.
func (c *cache) own(chain []engine.Run, leading *int64) (at int64) {
	k := int32(len(c.held)) + 1
	for _, run := range chain {
		if end := int(run.First + run.Count); end > len(c.owner) {
			c.owner = append(c.owner, make([]int32, end-len(c.owner))...)
		}
		part := c.owner[run.First : run.First+run.Count]
		for i, o := range part {
			if o > 0 {
				if h := &c.held[o-1]; at < h.to {
					h.from = at + 1
					*leading = at + 1
				}
			}
			part[i] = k
			at++
		}
	}
	return at
}

// tell says that the blocks from, to of a prompt are there, or gone.
func (c *cache) tell(chain []engine.Run, from, to int64, removed bool) {
	at := int64(0)
	for _, run := range chain {
		first, end := max(from, at), min(to, at+int64(run.Count))
		if first < end {
			c.told = append(c.told, engine.KVEvent{Run: engine.Run{First: run.First + uint32(first-at), Count: uint32(end - first)}, Removed: removed})
		}
		at += int64(run.Count)
	}
}
