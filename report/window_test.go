package report

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/preset"
)

// A phase of 30 s with 4 s of grace, as the harness measured it: its rates and its effective curves are over the whole of it, its active
// curves are not. Of a phase that was cancelled the rates are over its requests, and the curves from its start to its last response.
//
// Covers T-55, A-2.
func TestWindowOfThePhase(t *testing.T) {
	width, list := int64(0), []measure.Record(nil)
	for k := range int64(7) {
		r := success((1+4*k)*second, (1+4*k)*second+(3+k)*500*ms, 100, 10, 400*ms, second)
		width += int64(r.End) - int64(r.Sent)
		list = append(list, r)
	}
	last := 25*second + 9*500*ms // response
	for _, name := range []string{preset.AIPerf, preset.AgentX} {
		info := infoOf(name, 34.004)
		res := compute(t, info, list...)
		requireStats(t, res.Headline, "request_throughput", map[string]float64{"avg": 7 / 34.004})
		requireStats(t, res.Headline, "effective_concurrency", map[string]float64{"avg": float64(width) / 34.004e9, "min": 0})
		requireStats(t, res.Headline, "effective_prefill_throughput", map[string]float64{"avg": 700 / 34.004})
		requireStats(t, res.Headline, "active_prefill_throughput", map[string]float64{"avg": 250})
		require.Equal(t, Window{"phase", start, start + 34004*ms, 34.004, true}, res.Window)
		require.Equal(t, start+34004*ms, res.PhaseEnd)

		info.Facts.Cancelled = true
		res = compute(t, info, list...)
		requireStats(t, res.Headline, "request_throughput", map[string]float64{"avg": 7 / 25.0})
		requireStats(t, res.Headline, "effective_concurrency", map[string]float64{"avg": float64(width) / float64(last)})
		requireStats(t, res.Headline, "active_prefill_throughput", map[string]float64{"avg": 250})
		require.Equal(t, Window{"benchmark", start + second, start + 26*second, 25, true}, res.Window)
	}
}

// The warmup has the window of its own phase. In a run that was cancelled later it came to its end.
//
// Covers T-55.
func TestWindowOfTheWarmup(t *testing.T) {
	warm := success(second, 2*second, 10, 2, 200*ms, second)
	warm.Phase, warm.Bucket = measure.WarmupPhase, measure.WarmupBucket
	info := infoOf(preset.AgentX, 30)
	info.Phases = []measure.PhaseSpan{{Name: measure.WarmupPhase, Start: info.Phases[0].Start.Add(-5e9), Duration: 4}, info.Phases[0]}
	for range 2 {
		w := compute(t, info, warm).Warmup
		requireStats(t, w, "request_throughput", map[string]float64{"avg": 1 / 4.0})
		requireStats(t, w, "effective_concurrency", map[string]float64{"avg": 1 / 4.0})
		info.Facts.Cancelled = true
	}
	info.Phases = info.Phases[:1] // it was cancelled in the warmup
	w := compute(t, info, warm).Warmup
	requireStats(t, w, "request_throughput", map[string]float64{"avg": 1})
	requireStats(t, w, "effective_concurrency", map[string]float64{"avg": 0.5})
}
