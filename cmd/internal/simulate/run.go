// Package simulate runs one simulation from end to end: doc/spec/simulate.md. It joins the packages below it: workload says
// which requests come and when, engine is one simulated engine, fleet runs many of them on a virtual clock.
//
//	input, err := simulate.NewInput(cache)
//	config := simulate.Default()
//	config.Input, config.Workers = input, 8
//	result, err := simulate.Run(ctx, config)
//	result.Summary().WriteJSON(os.Stdout)
//
// A Config is a value: Run does not change it, and equal ones give equal results in any process, with any number of
// goroutines. Many runs may share an Input, which numbers the blocks of prompts once for each block size.
//
// Nothing here knows the command line, and nothing but the command line imports it.
package simulate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/agentx/agentx/cmd/internal/simulate/engine"
	"github.com/agentx/agentx/cmd/internal/simulate/fleet"
	"github.com/agentx/agentx/cmd/internal/simulate/hitcurve"
	"github.com/agentx/agentx/cmd/internal/simulate/planner"
	"github.com/agentx/agentx/cmd/internal/simulate/router"
	"github.com/agentx/agentx/cmd/internal/simulate/workload"
)

// Result is the outcome of a simulation.
type Result struct {
	fleet.Result
	Config  Config
	Planned *Planned // nil without a planner
	Samples *Samples // nil: Config.Sampling is off

	tally *tally // of the requests that are forgotten; nil: Config.Forget is off
}

// Run plays the load of a configuration to its end. The error is everything that is wrong with the configuration, a
// *fleet.DeadEnd, or that of the context.
func Run(ctx context.Context, c Config) (*Result, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	load, err := c.load()
	if err != nil {
		return nil, err
	}
	pools, err := c.pools()
	if err != nil {
		return nil, err
	}
	plan, err := c.newPlan(pools)
	if err != nil {
		return nil, err
	}
	o := fleet.Options{Pools: pools, Switches: c.Switches, Load: load, Observer: c.Observer, Plain: c.Plain}
	if plan != nil {
		o.Planner, o.Observer = plan, plan
	}
	var samples *sampler
	if c.Sampling.On {
		samples = newSampler(c.Sampling)
		o.Sampler = samples
	}
	var counted *tally
	if c.Forget {
		counted = newTally(&c)
		o.Ended = func(q *fleet.Request) {
			counted.add(q)
			if c.Each != nil {
				c.Each(q)
			}
		}
	}
	got, err := fleet.Run(ctx, o)
	if lanes, ok := load.(*workload.LanesLoad); ok && err == nil {
		err = lanes.Err()
	}
	if err != nil {
		return nil, err
	}
	r := &Result{Result: *got, Config: c, tally: counted}
	if plan != nil {
		r.Planned = plan.end(got.Duration)
	}
	if samples != nil {
		r.Samples = &samples.Samples
	}
	return r, nil
}

// mostOutside is which share of the passes may lie outside of what an engine was fitted to before a run is refused.
const mostOutside = 0.01

// Extrapolated returns an error for a run of fitted engines that says little: too many passes lie outside of what they were fitted to.
func (r *Result) Extrapolated() error {
	total := r.Counts()
	for _, e := range r.Config.Engines() {
		if e.Config.Fit != nil && float64(total.Outside) > mostOutside*float64(total.Passes) {
			return fmt.Errorf("%d of %d passes lie outside of what the engine was fitted to (%s): fit a run that goes as far, or accept it with --extrapolate", total.Outside, total.Passes, e.Timing.Range())
		}
	}
	return nil
}

// pools returns the pools of the fleet.
func (c *Config) pools() (list []fleet.Pool, err error) {
	workers := []int{c.Workers}
	if c.Disaggregated() {
		workers = []int{c.PrefillWorkers, c.DecodeWorkers}
	}
	for k, e := range c.Engines() {
		chosen, err := c.router(e, c.role(k))
		if err != nil {
			return nil, err
		}
		list = append(list, fleet.Pool{Workers: workers[k], Engine: e.Config, Timing: e.Timing, Router: chosen})
	}
	return list, nil
}

// role returns that of the workers of a pool.
func (c *Config) role(pool int) engine.Role {
	if c.Disaggregated() {
		return [...]engine.Role{engine.Prefill, engine.Decode}[pool]
	}
	return engine.Aggregated
}

// router returns the router of a pool; nil: round robin.
func (c *Config) router(e Engine, role engine.Role) (fleet.Router, error) {
	if c.Router == RoundRobin {
		return nil, nil
	}
	return router.New(router.Options{
		Config: c.routerKeys(), Switches: c.Switches, Engine: e.Config, Timing: e.Timing, Seed: c.Seed, Role: role, Tie: c.Tie,
	})
}

// routerKeys returns the configuration of the KV router: the one that is set, or the default of the cost function.
func (c *Config) routerKeys() router.Config {
	if c.RouterConfig != nil {
		return *c.RouterConfig
	}
	return router.Default(c.Switches.RouterCost)
}

// Planned is what a planner did in a run.
type Planned struct {
	Config    planner.Config
	Bootstrap planner.Bootstrap
	Warnings  []string
	Ticks     []*planner.Tick
	Rest      planner.Window // the traffic after the last throughput tick
	Events    int            // ticks that changed a target
}

// plan joins a planner and a fleet: it is the fleet's planner and its observer.
type plan struct {
	*planner.Planner
	observer fleet.Observer // may be nil
	kv       bool           // a KV router says what it knew of a prompt
	block    int
	kept     map[*fleet.Request]bool // by their router, when they arrived
	arriving int                     // requests that a tick has counted, and that have not come
	targets  []int                   // before the tick
	result   *Planned
}

// plannerOptions returns the planner of a configuration.
func (c *Config) plannerOptions() planner.Options {
	o := planner.Options{Config: *c.Planner, Switches: c.Switches}
	for _, e := range c.Engines() {
		o.Engines = append(o.Engines, planner.EngineOf(e.Config, &e.Timing))
	}
	return o
}

// validatePlanner returns an error about a planner that does not fit the fleet or the load.
func (c *Config) validatePlanner() error {
	switch {
	case c.Planner == nil:
		return nil
	case c.Disaggregated() != (c.Planner.Mode == planner.Disaggregated):
		return fmt.Errorf("planner: mode %q does not fit the fleet: agg has workers, disagg has prefill and decode workers", c.Planner.Mode)
	case c.LoadOf() == LoadLanes:
		return fmt.Errorf("planner: load %s has no arrivals to plan for: want trace or concurrency", LoadLanes)
	}
	return c.plannerOptions().Validate()
}

// newPlan returns the planner of a run; nil without one.
func (c *Config) newPlan(pools []fleet.Pool) (*plan, error) {
	if c.Planner == nil {
		return nil, nil
	}
	p, err := planner.New(c.plannerOptions())
	if err != nil {
		return nil, err
	}
	one := &plan{Planner: p, observer: c.Observer, kv: c.Router == KVRouter, block: c.BlockSize(), kept: map[*fleet.Request]bool{}}
	one.result = &Planned{Config: c.Planner.Resolve(), Bootstrap: p.Bootstrap()}
	for _, pool := range pools {
		one.targets = append(one.targets, pool.Workers)
	}
	return one, nil
}

// end returns what the planner did in a run of so many nanoseconds.
func (p *plan) end(duration int64) *Planned {
	p.result.Warnings, p.result.Rest = p.Warnings(), p.Window()
	if len(p.result.Ticks) == 0 {
		p.result.Warnings = append(p.result.Warnings, fmt.Sprintf("it never decided: its first tick is at %g s, and the run ended at %.3g s", float64(p.Next())/1e9, float64(duration)/1e9))
	}
	return p.result
}

// warnings returns what a user should know of the planner's decisions.
func (p *Planned) warnings() []string {
	list := []string{}
	if why := p.Bootstrap.Failed; why != "" {
		list = append(list, "its models begin empty, and decide nothing before passes have fed them: "+why)
	}
	return append(list, p.Warnings...)
}

// Tick asks the planner how many workers each pool should have; nil: it leaves them. It keeps the tick for the report.
func (p *plan) Tick(now int64, s fleet.State) ([]int, error) {
	if at := p.Next(); at != now {
		return nil, fmt.Errorf("planner: a tick at %d ns, but the next is due at %d ns: this is a bug in agentx", now, at)
	}
	var pools []planner.Workers
	for _, one := range s.Pools {
		pools = append(pools, planner.Workers{Active: one.Active, Ready: one.Ready, Starting: len(one.Starting), Draining: len(one.Draining)})
	}
	for range s.Arriving {
		p.Arrived(0, 0) // lengths are those of requests that end
	}
	p.arriving = s.Arriving
	t, targets, err := p.Planner.Tick(s.LastEvent, pools)
	if err != nil {
		return nil, err
	}
	p.result.Ticks = append(p.result.Ticks, t)
	changed, decided := false, false
	for k, one := range t.Pools {
		decided = decided || one.Decided
		changed = changed || targets[k] != p.targets[k]
	}
	copy(p.targets, targets)
	if changed {
		p.result.Events++
	}
	if !decided {
		return nil, nil
	}
	return targets, nil
}

// Released tells planner and observer of a request that has arrived.
func (p *plan) Released(now int64, r *fleet.Request) {
	if p.arriving > 0 {
		p.arriving--
	} else {
		p.Arrived(r.Prompt, r.Output)
	}
	if p.kv && r.Front().Worker < 0 {
		p.kept[r] = true
	} else {
		p.routed(r)
	}
	if p.observer != nil {
		p.observer.Released(now, r)
	}
}

// routed tells the planner what the router knew of a prompt, whose last block may be a part of one.
func (p *plan) routed(r *fleet.Request) {
	if one := r.Front(); p.kv && one.Worker >= 0 {
		p.Routed(one.Overlap, (one.Prompt+p.block-1)/p.block)
	}
}

// Pass tells planner and observer of a pass that has ended.
func (p *plan) Pass(pool, worker int, pass *engine.Pass) {
	p.Passed(pool, worker, pass)
	if p.observer != nil {
		p.observer.Pass(pool, worker, pass)
	}
}

// Completed tells of a request that has ended. A rejected one tells the planner nothing.
func (p *plan) Completed(now int64, r *fleet.Request) {
	if p.kept[r] { // nothing told when the router let it go
		delete(p.kept, r)
		p.routed(r)
	}
	if r.Tokens > 0 {
		p.Planner.Completed(planner.Completion{Arrival: r.Arrival, First: r.First, Last: r.Last, HasFirst: true, Prompt: r.Prompt, Tokens: r.Tokens})
	}
	if p.observer != nil {
		p.observer.Completed(now, r)
	}
}

// Samples are the workers of a run at even instants: doc/spec/simulate.md 12.3.
type Samples struct {
	Every int64 // nanoseconds between them; the first is at 0
	List  []Sample
}

// Sample is the workers of each pool at an instant, by ascending id.
type Sample struct {
	At    int64
	Pools [][]fleet.WorkerState
}

// Sampling says at which instants a run keeps its workers. The zero value keeps none.
type Sampling struct {
	On    bool
	Every time.Duration // 0: 0.1 s times a power of two, so that there are 500 to 1,000 samples of a run that is long enough
}

const (
	leastEvery   = time.Millisecond
	defaultEvery = 100 * time.Millisecond
	mostSamples  = 1000
	mostGiven    = 20_000  // samples, where somebody says how far apart they are
	mostStates   = 1 << 20 // workers in all samples
)

// Validate returns an error for instants that are too close.
func (s Sampling) Validate() error {
	if s.Every != 0 && s.Every < leastEvery {
		return fmt.Errorf("samples every %s: want at least %s, or 0 for the default", s.Every, leastEvery)
	}
	return nil
}

// sampler collects samples. When they become too many it drops every second one.
type sampler struct {
	Samples
	most   int
	states int
	next   int64
}

// newSampler returns a sampler whose first sample is at 0.
func newSampler(s Sampling) *sampler {
	if s.Every > 0 {
		return &sampler{Samples: Samples{Every: int64(s.Every)}, most: mostGiven}
	}
	return &sampler{Samples: Samples{Every: int64(defaultEvery)}, most: mostSamples}
}

// Next returns when the next sample is due.
func (s *sampler) Next() int64 { return s.next }

// Sample keeps the workers at an instant.
func (s *sampler) Sample(at int64, pools [][]fleet.WorkerState) {
	one := Sample{At: at}
	for _, list := range pools {
		one.Pools = append(one.Pools, append([]fleet.WorkerState{}, list...))
		s.states += len(list)
	}
	s.List = append(s.List, one)
	for (len(s.List) > s.most || s.states > mostStates) && s.Every <= math.MaxInt64/4 && len(s.List) > 1 {
		s.halve()
	}
	s.next = at - at%s.Every + s.Every
}

// halve doubles the distance of the samples, and drops those that no longer fit.
func (s *sampler) halve() {
	s.Every *= 2
	kept := s.List[:0]
	s.states = 0
	for _, one := range s.List {
		if one.At%s.Every != 0 {
			continue
		}
		kept = append(kept, one)
		for _, list := range one.Pools {
			s.states += len(list)
		}
	}
	clear(s.List[len(kept):])
	s.List = kept
}

// HitCurve returns the share of prompt tokens that prefix caches of several sizes would hold: doc/spec/simulate.md 16. The load is
// that of the run, against a server of given rates, or its turns come in the order of their recorded times; each worker is a pool. Block size, switches, pools and router are those of the run.
func (c Config) HitCurve(ctx context.Context, r hitcurve.Rates, recorded bool, o hitcurve.Options) (*hitcurve.Curve, error) {
	if c.Disaggregated() {
		return nil, errors.New("hit curve: the fleet is disaggregated: want workers of one kind")
	}
	o.BlockSize, o.FullHit, o.Pools = c.BlockSize(), c.Switches.FullHit, c.Workers
	curve, err := c.curve(ctx, r, recorded, o)
	if err != nil {
		return nil, fmt.Errorf("hit curve: %w", err)
	}
	return curve, nil
}

// curve returns that of workers that a router chooses, or that get the requests in turn.
func (c *Config) curve(ctx context.Context, r hitcurve.Rates, recorded bool, o hitcurve.Options) (*hitcurve.Curve, error) {
	var list []hitcurve.Access
	var load workload.Load
	var err error
	switch {
	case c.Router == KVRouter && recorded:
		err = fmt.Errorf("router %s needs to know which requests are at work, which the recorded order does not say: want the order of the load", c.Router)
	case c.Router == KVRouter:
		router := func() (fleet.Router, error) { return c.router(c.Engine, engine.Aggregated) }
		return hitcurve.Routed{Load: c.load, Router: router, Rates: r}.Compute(ctx, o)
	case recorded:
		list, err = c.recorded()
	default:
		if load, err = c.load(); err == nil {
			list, err = hitcurve.Order(ctx, load, r)
		}
	}
	if err != nil {
		return nil, err
	}
	return hitcurve.Compute(ctx, list, o)
}

// recorded returns the turns of the input in the order of their recorded times.
func (c *Config) recorded() (list []hitcurve.Access, err error) {
	if c.Input == nil {
		return nil, errors.New("the recorded order needs an input, and none is given")
	}
	turns, err := workload.Recorded(c.Input.Cache(), c.LimitTraces, c.BlockSize(), c.Switches.IDWidth)
	if c.LimitRequests > 0 {
		turns = turns[:min(len(turns), c.LimitRequests)]
	}
	for _, t := range turns {
		list = append(list, hitcurve.Access{Prompt: t.Prompt, Chain: t.Chain})
	}
	return list, err
}
