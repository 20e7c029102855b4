package simulate

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/cachetest"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/simulate/engine"
)

// Trees of the demo on lanes, from their structure alone: without a bound each once, within bounds again and again.
//
// Covers S-04.
func TestLanes(t *testing.T) {
	demo := cachetest.Demo(t)
	c, err := mmapcache.OpenStructure(demo.Root, demo.Manifest.Parts[mmapcache.StructureKind].Key)
	require.NoError(t, err)
	defer c.Close()
	input, err := NewInput(c)
	require.NoError(t, err)
	config := Default()
	config.Input, config.Concurrency, config.Workers = input, 4, 2
	play := func(change func(*Config)) *Result {
		one := config
		change(&one)
		r, err := Run(context.Background(), one)
		require.NoError(t, err)
		return r
	}
	all := play(func(*Config) {})
	require.Len(t, all.Requests, c.Structure.Turns.Len())
	plain := play(func(c *Config) { c.Plain = true })
	require.Len(t, plain.Requests, len(all.Requests))
	for k, r := range all.Requests {
		assert.Equal(t, engine.Done, r.Status)
		assert.Equal(t, [2]int64{plain.Requests[k].Arrival, plain.Requests[k].Last}, [2]int64{r.Arrival, r.Last})
	}
	assert.Len(t, play(func(c *Config) { c.LimitRequests = 50 }).Requests, 50)
	assert.Len(t, play(func(c *Config) { c.LimitRequests = 500 }).Requests, 500, "trees are played again")
	traces := play(func(c *Config) { c.LimitTraces, c.Concurrency = 2, 2 })
	assert.Len(t, traces.Requests, int(c.Structure.Traces.At(0).Turns+c.Structure.Traces.At(1).Turns))
	for _, k := range []int{20, 60, 100} {
		at := all.Requests[k].Arrival
		n := 0
		for _, r := range all.Requests {
			if r.Arrival <= at {
				n++
			}
		}
		assert.Len(t, play(func(c *Config) { c.MaxTime = time.Duration(at) }).Requests, n, "what is due at the bound leaves")
	}
	assert.Len(t, play(func(c *Config) { c.Concurrency = 17 }).Requests, len(all.Requests), "a lane without a tree")
	bounded := config
	bounded.Concurrency, bounded.LimitRequests, bounded.LimitTraces = 9, 50, 8
	require.ErrorContains(t, bounded.Validate(), "9 lanes, but 8 traces: within a bound of requests or time")
	small := play(func(c *Config) { c.Engine.Config.Blocks, c.Workers = 100, 1 })
	rejected := 0
	for _, r := range small.Requests {
		if r.Status == engine.Rejected {
			rejected++
		}
	}
	assert.Positive(t, rejected)
	assert.Less(t, len(small.Requests), len(all.Requests), "a session whose prompt fits no worker has ended")
}
