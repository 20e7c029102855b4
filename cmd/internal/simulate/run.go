package simulate

import (
	"context"

	"github.com/agentx/agentx/cmd/internal/simulate/fleet"
	"github.com/agentx/agentx/cmd/internal/simulate/router"
	"github.com/agentx/agentx/cmd/internal/simulate/workload"
)

// Result is the outcome of a simulation.
type Result struct {
	fleet.Result
	Config  Config
	Planned *Planned // nil without a planner
	Samples *Samples // nil: Config.Sampling is off
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
	got, err := fleet.Run(ctx, o)
	if lanes, ok := load.(*workload.LanesLoad); ok && err == nil {
		err = lanes.Err()
	}
	if err != nil {
		return nil, err
	}
	r := &Result{Result: *got, Config: c}
	if plan != nil {
		r.Planned = plan.end(got.Duration)
	}
	if samples != nil {
		r.Samples = &samples.Samples
	}
	return r, nil
}

// pools returns the pools of the fleet.
func (c *Config) pools() (list []fleet.Pool, err error) {
	workers := []int{c.Workers}
	if c.Disaggregated() {
		workers = []int{c.PrefillWorkers, c.DecodeWorkers}
	}
	for k, e := range c.Engines() {
		chosen, err := c.router(e, k == 1)
		if err != nil {
			return nil, err
		}
		list = append(list, fleet.Pool{Workers: workers[k], Engine: e.Config, Timing: e.Timing, Router: chosen})
	}
	return list, nil
}

// router returns the router of a pool; nil: round robin.
func (c *Config) router(e Engine, decode bool) (fleet.Router, error) {
	if c.Router == RoundRobin {
		return nil, nil
	}
	return router.New(router.Options{
		Config: c.routerKeys(), Switches: c.Switches, Engine: e.Config, Timing: e.Timing, Seed: c.Seed, Decode: decode,
	})
}

// routerKeys returns the configuration of the KV router: the one that is set, or the default of the cost function.
func (c *Config) routerKeys() router.Config {
	if c.RouterConfig != nil {
		return *c.RouterConfig
	}
	return router.Default(c.Switches.RouterCost)
}
