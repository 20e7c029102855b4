package simulate

import (
	"context"
	"errors"
	"fmt"

	"github.com/agentx/agentx/cmd/internal/simulate/fleet"
	"github.com/agentx/agentx/cmd/internal/simulate/hitcurve"
	"github.com/agentx/agentx/cmd/internal/simulate/workload"
)

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
		err = fmt.Errorf("router %s needs to know which requests are at work: want the order of the load, not the recorded one", c.Router)
	case c.Router == KVRouter:
		router := func() (fleet.Router, error) { return c.router(c.Engine, false) }
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
