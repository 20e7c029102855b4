package hitcurve

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/agentx/agentx/cmd/internal/simulate/engine"
	"github.com/agentx/agentx/cmd/internal/simulate/fleet"
	"github.com/agentx/agentx/cmd/internal/simulate/workload"
)

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
