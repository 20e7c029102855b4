package page

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/simulate"
	"github.com/agentx/agentx/cmd/internal/simulate/planner"
	"github.com/agentx/agentx/cmd/internal/simulate/workload"
)

// plannedConfig is a run of a made-up load with a planner: 2 workers at the beginning, or 1 and 1.
func plannedConfig(mode string) simulate.Config {
	c := simulate.Default()
	c.Synthetic = &workload.SyntheticOptions{Sessions: 1200, In: 6000, Out: 300, Rate: 4, Shared: 0.5, Groups: 20}
	p := planner.Default()
	p.Mode, p.TTFT, p.ITL, p.LoadScaling, p.ThroughputInterval, p.LoadInterval = mode, 1500, 40, true, 60, 5
	c.Planner, c.Workers = &p, 2
	for _, e := range []*simulate.Engine{&c.Engine, &c.PrefillEngine, &c.DecodeEngine} {
		e.Config.StartupTime, e.Config.SpeedupRatio = 12, 0.35
		*e, _ = simulate.NewEngine(e.Config)
	}
	if mode == planner.Disaggregated {
		c.Workers, c.PrefillWorkers, c.DecodeWorkers = 0, 1, 1
	}
	return c
}

// sampledConfig is a run of a made-up load without a planner.
func sampledConfig(workers int) simulate.Config {
	c := simulate.Default()
	c.Synthetic = &workload.SyntheticOptions{Sessions: 400, In: 6000, Out: 200, Rate: 3, Shared: 0.5, Groups: 20, Turns: 2, ThinkMS: 2000}
	c.Workers, c.Sampling.On = workers, true
	c.Engine.Config.Blocks = 2000
	c.Engine, _ = simulate.NewEngine(c.Engine.Config)
	return c
}

// longConfig has about 10,000 ticks of up to 8 engines.
func longConfig() simulate.Config {
	c := plannedConfig(planner.Aggregated)
	c.Synthetic = &workload.SyntheticOptions{Sessions: 6000, In: 6000, Out: 200, Rate: 3}
	c.Planner.ThroughputInterval, c.Planner.LoadInterval = 10, 0.2
	return c
}

// made returns a run, and its page.
func made(t testing.TB, c simulate.Config) (*simulate.Result, string) {
	t.Helper()
	r, err := simulate.Run(t.Context(), c)
	require.NoError(t, err)
	html, err := Make(r, r.Summary(), origin)
	require.NoError(t, err)
	return r, string(html)
}
