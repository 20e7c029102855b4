package simulate

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/simulate/engine"
	"github.com/agentx/agentx/cmd/internal/simulate/fleet"
	"github.com/agentx/agentx/cmd/internal/simulate/hitcurve"
	"github.com/agentx/agentx/cmd/internal/simulate/preset"
	"github.com/agentx/agentx/internal/cachetest"
	"github.com/agentx/agentx/mmapcache"
)

// A cache without a limit finds what a simulation counts for one, on the same order of requests.
//
// Covers S-92, S-93.
func TestHitCurve(t *testing.T) {
	demo := cachetest.Demo(t)
	cache, err := mmapcache.OpenStructure(demo.Root, demo.Manifest.Parts[mmapcache.StructureKind].Key)
	require.NoError(t, err)
	defer cache.Close()
	input, err := NewInput(cache)
	require.NoError(t, err)
	rates := hitcurve.Rates{Prefill: 10000, Decode: 50}
	for _, whole := range []preset.Choice{preset.FullHitFree, "recompute_last"} {
		c := Default()
		c.Input, c.Concurrency, c.Switches.FullHit = input, 4, whole
		load, err := c.load()
		require.NoError(t, err)
		order, err := hitcurve.Order(context.Background(), load, rates)
		require.NoError(t, err)
		var list []*fleet.Request
		for _, a := range order {
			list = append(list, &fleet.Request{Request: engine.Request{Prompt: a.Prompt, Chain: a.Chain}})
		}
		curve, err := c.HitCurve(context.Background(), rates, false, hitcurve.Options{Policies: hitcurve.Policies})
		require.NoError(t, err)
		assert.Equal(t, (&Result{Config: c, Result: fleet.Result{Requests: list}}).counted().unlimited, curve.Found)
		assert.Equal(t, cache.Facts.Turns, curve.Requests)
		for k, p := range curve.Points[1:] {
			assert.GreaterOrEqual(t, p.Found[hitcurve.LRU], curve.Points[k].Found[hitcurve.LRU])
		}
		c.Workers = 3
		pools, err := c.HitCurve(context.Background(), rates, false, hitcurve.Options{})
		require.NoError(t, err)
		recorded, err := c.HitCurve(context.Background(), rates, true, hitcurve.Options{})
		require.NoError(t, err)
		assert.Equal(t, curve.InputTokens, recorded.InputTokens)
		assert.Less(t, pools.Found, curve.Found)
	}
	c := Default()
	c.Input, c.Concurrency, c.Workers, c.Router = input, 4, 2, KVRouter
	routed, err := c.HitCurve(context.Background(), rates, false, hitcurve.Options{})
	require.NoError(t, err)
	c.Router = RoundRobin
	inTurn, err := c.HitCurve(context.Background(), rates, false, hitcurve.Options{})
	require.NoError(t, err)
	assert.Equal(t, []any{inTurn.Requests, inTurn.InputTokens}, []any{routed.Requests, routed.InputTokens})
	assert.Equal(t, routed.Found, routed.Points[len(routed.Points)-1].Found[hitcurve.LRU], "where nothing is evicted")
	assert.Greater(t, routed.Found, inTurn.Found, "a router that looks at prefixes finds more of them")
	c.Router = KVRouter
	_, err = c.HitCurve(context.Background(), rates, true, hitcurve.Options{})
	require.ErrorContains(t, err, "router kv_router")
}
