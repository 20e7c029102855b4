package simulate

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/simulate/engine"
	"github.com/agentx/agentx/cmd/internal/simulate/fleet"
	"github.com/agentx/agentx/cmd/internal/simulate/preset"
	"github.com/agentx/agentx/cmd/internal/simulate/router"
	"github.com/agentx/agentx/cmd/internal/simulate/workload"
)

// A prompt of two chunks, as doc/spec/simulate.md 5.4 computes it.
func TestRun(t *testing.T) {
	c := Default()
	c.Synthetic = &workload.SyntheticOptions{Sessions: 1, In: 8844, Out: 173}
	r, err := Run(context.Background(), c)
	require.NoError(t, err)
	require.Len(t, r.Requests, 1)
	assert.Equal(t, []int64{201910614, 1267988050}, []int64{r.Requests[0].First, r.Duration})
}

func TestBounds(t *testing.T) {
	c := Default()
	c.Synthetic = &workload.SyntheticOptions{Sessions: 10, In: 128, Out: 2, EveryMS: 1000, Turns: 2, ThinkMS: 500}
	count := func(c Config) int {
		r, err := Run(context.Background(), c)
		require.NoError(t, err)
		return len(r.Requests)
	}
	assert.Equal(t, 20, count(c))
	for _, n := range []int{1, 19, 20, 21} {
		bounded := c
		bounded.LimitRequests = n
		assert.Equal(t, min(n, 20), count(bounded), n)
	}
	c.LimitTraces = 3
	assert.Equal(t, 6, count(c))
	c.MaxTime = 2e9 // the third session begins at it
	assert.Equal(t, 5, count(c))
}

// The KV router of a run follows prefixes, and has the keys of its cost function.
//
// Covers S-20.
func TestKVRouter(t *testing.T) {
	c := Default()
	c.Workers = 4
	c.Synthetic = &workload.SyntheticOptions{Sessions: 80, In: 2000, Out: 20, EveryMS: 100, Shared: 0.9, Groups: 4}
	reuse := map[Router]int{}
	for _, c.Router = range routers {
		r, err := Run(context.Background(), c)
		require.NoError(t, err)
		for _, q := range r.Requests {
			reuse[c.Router] += q.Reused
		}
		require.Equal(t, c.Router == KVRouter, r.Summary().Run.RouterConfig != nil)
	}
	require.Greater(t, reuse[KVRouter], reuse[RoundRobin])
	c.Workers, c.PrefillWorkers, c.DecodeWorkers = 0, 2, 3
	r, err := Run(context.Background(), c)
	require.NoError(t, err)
	used := map[[2]int]bool{}
	for _, q := range r.Requests {
		require.Equal(t, engine.Done, q.Status)
		used[[2]int{0, q.Prefill.Worker}], used[[2]int{1, q.Worker}] = true, true
	}
	require.Len(t, used, 5)
	require.Nil(t, c.routerKeys().QueueThreshold)
	c.Switches.RouterCost = preset.CostWeight
	require.Equal(t, 4.0, *c.routerKeys().QueueThreshold)
}

func TestValidate(t *testing.T) {
	for _, one := range []struct {
		change func(*Config)
		want   string
	}{
		{func(c *Config) { c.Workers = 0 }, "0 workers: want at least 1"},
		{func(c *Config) { c.PrefillWorkers = 1 }, "1 workers beside 1 prefill and 0 decode workers: want one kind of fleet"},
		{func(c *Config) { c.Workers, c.PrefillWorkers = 0, 1 }, "1 prefill and 0 decode workers: want at least 1 of each"},
		{func(c *Config) {
			c.Workers, c.PrefillWorkers, c.DecodeWorkers, c.DecodeEngine.Config.BlockSize = 0, 1, 1, 16
		}, "block_size 64 of the prefill engine, 16 of the decode engine: want the same"},
		{func(c *Config) {
			c.Workers, c.PrefillWorkers, c.DecodeWorkers, c.DecodeEngine.Config.Type = 0, 1, 1, engine.TRTLLM
		}, `engine_type "trtllm" in a disaggregated fleet: want "vllm" or "sglang"`},
		{func(c *Config) { c.Router = KVRouter }, "router kv_router with one worker: nothing to choose"},
		{func(c *Config) { c.RouterConfig = &router.Config{} }, "a configuration of router kv_router contradicts router round_robin: leave the configuration out"},
		{func(c *Config) { c.Workers, c.Router, c.RouterConfig = 2, KVRouter, &router.Config{} }, `router: router_queue_policy "": want fcfs`},
		{func(c *Config) { c.Router = "random" }, `router "random": want round_robin or kv_router`},
		{func(c *Config) { c.Speedup = 0 }, "arrival speed-up 0: want a finite number above 0"},
		{func(c *Config) { c.Load, c.Concurrency, c.Speedup = LoadConcurrency, 1, 2 }, "arrival speed-up 2 with load concurrency"},
		{func(c *Config) { c.Load = LoadConcurrency }, "load concurrency with concurrency 0: want at least 1"},
		{func(c *Config) { c.Load, c.Concurrency = LoadTrace, 4 }, "load trace with concurrency 4"},
		{func(c *Config) { c.Load = LoadLanes }, "load lanes: it plays trees of sessions"},
		{func(c *Config) { c.Load = "x" }, `load "x": want trace, concurrency or lanes`},
		{func(c *Config) { c.Synthetic = nil }, "neither an input nor a synthetic load is given: give one"},
		{func(c *Config) { c.LimitRequests = -1 }, "limit of requests -1"},
		{func(c *Config) { c.Switches.Alloc = "x" }, `switch alloc "x"`},
		{func(c *Config) { c.Engine.Config.Blocks = 0 }, "engine: num_gpu_blocks 0"},
	} {
		c := Default()
		c.Synthetic = &workload.SyntheticOptions{Sessions: 1, In: 1, Out: 1}
		require.NoError(t, c.Validate())
		one.change(&c)
		_, err := Run(context.Background(), c)
		require.ErrorContains(t, err, one.want)
	}
}

// A run that would last longer than instants can say ends with an error, whether its gaps or its passes are too long.
func TestRunsThatAreTooLong(t *testing.T) {
	for _, change := range []func(c *Config){
		func(c *Config) { c.Synthetic.EveryMS = 1e12 },
		func(c *Config) { c.Synthetic.EveryMS, c.Speedup = 1, 1e-300 },
		func(c *Config) { c.Synthetic.Turns, c.Synthetic.ThinkMS = 9, 1e12 },
		func(c *Config) {
			c.Synthetic.Turns, c.Synthetic.ThinkMS, c.Load, c.Concurrency = 9, 1e12, LoadConcurrency, 1
		},
		func(c *Config) { c.Engine.Timing = engine.NewTiming(slow(c.Engine.Config), nil) },
	} {
		c := Default()
		c.Synthetic = &workload.SyntheticOptions{Sessions: 50, In: 100, Out: 5000}
		change(&c)
		_, err := Run(context.Background(), c)
		require.ErrorIs(t, err, fleet.ErrTooLong)
	}
}

// slow returns an engine that hardly moves.
func slow(c engine.Config) engine.Config {
	c.SpeedupRatio = 1e-300
	return c
}
