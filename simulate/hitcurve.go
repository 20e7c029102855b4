package simulate

import (
	"context"
	"errors"
	"fmt"

	"github.com/agentx/agentx/simulate/hitcurve"
)

// HitCurve returns the share of prompt tokens that prefix caches of several sizes would hold: doc/spec/simulate.md 16. The load is
// that of the run, against a server of given rates; each worker is a pool. Block size, switches and pools are those of the run.
func (c Config) HitCurve(ctx context.Context, r hitcurve.Rates, o hitcurve.Options) (*hitcurve.Curve, error) {
	if c.Disaggregated() {
		return nil, errors.New("hit curve: the fleet is disaggregated: want workers of one kind")
	}
	if c.Router != RoundRobin {
		return nil, fmt.Errorf("hit curve: router %s: its choices depend on what the caches hold at one size; want %s", c.Router, RoundRobin)
	}
	load, err := c.load()
	if err != nil {
		return nil, err
	}
	list, err := hitcurve.Order(ctx, load, r)
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
