package router

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/simulate/preset"
	"github.com/agentx/agentx/internal/fixtures"
)

// vectorIn is the input of a vector of the group router: a choice, a draw, or a prefill in flight.
type vectorIn struct {
	BlockSize int `json:"block_size"`
	Prompt    int `json:"isl"`
	Workers   []struct {
		Prefill    int     `json:"prefill_tokens"`
		Excess     float64 `json:"excess_prefill_blocks"`
		Overlap    int
		Active     int `json:"active_blocks"`
		Lead       int `json:"active_lead"`
		Index      int
		Dispatched int
	}
	Config      Config
	Costs       []float64
	Temperature float64 `json:"router_temperature"`
	Tokens      int
	Elapsed     int64    `json:"elapsed_ms"`
	Expected    *float64 `json:"expected_ms"`
}

type vectorWant struct {
	Cost        []float64
	Pick        int
	Probability []float64
	Tokens      int
}

// Covers S-21, S-22.
func TestRouterVectors(t *testing.T) {
	fixtures.EachSimulate(t, "router", fixtures.SimulateCounts{10, 10, 6}, func(t *testing.T, c fixtures.SimulateCase, in vectorIn, want vectorWant) {
		switch {
		case in.Costs != nil:
			p := picker{temperature: in.Temperature}
			p.weigh(candidatesOf(in.Costs))
			require.InDeltaSlice(t, want.Probability, p.weights, c.Tol)
		case in.Tokens > 0:
			expect := int64(-1)
			if in.Expected != nil {
				expect = int64(*in.Expected * 1e6)
			}
			require.Equal(t, want.Tokens, remaining(in.Tokens, in.Elapsed*1e6, expect))
		default:
			checkChoice(t, c, in, want)
		}
	})
}

func checkChoice(t *testing.T, c fixtures.SimulateCase, in vectorIn, want vectorWant) {
	switches, ok := preset.Named(c.Preset)
	require.True(t, ok)
	k := costs{Config: in.Config, kind: switches.RouterCost, blockSize: in.BlockSize}
	var list []candidate
	for _, w := range in.Workers {
		one := candidate{
			prefillTokens: w.Prefill, excess: w.Excess, overlap: w.Overlap, active: w.Active, lead: w.Lead, index: w.Index, dispatched: w.Dispatched,
		}
		one.cost = k.of(&one, in.Prompt)
		list = append(list, one)
	}
	for n := range list {
		require.InEpsilon(t, want.Cost[n], list[n].cost, c.Tol)
	}
	require.Equal(t, want.Pick, (&picker{}).pick(list)) // ties by rule: all vectors were made with it
}

func candidatesOf(costs []float64) (list []candidate) {
	for _, cost := range costs {
		list = append(list, candidate{cost: cost})
	}
	return list
}
