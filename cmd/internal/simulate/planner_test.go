package simulate

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/simulate/planner"
	"github.com/agentx/agentx/cmd/internal/simulate/preset"
	"github.com/agentx/agentx/cmd/internal/simulate/router"
	"github.com/agentx/agentx/cmd/internal/simulate/workload"
	"github.com/agentx/agentx/convert/reconstruct"
	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/convert/weka"
	"github.com/agentx/agentx/mmapcache"
)

// conversationOf returns the first rows of the public conversation trace, which is no part of the project.
func conversationOf(t testing.TB, n int) *Input {
	const file = "../../../../shared/corpus/mooncake-conversation.jsonl.zst"
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("%s is not here", file)
	}
	require.NoError(t, err)
	defer f.Close()
	z, err := zstd.NewReader(f)
	require.NoError(t, err)
	defer z.Close()
	rules := rules.Default()
	rules.BlockSize = 512
	m := weka.NewMooncake(0, rules)
	lines := bufio.NewScanner(z)
	for range n {
		require.True(t, lines.Scan())
		require.NoError(t, m.Add(lines.Bytes()))
	}
	traces, err := m.Traces()
	require.NoError(t, err)
	s := mmapcache.NewStructure()
	for _, trace := range traces {
		p, _, err := reconstruct.MakePlan(trace, rules)
		require.NoError(t, err)
		require.NoError(t, s.Append(p))
	}
	in, err := NewInput(mmapcache.CacheOf(s, mmapcache.StructureFacts{Generations: map[string]int{mmapcache.FormatMooncake: len(traces)}}))
	require.NoError(t, err)
	return in
}

// planned returns a run with the planner of the published example: 11.1.
func planned(mode string) Config {
	c := Default()
	p := planner.Default()
	p.Mode, p.TTFT, p.ITL, p.LoadScaling, p.ThroughputInterval, p.LoadInterval = mode, 2500, 50, true, 60, 5
	c.Planner, c.Workers = &p, 2
	if mode == planner.Disaggregated {
		c.Workers, c.PrefillWorkers, c.DecodeWorkers = 0, 1, 1
	}
	return c
}

// A planner over a whole trace: floors, least and budget hold on every tick, windows add up, and equal runs are equal.
//
// Covers S-48.
func TestPlannerOfAWholeTrace(t *testing.T) {
	in := conversationOf(t, 2361)
	for _, mode := range []string{planner.Aggregated, planner.Disaggregated} {
		for _, router := range routers {
			c := planned(mode)
			c.Input, c.Router = in, router
			if c.Disaggregated() && router == KVRouter { // which one worker leaves nothing to choose
				c.PrefillWorkers, c.DecodeWorkers = 2, 2
			}
			if mode == planner.Aggregated && router == KVRouter && testing.Short() {
				continue
			}
			r, err := Run(context.Background(), c)
			require.NoError(t, err)
			require.Len(t, r.Requests, 2361)
			checkTicks(t, r)
			first, err := json.Marshal(r.Planned)
			require.NoError(t, err)
			again, err := Run(context.Background(), c)
			require.NoError(t, err)
			second, err := json.Marshal(again.Planned)
			require.NoError(t, err)
			require.Equal(t, string(first), string(second))
			s := r.Summary()
			require.Equal(t, len(r.Planned.Ticks), s.Planner.Ticks)
			t.Logf("%s %s: %d ticks, %d transitions, %d events, %.3f GPU-hours, TTFT mean %.1f ms, ITL mean %.2f ms, warnings %v", mode, router,
				s.Planner.Ticks, s.Planner.Transitions, s.Planner.Events, r.Planned.Ticks[len(r.Planned.Ticks)-1].GPUHours, s.TTFT.Mean*1e3, s.ITL.Mean*1e3, r.Planned.Warnings)
		}
	}
}

// The same of a load that asks for more workers than the budget has.
//
// Covers S-48.
func TestPlannerOfASyntheticRun(t *testing.T) {
	for _, mode := range []string{planner.Aggregated, planner.Disaggregated} {
		c := planned(mode)
		c.Synthetic = &workload.SyntheticOptions{Sessions: 6000, In: 9000, Out: 200, EveryMS: 30}
		r, err := Run(context.Background(), c)
		require.NoError(t, err)
		checkTicks(t, r)
		most := 0
		for _, tick := range r.Planned.Ticks {
			asked := 0
			for _, one := range tick.Pools {
				asked += one.Recommended
			}
			most = max(most, asked)
		}
		require.Greater(t, most, c.Planner.MaxGPUBudget, "%s: the budget was never asked", mode)
	}
}

func checkTicks(t *testing.T, r *Result) {
	p, requests, hits := r.Planned, 0, 0
	require.Empty(t, p.Bootstrap.Failed)
	decisions := map[planner.Reason]int{}
	for i, tick := range p.Ticks {
		require.Equal(t, int64(i+1)*5e9, tick.At)
		require.Equal(t, (i+1)%12 == 0, tick.Throughput)
		gpus := 0
		for k, one := range tick.Pools {
			gpus += one.Target
			require.GreaterOrEqual(t, one.Target, p.Config.MinEndpoint)
			require.GreaterOrEqual(t, one.Recommended, one.Floor, "tick %d pool %d: %+v", i, k, one)
			decisions[one.LoadReason]++
			if one.Capacity != nil {
				checkCapacity(t, r, k, tick)
			}
		}
		require.LessOrEqual(t, gpus, p.Config.MaxGPUBudget)
		if tick.Window != nil {
			requests, hits = requests+tick.Window.Requests, hits+tick.Window.Hits
			require.Equal(t, 60.0, tick.Window.Seconds())
		}
	}
	require.Equal(t, len(r.Requests), requests+p.Rest.Requests)
	require.Equal(t, r.Config.Router == KVRouter, hits > 0)
	t.Log(decisions)
}

// The planner hears of every prompt that a KV router sends away, those that it kept for a while too.
//
// Covers S-33.
func TestPlannerHearsOfRoutedPrompts(t *testing.T) {
	for _, threshold := range []float64{0.1, 100} {
		c := planned(planner.Aggregated)
		keys := router.Default(c.Switches.RouterCost)
		keys.QueueThreshold = &threshold
		c.Workers, c.Router, c.RouterConfig = 2, KVRouter, &keys
		c.Synthetic = &workload.SyntheticOptions{Sessions: 300, In: 3000, Out: 20, EveryMS: 50, Shared: 0.5, Groups: 3}
		r, err := Run(context.Background(), c)
		require.NoError(t, err)
		want, got, hits := 0.0, r.Planned.Rest.Hit, r.Planned.Rest.Hits
		for _, q := range r.Requests {
			want += float64(q.Overlap) / 47 // 3000 tokens are 46 blocks and a part of one
		}
		for _, tick := range r.Planned.Ticks {
			if tick.Window != nil {
				got, hits = got+tick.Window.Hit, hits+tick.Window.Hits
			}
		}
		require.Positive(t, want)
		require.InDelta(t, want, got, 1e-9)
		require.Equal(t, 300, hits)
	}
}

// A tick of a pipeline counts the requests of its instant, which come after it, once.
//
// Covers S-75.
func TestPipelineCountsArrivalsOnce(t *testing.T) {
	c := planned(planner.Disaggregated)
	c.Switches, _ = preset.Named(preset.Dynamo16)
	c.Switches.Predictor, c.Planner.ThroughputInterval = "constant", 10
	c.Synthetic = &workload.SyntheticOptions{Sessions: 80, In: 4000, Out: 50, EveryMS: 500}
	r, err := Run(context.Background(), c)
	require.NoError(t, err)
	n, first := r.Planned.Rest.Requests, 0
	for _, tick := range r.Planned.Ticks {
		if tick.Window != nil {
			n += tick.Window.Requests
			if first == 0 {
				first = tick.Window.Requests
			}
		}
	}
	require.Equal(t, []int{80, 21}, []int{n, first}) // from 0 to 10 s
	require.NotZero(t, r.Planned.Ticks[3].Window.Shapes)
}

// checkCapacity compares what the planner thinks an engine can do with the engine's own configuration.
func checkCapacity(t *testing.T, r *Result, pool int, tick *planner.Tick) {
	e := r.Config.Engines()[pool].Config
	c, next := tick.Pools[pool].Capacity, tick.Predicted
	if r.Config.Disaggregated() && pool == 0 {
		return // no batch
	}
	held := int(float64(e.Blocks*e.BlockSize) / (next.ISL + next.OSL/2))
	require.LessOrEqual(t, c.MaxBatch, min(held, e.MaxSeqs))
	if r.Config.Disaggregated() {
		require.Equal(t, min(held, e.MaxSeqs), c.MaxBatch)
	}
}

// A planner plays the same with skip-ahead and without.
//
// Covers S-27.
func TestPlannerWithoutSkipAhead(t *testing.T) {
	transitions := 0
	for _, mode := range []string{planner.Aggregated, planner.Disaggregated} {
		for _, name := range []string{preset.Default, preset.August, preset.April} {
			c := planned(mode)
			c.Switches, _ = preset.Named(name)
			c.Switches.Predictor = "constant"
			for i := range 2 {
				one := []*Engine{&c.PrefillEngine, &c.DecodeEngine}[i]
				one.Config.StartupTime = 7
			}
			c.Engine.Config.StartupTime = 3
			c.Synthetic = &workload.SyntheticOptions{Sessions: 600, In: 9000, Out: 200, EveryMS: 300}
			var got []string
			for _, c.Plain = range []bool{false, true} {
				r, err := Run(context.Background(), c)
				require.NoError(t, err)
				data, err := json.Marshal(r.Planned)
				require.NoError(t, err)
				got = append(got, string(data))
				transitions += planner.Transitions(r.Planned.Ticks)
			}
			require.True(t, got[1] == got[0], "%s %s: the plain loop plans otherwise", mode, name)
		}
	}
	require.Greater(t, transitions, 20)
}

// A bootstrap that fails is no error: the summary says why, before what the planner found itself, and decisions begin when passes have
// fed the models.
//
// Covers S-72.
func TestSummaryOfAFailedBootstrap(t *testing.T) {
	c := planned(planner.Aggregated)
	c.Planner.ITL, c.Planner.LoadScaling, c.Planner.ThroughputInterval = 1, false, 6
	c.Synthetic = &workload.SyntheticOptions{Sessions: 100, In: 400, Out: 50, EveryMS: 200}
	summary := func() *PlannerSummary {
		r, err := Run(context.Background(), c)
		require.NoError(t, err)
		return r.Summary().Planner
	}
	const missed = "agg: at 3 of 3 throughput ticks with traffic, one request of the predicted lengths misses ttft_ms 2500 or itl_ms 1 on an engine of its own, " +
		"which more engines do not mend: raise the limit, or choose a faster engine"
	s := summary()
	require.Equal(t, []string{missed}, s.Warnings)
	require.Equal(t, []int{9 + 29}, s.Bootstrap.Samples)
	c.Synthetic.Sessions = 20
	require.Equal(t, []string{"it never decided: its first tick is at 6 s, and the run ended at 4.11 s"}, summary().Warnings)
	c.Synthetic.Sessions, c.Planner.ITL = 100, 1000
	require.Equal(t, []string{}, summary().Warnings, "null is no list")
	c.Planner.ITL, c.Engine.Config.MaxBatchedTokens = 1, 99
	s = summary()
	const why = "agg: no bootstrap: max_num_batched_tokens 99 is below 100, the shortest prompt that it times"
	require.Equal(t, planner.Bootstrap{Failed: why}, s.Bootstrap)
	require.Equal(t, []string{"its models begin empty, and decide nothing before passes have fed them: " + why, missed}, s.Warnings)
}

func TestPlannersThatDoNotFit(t *testing.T) {
	c := planned(planner.Aggregated)
	c.Synthetic = &workload.SyntheticOptions{Sessions: 1, In: 8844, Out: 173}
	require.NoError(t, c.Validate())
	wrong := func(want string, change func(c *Config)) {
		one, p := c, *c.Planner
		one.Planner = &p
		change(&one)
		require.ErrorContains(t, one.Validate(), want)
		_, err := Run(context.Background(), one)
		require.Error(t, err)
	}
	wrong(`planner: mode "disagg" does not fit the fleet`, func(c *Config) { c.Planner.Mode = planner.Disaggregated })
	wrong("planner: max_gpu_budget 3: min_endpoint 4, the least workers of agg, needs 4 GPUs", func(c *Config) { c.Planner.MaxGPUBudget, c.Planner.MinEndpoint = 3, 4 })
	wrong(`planner: predictor "arima": agentx has none of this name: set predictor to kalman or constant`, func(c *Config) { c.Switches.Predictor = preset.PredictARIMA })
	wrong("planner: load lanes has no arrivals", func(c *Config) { c.Load = LoadLanes })
	for _, n := range []int{1, 10_000} { // one request; many at one instant
		c.Synthetic = &workload.SyntheticOptions{Sessions: n, In: 100, Out: 20}
		r, err := Run(context.Background(), c)
		require.NoError(t, err)
		require.Equal(t, n, r.Summary().Completed, fmt.Sprint(n))
	}
}
