package report

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentx/agentx/replay/preset"
)

// The flow curve spreads as many tokens as came after the first chunk, whether or not the server told how many each chunk has.
func TestFlowKeepsTokens(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		for _, r := range randomRecords(rt) {
			x := newRow(&r)
			steps := flow(nil, &x, r.Contents)
			osl := r.OSL()
			if r.Error != nil || osl == unknown {
				require.Empty(rt, steps)
				continue
			}
			held, flowed := 0.0, 0.0
			for k, s := range steps {
				held += s.tokens
				if k+1 < len(steps) {
					require.Greater(rt, steps[k+1].at, s.at)
					flowed += s.rate * float64(steps[k+1].at-s.at)
				} else {
					require.Zero(rt, s.rate)
				}
			}
			require.InDelta(rt, float64(osl), held, 1e-9)
			if len(steps) < 2 {
				require.Zero(rt, flowed)
			} else {
				require.InDelta(rt, float64(osl)-steps[0].tokens, flowed, 1e-9)
			}
		}
	})
}

// Tokens flow over the gaps between content messages: of five messages, 0, 1, 2, 3 and 100 ms after
// the first, four come at 1,000 a second.
//
//
func TestFlowOverGaps(t *testing.T) {
	r := success(0, 110*ms, 10, 5, 10*ms, 11*ms, 12*ms, 13*ms, 110*ms)
	for _, name := range preset.Names {
		h := compute(t, infoOf(name, 1), r).Headline
		requireStats(t, h, "active_decode_throughput", map[string]float64{"p50": 1000 / 97.0, "max": 1000})
	}
}

// In the curve of the total the output tokens of a request come evenly until its end, under the presets whose tools have it so.
func TestTotalOfCurves(t *testing.T) {
	r := success(0, 110*ms, 10, 5, 10*ms, 11*ms, 12*ms, 13*ms, 110*ms)
	for name, p50 := range map[string]float64{preset.Default: 1000 / 97.0, preset.AIPerf: 40, preset.AgentX: 40} {
		h := compute(t, infoOf(name, 0.11), r).Headline
		requireStats(t, h, "effective_total_throughput", map[string]float64{"avg": 14 / 0.11, "p50": p50, "max": 1000})
		requireStats(t, h, "effective_decode_throughput", map[string]float64{"avg": 4 / 0.11, "max": 1000})
	}
}

// Results may name a flow curve that is gone. They are read, and the report says by which its curves are.
func TestEvenFlowIsRead(t *testing.T) {
	info := infoOf(preset.Default, 2)
	info.Switches = map[string]json.RawMessage{"FlowCurve": json.RawMessage(`"even"`)}
	run := writeRun(t, info, success(0, second, 10, 5, 100*ms, second))
	require.Len(t, run.Missing, 1)
	require.Contains(t, run.Missing[0], "FlowCurve even")
	res, err := run.Compute()
	require.NoError(t, err)
	require.Equal(t, preset.FlowChunks, res.Flow)
}
