package simulate

import (
	"fmt"

	"github.com/agentx/agentx/cmd/internal/simulate/engine"
	"github.com/agentx/agentx/cmd/internal/simulate/fleet"
	"github.com/agentx/agentx/cmd/internal/simulate/planner"
)

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

// Tick asks the planner what the fleet should be.
func (p *plan) Tick(now int64, s fleet.State) ([]int, error) {
	if at := p.Next(); at != now {
		return nil, fmt.Errorf("planner: a tick at %d ns: it is due at %d ns", now, at)
	}
	var pools []planner.Workers
	for _, one := range s.Pools {
		pools = append(pools, planner.Workers{Active: one.Active, Starting: len(one.Starting), Draining: len(one.Draining)})
	}
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

// Released, Pass and Completed tell the planner, and who else watches.
func (p *plan) Released(now int64, r *fleet.Request) {
	p.Arrived(r.Prompt, r.Output)
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

// Pass tells of a pass that has ended.
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
