package fleet

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/simulate/engine"
	"github.com/agentx/agentx/cmd/internal/simulate/preset"
	"github.com/agentx/agentx/internal/fixtures"
)

// Covers S-24.
func TestScalingVectors(t *testing.T) {
	type in struct {
		Active, Starting []int
		Next             int `json:"next_id"`
		Target           int
	}
	type want struct {
		Active, Starting, Added []int
	}
	fixtures.EachSimulate(t, "scaling", fixtures.SimulateCounts{2, 2, 2}, func(t *testing.T, c fixtures.SimulateCase, in in, want want) {
		config := engine.Default()
		config.StartupTime = 1
		switches, _ := preset.Named(c.Preset)
		o := Options{Pools: []Pool{{Workers: len(in.Active), Engine: config}}, Switches: switches}
		p := newRun(o).pools[0]
		for len(p.results) < in.Next-len(in.Starting) {
			p.results = append(p.results, WorkerResult{})
		}
		for range in.Starting {
			p.order(0, 1e9)
		}
		known := len(p.results)
		p.scale(0, in.Target)
		require.Equal(t, want.Starting, p.state().Starting)
		require.Equal(t, in.Active, p.state().Active)
		require.Len(t, p.results, max(known, in.Next)+len(want.Starting)-len(in.Starting))
	})
}

// plan is a planner that knows all its targets.
type plan struct {
	at      []int64
	targets [][]int
	seen    []State
}

func (p *plan) Next() int64 {
	if len(p.seen) == len(p.at) {
		return never
	}
	return p.at[len(p.seen)]
}

func (p *plan) Tick(_ int64, s State) ([]int, error) {
	for i := range s.Pools {
		s.Pools[i].Ready = nil
	}
	p.seen = append(p.seen, s)
	return p.targets[len(p.seen)-1], nil
}

// scaled plays one request every 100 ms, of 1000 prompt tokens and 100 to generate, with the targets at their instants in milliseconds.
func scaled(t *testing.T, startup float64, p *plan) *Result {
	got, err := runScaled(t, startup, p)
	require.NoError(t, err)
	return got
}

func runScaled(t *testing.T, startup float64, p *plan) (*Result, error) {
	in := engineIn{Engine: json.RawMessage(`{}`), Workers: 2, TraceBlock: 64}
	for k := range 20 {
		row, _ := json.Marshal(map[string]any{"timestamp": 100 * k, "input_length": 1000, "output_length": 100, "hash_ids": []int{100*k + 7}})
		in.Rows = append(in.Rows, row)
	}
	s, _ := structureOf(t, in.Rows, 1000)
	o := optionsOf(t, in, preset.Default, s)
	o.Pools[0].Engine.StartupTime, o.Planner = startup, p
	return Run(context.Background(), o)
}

func workersOf(r *Result) (list []int) {
	for _, one := range r.Requests {
		list = append(list, one.Worker)
	}
	return list
}

// Covers S-24.
func TestScaling(t *testing.T) {
	p := &plan{at: []int64{250e6, 650e6, 1050e6, 1450e6}, targets: [][]int{{4}, nil, {1}, {2}}}
	got := scaled(t, 0.3, p)
	var states []PoolState
	for k, s := range p.seen {
		states = append(states, s.Pools...)
		require.True(t, s.LastEvent > p.at[k]-10e6 && s.LastEvent <= p.at[k], "a pass ended shortly before")
	}
	require.Equal(t, []PoolState{
		{Active: []int{0, 1}}, {Active: []int{0, 1, 2, 3}}, {Active: []int{0, 1, 2, 3}}, {Active: []int{0}, Draining: []int{1, 2}},
	}, states)
	require.Equal(t, []int{0, 1, 0, 1, 0, 1, 2, 3, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 4, 0}, workersOf(got))
	var lives [][4]int64
	for _, w := range got.Workers[0] {
		lives = append(lives, [4]int64{w.Ordered, w.Ready, w.Drained, w.Gone})
	}
	last := func(worker int) (at int64) {
		for _, r := range got.Requests {
			if r.Worker == worker {
				at = max(at, r.Last)
			}
		}
		return at
	}
	require.Equal(t, [][4]int64{
		{0, 0, got.Duration, got.Duration}, {0, 0, 1050e6, last(1)}, {250e6, 550e6, 1050e6, last(2)}, {250e6, 550e6, 1050e6, last(3)},
		{1450e6, 1750e6, got.Duration, got.Duration},
	}, lives)
}

// Workers that start are cancelled first, the highest first; those that are left over drain, and disappear at once if they are idle.
//
// Covers S-24.
func TestScalingDown(t *testing.T) {
	p := &plan{at: []int64{10e6, 20e6, 30e6, 35e6, 1900e6}, targets: [][]int{{5}, {4}, {1}, {2}, {2}}}
	got := scaled(t, 0.3, p)
	var states []PoolState
	for _, s := range p.seen {
		states = append(states, s.Pools...)
	}
	require.Equal(t, []PoolState{
		{Active: []int{0, 1}},
		{Active: []int{0, 1}, Starting: []int{2, 3, 4}},
		{Active: []int{0, 1}, Starting: []int{2, 3}},
		{Active: []int{0}},
		{Active: []int{0, 5}},
	}, states)
	var gone []int64
	for _, w := range got.Workers[0] {
		require.LessOrEqual(t, w.Drained, w.Gone)
		gone = append(gone, w.Gone)
	}
	require.Equal(t, []int64{got.Duration, 30e6, 30e6, 30e6, 20e6, got.Duration}, gone)
	require.Equal(t, []int{0, 0, 0, 0, 5, 0, 5, 0}, workersOf(got)[:8])
}

// Requests that come while no worker is active wait for one, in their order. Without one to come, that is a dead end: ticks are no events.
//
// Covers S-24, S-26.
func TestNoActiveWorker(t *testing.T) {
	got := scaled(t, 0.3, &plan{at: []int64{150e6, 650e6}, targets: [][]int{{0}, {2}}})
	for k, r := range got.Requests {
		switch {
		case k < 2:
			require.Less(t, r.Worker, 2)
		case r.Arrival < 950e6:
			require.Equal(t, []int64{2 + int64(k%2), 950e6}, []int64{int64(r.Worker), r.Admitted})
		}
	}
	_, err := runScaled(t, 0.3, &plan{at: []int64{150e6, 9000e6}, targets: [][]int{{0}, {2}}})
	require.ErrorContains(t, err, "18 requests cannot end; session 2 turn 0 on no worker: prompt of 1000 tokens, waiting; session 3")
}

// A worker that drains stays until the requests have come that are on their way to it, and those have arrived whose prompts it holds.
//
// Covers S-24, S-25.
func TestDrainingWaitsForHandOffs(t *testing.T) {
	p := &plan{at: []int64{100e6, 900e6, 1500e6}, targets: [][]int{{1, 1}, nil, nil}}
	o := disaggOf(t, `{"kv_bytes_per_token":1000000,"kv_transfer_gb_s":1,"kv_transfer_timing":"destination_missing"}`, row(0, 1000, 2, 0), row(0, 1000, 2, 100), row(3000, 10, 1, 500))
	o.Pools[0].Workers, o.Pools[1].Workers, o.Planner = 2, 2, p
	got, err := Run(context.Background(), o)
	require.NoError(t, err)
	for pool := range 2 {
		require.Equal(t, []PoolState{{Active: []int{0, 1}}, {Active: []int{0}, Draining: []int{1}}, {Active: []int{0}}}, []PoolState{p.seen[0].Pools[pool], p.seen[1].Pools[pool], p.seen[2].Pools[pool]})
	}
	require.Equal(t, []int{0, 1, 0}, workersOf(got))
	timing := o.Pools[1].Timing
	require.Equal(t, []int64{got.Requests[1].Last - timing.Decode(1000, 1000, 1) - timing.Decode(1001, 1001, 1), got.Requests[1].Last}, []int64{got.Workers[0][1].Gone, got.Workers[1][1].Gone})
}

func TestPlannersThatCannotBeUsed(t *testing.T) {
	for message, p := range map[string]*plan{
		"planner: targets [1 1]: want a number of workers, 0 or more, for each of 1 pools": {at: []int64{5e6}, targets: [][]int{{1, 1}}},
		"planner: targets [-1]: want a number of workers, 0 or more, for each of 1 pools":  {at: []int64{5e6}, targets: [][]int{{-1}}},
		"planner: the next tick is at 5000000 ns, not after the one at 5000000 ns":         {at: []int64{5e6, 5e6}, targets: [][]int{nil, nil}},
		"planner: the next tick is at 1000000 ns, not after the one at 5000000 ns":         {at: []int64{5e6, 1e6}, targets: [][]int{nil, nil}},
	} {
		_, err := runScaled(t, 0, p)
		require.EqualError(t, err, message)
	}
}

// A planner that is a pipeline scales a disaggregated fleet before the requests of its tick are released, an aggregated one after them.
//
// Covers S-19.
func TestTicksBeforeReleases(t *testing.T) {
	for _, name := range []string{preset.Default, preset.Dynamo16} {
		o := disaggOf(t, `{}`, row(0, 1000, 2, 0), row(100, 1000, 2, 100))
		o.Switches, _ = preset.Named(name)
		o.Pools[0].Workers, o.Pools[1].Workers, o.Planner = 1, 1, &plan{at: []int64{100e6}, targets: [][]int{{2, 1}}}
		got, err := Run(context.Background(), o)
		require.NoError(t, err)
		require.Equal(t, name == preset.Dynamo16, got.Requests[1].Prefill.Worker == 1, name)
		o = disaggOf(t, `{}`, row(0, 1000, 2, 0), row(100, 1000, 2, 100))
		o.Pools, o.Planner = o.Pools[:1], &plan{at: []int64{100e6}, targets: [][]int{{2}}}
		o.Pools[0].Workers = 1
		o.Switches, _ = preset.Named(name)
		got, err = Run(context.Background(), o)
		require.NoError(t, err)
		require.Equal(t, 0, got.Requests[1].Worker, name)
	}
}
