package simulate

import (
	"context"
	"errors"
	"fmt"

	"github.com/agentx/agentx/simulate/hitcurve"
	"github.com/agentx/agentx/simulate/workload"
)

// HitCurve returns the share of prompt tokens that prefix caches of several sizes would hold: doc/spec/simulate.md 16. The load is
// that of the run, against a server of given rates, or its turns come in the order of their recorded times; each worker is a pool. Block size, switches and pools are those of the run.
func (c Config) HitCurve(ctx context.Context, r hitcurve.Rates, recorded bool, o hitcurve.Options) (*hitcurve.Curve, error) {
	if c.Disaggregated() {
		return nil, errors.New("hit curve: the fleet is disaggregated: want workers of one kind")
	}
	if c.Router != RoundRobin {
		return nil, fmt.Errorf("hit curve: router %s: its choices depend on what the caches hold at one size; want %s", c.Router, RoundRobin)
	}
	var list []hitcurve.Access
	var err error
	if recorded {
		list, err = c.recorded()
	} else {
		list, err = c.order(ctx, r)
	}
	if err != nil {
		return nil, fmt.Errorf("hit curve: %w", err)
	}
	o.BlockSize, o.FullHit, o.Pools = c.BlockSize(), c.Switches.FullHit, c.Workers
	curve, err := hitcurve.Compute(ctx, list, o)
	if err != nil {
		return nil, fmt.Errorf("hit curve: %w", err)
	}
	return curve, nil
}

// order returns the requests of the load against a server of given rates.
func (c *Config) order(ctx context.Context, r hitcurve.Rates) ([]hitcurve.Access, error) {
	load, err := c.load()
	if err != nil {
		return nil, err
	}
	return hitcurve.Order(ctx, load, r)
}

// recorded returns the turns of the input in the order of their recorded times.
func (c *Config) recorded() (list []hitcurve.Access, err error) {
	if c.Input == nil {
		return nil, errors.New("no input: nothing is recorded")
	}
	turns, err := workload.Recorded(c.Input.Cache().Structure, c.LimitTraces, c.BlockSize(), c.Switches.IDWidth)
	if c.LimitRequests > 0 {
		turns = turns[:min(len(turns), c.LimitRequests)]
	}
	for _, t := range turns {
		list = append(list, hitcurve.Access{Prompt: t.Prompt, Chain: t.Chain})
	}
	return list, err
}
