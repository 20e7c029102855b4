package runs

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/simulate"
	"github.com/agentx/agentx/cmd/internal/simulate/engine"
	"github.com/agentx/agentx/cmd/internal/simulate/fit"
	"github.com/agentx/agentx/cmd/internal/simulate/workload"
)

// fittedEngine is an engine that was fitted to passes with at most so many requests that decode.
func fittedEngine(t *testing.T, batch int) simulate.Engine {
	c := engine.Default()
	c.Timing.Formula = &engine.Formula{Pass: 5, Token: 0.05, Seen: &engine.Seen{New: 8192, Prefix: 1 << 20, Batch: batch, KV: 1 << 30}}
	c.Fit = &engine.Fit{Requests: 100, Errors: map[string]float64{"ttft.p50": 0.012}}
	e, err := simulate.NewEngine(c)
	require.NoError(t, err)
	return e
}

// Covers S-86.
func TestExtrapolationIsRefused(t *testing.T) {
	run := func(batch int, accepted bool) *Run {
		r := &Run{Config: simulate.Default()}
		r.Config.Engine = fittedEngine(t, batch)
		r.Config.Synthetic = &workload.SyntheticOptions{Sessions: 40, In: 100, Out: 50}
		(&Player{Extrapolate: accepted}).Play(context.Background(), []*Run{r})
		return r
	}
	refused := run(20, false)
	require.ErrorContains(t, refused.Err, "passes lie outside of what the engine was fitted to (at most 8192 new tokens, 1048576 prefix tokens, 20 requests that decode")
	require.ErrorContains(t, refused.Err, "--extrapolate")
	require.Nil(t, refused.Summary)
	accepted := run(20, true)
	require.NoError(t, accepted.Err)
	require.Positive(t, accepted.Summary.Outside)
	require.Len(t, accepted.Warnings, 1)
	require.NoError(t, run(40, false).Err)
	require.Equal(t, "\nerror of the fit ttft.p50 +1.2 %\n", fitText([]*Run{accepted, refused}))
}

// What an engine is said to have measured it gives again.
//
// Covers S-87.
func TestARunIsPlayedAndCompared(t *testing.T) {
	c := simulate.Default()
	c.Engine = fittedEngine(t, 100)
	c.Synthetic = &workload.SyntheticOptions{Sessions: 9, In: 3000, Out: 50, EveryMS: 40, Turns: 3, ThinkMS: 300}
	got, err := simulate.Run(context.Background(), c)
	require.NoError(t, err)
	var list []fit.Request
	for _, q := range got.Requests {
		list = append(list, fit.Request{Prompt: q.Prompt, Output: q.Output, Chain: q.Chain, Tree: q.Session, Lane: q.Session, Sent: q.Arrival, First: q.First, Last: q.Last, Cached: q.Reused})
	}
	fit.Link(list)
	play := func(change func(*fit.Request)) *Run {
		c.Synthetic, c.Measured = nil, append([]fit.Request{}, list...)
		for k := range c.Measured {
			change(&c.Measured[k])
		}
		r := &Run{Config: c}
		(&Player{}).Play(context.Background(), []*Run{r})
		require.NoError(t, r.Err)
		return r
	}
	r := play(func(*fit.Request) {})
	require.Equal(t, simulate.LoadRun, r.Summary.Run.Load)
	require.Equal(t, 27, r.Summary.Requests)
	for _, e := range r.Compared {
		require.Zero(t, e.Relative, e.Name)
	}
	require.Contains(t, comparedText(r), "ttft.p95")
	late := play(func(r *fit.Request) { r.First += 1e9; r.Last += 1e9 })
	require.Equal(t, "ttft.p50", late.Compared[0].Name)
	require.Less(t, late.Compared[0].Relative, -0.5)
}
