package compare

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/replay/measure"
)

// The frontier ranks by what was delivered, under every preset: 32 lanes that gave more before the deadline are above 16 whose window is shorter.
// What is not known of a run is its throughput.
//
// Covers T-221.
func TestFrontierIsOfWhatWasDelivered(t *testing.T) {
	of := func(rate, tokens measure.Number, kind string) *run {
		return &run{gpus: 2, summary: measure.Summary{
			Metrics:   measure.Metrics{OutputTokenRate: rate, ITL: measure.NewStat([]float64{0.1}), TTFT: measure.NewStat([]float64{1})},
			Delivered: measure.ThroughputWindow{Kind: kind, Seconds: 10, Amount: measure.Amount{OutputTokens: tokens}},
		}}
	}
	f := frontierOf([]*run{of(2000, 13000, "delivered"), of(1500, 20000, "delivered"), of(1400, 0, ""), of(1200, measure.Missing, "delivered")}, nil)
	for k, want := range []measure.Number{650, 1000, 700, 600} {
		require.Equal(t, want, f.Points[k].Throughput)
		require.Equal(t, k != 1, f.Points[k].At["p50"].Dominated)
	}
}
