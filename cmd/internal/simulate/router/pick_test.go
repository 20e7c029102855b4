package router

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/simulate/engine"
	"github.com/agentx/agentx/cmd/internal/simulate/preset"
	"github.com/agentx/agentx/internal/pyrand"
)

// Ties at random take every worker of the lowest cost equally often, whatever else is known of it.
//
// Covers S-21.
func TestTiesAtRandomAreUniform(t *testing.T) {
	p := picker{randomTies: true, stream: pyrand.NewPCG64(7)}
	list := candidatesOf([]float64{3, 1, 1, 2, 1})
	list[2].index, list[4].dispatched = 100, 100
	counts := make([]int, len(list))
	for range 30_000 {
		counts[p.pick(list)]++
	}
	for k, want := range []int{0, 10_000, 10_000, 0, 10_000} {
		require.InDelta(t, want, counts[k], 300)
	}
	again := picker{randomTies: true, stream: pyrand.NewPCG64(7)}
	first := picker{randomTies: true, stream: pyrand.NewPCG64(7)}
	for range 100 {
		require.Equal(t, first.pick(list), again.pick(list))
	}
}

// A temperature draws by the probabilities of the costs; equal costs are equally likely, and one draw is one number of the stream.
//
// Covers S-21.
func TestTemperatureDrawsByCost(t *testing.T) {
	for _, costs := range [][]float64{{10, 12, 14}, {5, 5, 5}, {1, 1e9, 2}, {4}} {
		p := picker{temperature: 0.5, stream: pyrand.NewPCG64(1)}
		list := candidatesOf(costs)
		counts := make([]float64, len(list))
		for range 30_000 {
			counts[p.pick(list)]++
		}
		sum := 0.0
		for k := range counts {
			sum += p.weights[k]
			require.InDelta(t, p.weights[k], counts[k]/30_000, 0.01, "%v", costs)
		}
		require.InDelta(t, 1, sum, 1e-12)
	}
	cold := picker{temperature: 1e-3, stream: pyrand.NewPCG64(1)}
	for range 100 {
		require.Equal(t, 1, cold.pick(candidatesOf([]float64{2, 1, 3})))
	}
}

// A decode pool counts blocks alone, and the prefix only where it has a credit.
//
// Covers S-21.
func TestDecodeCost(t *testing.T) {
	c := candidate{prefillTokens: 1 << 20, overlap: 10, active: 30, lead: 4, requests: 3}
	k := costs{Config: Default(preset.CostCredit), kind: preset.CostCredit, role: engine.Decode, blockSize: 64}
	require.Equal(t, 30.0+16-4, k.of(&c, 1000))
	k.DecodeOverlapCredit, k.ActiveRequestWeight = 0.5, 2
	require.Equal(t, 30.0+16-4-5+6, k.of(&c, 1000))
	k.DecodeOverlapCredit = 100
	require.Equal(t, 6.0, k.of(&c, 1000))
	k.kind = preset.CostWeight
	require.Equal(t, 0.0, k.of(&c, 1000))
	require.False(t, math.Signbit(k.of(&c, 1000)))
}
