package report

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/preset"
	"github.com/agentx/agentx/replay/wire"
)

// Of a request that goes on after the deadline, the steady block has the share that lies before it: of the request, of its prompt, and
// of its tokens as they flowed.
func TestSteadyIsClipped(t *testing.T) {
	for _, name := range preset.Names {
		info := infoOf(name, 30)
		info.Facts.Deadline = 10
		late := success(9500*ms, 10400*ms, 100, 11, 200*ms, 400*ms, 800*ms)
		waiting := success(9800*ms, 11*second, 300, 2, 800*ms, 1100*ms) // its first token comes after the deadline
		failed := failure(9000*ms, 10500*ms, wire.Timeout)
		for _, r := range []*measure.Record{&late, &waiting, &failed} {
			if name == preset.Default {
				r.Bucket = measure.Cooldown
			}
		}
		s := compute(t, info, success(0, second, 50, 5, 500*ms, second), late, waiting, failed).Steady
		output := 5 + 1 + 5 + 5*0.25
		requireStats(t, s, "request_throughput", map[string]float64{"avg": (1 + 5.0/9 + 2.0/12) / 10})
		requireStats(t, s, "input_token_throughput", map[string]float64{"avg": (50 + 100 + 300*0.25) / 10})
		requireStats(t, s, "output_token_throughput", map[string]float64{"avg": output / 10})
		requireStats(t, s, "total_token_throughput", map[string]float64{"avg": (50 + 100 + 300*0.25 + output) / 10})
		requireStats(t, s, "request_latency", map[string]float64{"count": 3, "max": 1100})
		requireStats(t, s, "error_request_count", map[string]float64{"avg": 1})
		requireStats(t, s, "effective_concurrency", map[string]float64{"avg": (1 + 0.5 + 0.2 + 1) / 10, "max": 3})
		requireStats(t, s, "effective_prefill_throughput", map[string]float64{"avg": (50 + 100 + 300*0.25) / 10})
		requireStats(t, s, "phase_duration", map[string]float64{"avg": 10})
		require.Nil(t, s.Find("cancelled_at_end_count"))
	}
}

// The steady block ends before the instant of the deadline: a token that comes then is not in it.
func TestSteadyEndsBeforeTheDeadline(t *testing.T) {
	for _, name := range preset.Names {
		info := infoOf(name, 30)
		info.Facts.Deadline = 10
		r := success(9*second, 10500*ms, 100, 11, second, 1500*ms)
		if name == preset.Default {
			r.Bucket = measure.Cooldown
		}
		s := compute(t, info, success(0, second, 50, 5, 500*ms, second), r).Steady
		requireStats(t, s, "output_token_throughput", map[string]float64{"avg": 5.0 / 10})
		requireStats(t, s, "input_token_throughput", map[string]float64{"avg": 150.0 / 10})
	}
}

// A phase that another bound ended before its deadline is steady up to its end.
func TestSteadyEndsWithThePhase(t *testing.T) {
	info := infoOf(preset.Default, 4)
	info.Facts.Deadline = 10
	s := compute(t, info, success(0, second, 50, 5, 500*ms, second)).Steady
	requireStats(t, s, "phase_duration", map[string]float64{"avg": 4})
	requireStats(t, s, "request_throughput", map[string]float64{"avg": 1.0 / 4})
	requireStats(t, s, "effective_concurrency", map[string]float64{"avg": 1.0 / 4})
}
