package simulate

import (
	"bytes"
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/cachetest"
	"github.com/agentx/agentx/mmapcache"
)

// demoInput returns the structure of the demo as an input.
func demoInput(t *testing.T) *Input {
	demo := cachetest.Demo(t)
	c, err := mmapcache.OpenStructure(demo.Root, demo.Manifest.Parts[mmapcache.StructureKind].Key)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	input, err := NewInput(c)
	require.NoError(t, err)
	return input
}

// A run that forgets its requests has the figures and warnings of one that keeps them.
//
// Covers S-31.
func TestForgottenRequestsAreCounted(t *testing.T) {
	input := demoInput(t)
	for name, change := range map[string]func(*Config){
		"one pool": func(*Config) {},
		"rejected": func(c *Config) { c.Engine.Config.Blocks, c.Workers = 100, 1 },
		"two pools": func(c *Config) {
			c.PrefillEngine, c.DecodeEngine, c.PrefillWorkers, c.DecodeWorkers = c.Engine, c.Engine, 2, 1
			c.Engine, c.Workers = Engine{}, 0
		},
	} {
		c := Default()
		c.Input, c.Concurrency, c.Workers, c.MaxTime, c.SLA = input, 8, 2, time.Minute, SLA{TTFT: int64(time.Second)}
		change(&c)
		kept, err := Run(context.Background(), c)
		require.NoError(t, err, name)
		c.Forget = true
		forgot, err := Run(context.Background(), c)
		require.NoError(t, err, name)
		assert.NotEmpty(t, kept.Requests)
		assert.Empty(t, forgot.Requests)
		var want, have bytes.Buffer
		require.NoError(t, kept.Summary().WriteJSON(&want))
		require.NoError(t, forgot.Summary().WriteJSON(&have))
		assert.Equal(t, want.String(), have.String(), name)
		assert.Equal(t, kept.Warnings(), forgot.Warnings())
	}
}

// What a run that forgets its requests holds does not grow with them, but for four numbers each of the first million.
func TestForgottenRequestsTakeNoMemory(t *testing.T) {
	c := Default()
	c.Input, c.Concurrency, c.Forget = demoInput(t), 8, true
	held := func(requests int) int64 {
		c.LimitRequests = requests
		r, err := Run(context.Background(), c)
		require.NoError(t, err)
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		runtime.KeepAlive(r)
		return int64(m.HeapAlloc)
	}
	held(100)
	const few, many = 2000, 32000
	assert.Less(t, held(many)-held(few), int64(many*100))
}

// Beyond a million requests percentiles are those of a histogram, and the rest is exact.
//
// Covers S-31.
func TestDurationsOfVeryManyRequests(t *testing.T) {
	var d durations
	var all []float64
	most := 0
	for k := range mostExact + 1 {
		ns := float64(k*k%1_000_003) * 1000
		d.add(ns)
		all = append(all, ns)
		most = max(most, len(d.list))
	}
	require.LessOrEqual(t, most, mostExact)
	have, want := d.distribution(), distributionOf(all)
	require.Empty(t, d.list)
	for k, pair := range [][2]float64{
		{float64(have.Mean), float64(want.Mean)}, {float64(have.P50), float64(want.P50)}, {float64(have.P99), float64(want.P99)}, {float64(have.Std), float64(want.Std)},
	} {
		assert.InEpsilon(t, pair[1], pair[0], 0.001, k)
	}
	assert.Equal(t, [3]float64{float64(want.Min), float64(want.Max), float64(want.N)}, [3]float64{float64(have.Min), float64(have.Max), float64(have.N)})
}
