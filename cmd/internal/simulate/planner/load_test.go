package planner

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/fixtures"
)

// loadIn is the input of a vector of the group load.
type loadIn struct {
	Estimates       []float64 `json:"estimates_ms"`
	Replicas        int
	SLA             float64 `json:"sla_ms"`
	Sensitivity     float64
	Least           int `json:"min_endpoint"`
	Floor           int `json:"throughput_floor"`
	Budget          int `json:"gpu_budget"`
	Consolidation   string
	Prefill, Decode *Reason
	KV              []int `json:"kv_tokens"`
	MaxKV           int   `json:"max_kv_tokens"`
	Mode            string
	OldFloor        int `json:"old_floor"`
	Tick            struct {
		Count  float64 `json:"predicted_count"`
		Window float64 `json:"window_s"`
		RPS    float64 `json:"engine_rps"`
	} `json:"throughput_tick"`
	LoadEstimates []float64 `json:"load_estimates_ms"`
}

type loadWant struct {
	Replicas         int
	Reason, Decision Reason
	Floor            int
	LoadReason       Reason `json:"load_reason"`
	ThroughputReason Reason `json:"throughput_reason"`
}

// workers returns n active workers.
func workers(n int) (w Workers) {
	for id := range n {
		w.Active = append(w.Active, id)
	}
	return w
}

// poolsOf returns a tick of pools of these sizes.
func poolsOf(n ...int) *Tick {
	t := &Tick{}
	for _, n := range n {
		t.Pools = append(t.Pools, PoolTick{Active: n})
	}
	return t
}

// stepOf returns the verdict that a reason names; nil is undefined.
func stepOf(r *Reason) verdict {
	if r == nil {
		return verdict{}
	}
	return verdict{defined: true, step: map[Reason]int{scaleUp: 1, scaleDown: -1}[*r]}
}

// Covers S-40, S-46.
func TestLoadVectors(t *testing.T) {
	config := Default()
	config.LoadScaling = true
	fixtures.EachSimulate(t, "load", fixtures.SimulateCounts{12, 12, 11}, func(t *testing.T, c fixtures.SimulateCase, in loadIn, want loadWant) {
		switch {
		case in.Estimates != nil:
			config.MinEndpoint, config.MaxGPUBudget = in.Least, in.Budget
			p := flat(t, config, Aggregated, 3.5)
			p.floors[0] = in.Floor
			tick := poolsOf(in.Replicas)
			targets := tick.targets(p.settle(tick, []verdict{{step: judge(in.Estimates, in.SLA, in.Sensitivity, in.Least), defined: true}}))
			require.Equal(t, []any{want.Replicas, want.Reason}, []any{targets[0], tick.LoadReason})
		case in.KV != nil:
			p := flat(t, config, Aggregated, 3.5)
			p.config.ITL, p.consolidation = 50, switchesOf(t, c.Preset).Consolidation == "on"
			p.engines[0].MaxKV = in.MaxKV
			for id, kv := range in.KV {
				p.Passed(0, id, passOf(0, kv, 0))
			}
			tick, targets, err := tickOf(p, workers(in.Replicas))
			require.NoError(t, err)
			require.Equal(t, []any{want.Replicas, want.Reason}, []any{targets[0], tick.LoadReason})
			p.consolidation = false
			tick, targets, err = tickOf(p, workers(in.Replicas))
			require.NoError(t, err)
			require.Equal(t, []any{want.Replicas - 1, scaleDown}, []any{targets[0], tick.LoadReason})
		case in.Mode != "":
			combined(t, in, want)
		default:
			step := map[int]Reason{1: scaleUp, 0: noChange, -1: scaleDown}[combine(stepOf(in.Prefill), stepOf(in.Decode)).step]
			require.Equal(t, want.Decision, step)
		}
	})
}

// tickOf ticks with models that stay flat.
func tickOf(p *Planner, pools ...Workers) (*Tick, []int, error) {
	p.absorb()
	for i, m := range p.models {
		m.fitted, m.at = Line{Intercept: step, Fitted: true}, m.samples.changes
		p.models[i] = m
	}
	return p.Tick(0, pools)
}

// combined plays a tick of both kinds: the load decision sees the new floor.
func combined(t *testing.T, in loadIn, want loadWant) {
	config := Default()
	config.LoadScaling, config.Predictor, config.ITL, config.TTFT = true, constant, in.SLA, 500
	config.ThroughputInterval, config.LoadInterval = 60, 59.8
	p := flat(t, config, in.Mode, in.Tick.RPS)
	p.floors[0] = in.OldFloor
	p.window = traffic(in.Tick.Count, in.Tick.Window)
	p.window.Begin = 59.8e9 - int64(in.Tick.Window*1e9)
	for id := range in.Replicas {
		p.Passed(0, id, passOf(0, 100, 0))
	}
	tick, targets, err := tickOf(p, workers(in.Replicas))
	require.NoError(t, err)
	require.True(t, tick.Load && tick.Throughput)
	require.Equal(t, []any{want.Replicas, want.Floor, want.LoadReason, want.ThroughputReason},
		[]any{targets[0], tick.Pools[0].Floor, tick.LoadReason, tick.ThroughputReason})
}

// vectorWant are the reasons of a vector.
type vectorWant struct{ Aggregate, Prefill, Decode Reason }

// Covers S-47.
func TestReasonVectors(t *testing.T) {
	type in struct {
		Prefill, Decode Reason
		Early           Reason `json:"early_return"`
	}
	fixtures.EachSimulate(t, "reasons", fixtures.SimulateCounts{5, 5, 5}, func(t *testing.T, c fixtures.SimulateCase, in in, want vectorWant) {
		if in.Early == "" {
			require.Equal(t, want.Aggregate, aggregate([]Reason{in.Prefill, in.Decode}))
			require.Equal(t, want.Aggregate, aggregate([]Reason{in.Decode, in.Prefill}))
			return
		}
		config := Default()
		config.LoadScaling = true
		p := flat(t, config, Disaggregated, 3.5)
		pools := []Workers{workers(1), workers(1)}
		if in.Early == scalingInProgress {
			p.Passed(0, 0, passOf(0, 1, 0))
			pools[1].Starting = 1
		}
		tick, _, err := tickOf(p, pools...)
		require.NoError(t, err)
		require.Equal(t, want, vectorWant{tick.LoadReason, tick.Pools[0].LoadReason, tick.Pools[1].LoadReason})
	})
	require.Equal(t, scaleDownRefused, aggregate([]Reason{noChange, scaleDownRefused}))
	require.Equal(t, scaleDown, aggregate([]Reason{insufficientData, scaleDown}))
	require.Equal(t, noChange, aggregate([]Reason{noChange, noChange}))
}

// What keeps load from deciding, and what targets other than sla decide by.
//
// Covers S-46, S-47.
func TestLoadReasons(t *testing.T) {
	config := Default()
	config.LoadScaling = true
	for _, c := range []struct {
		set     []string
		target  string
		passes  [][3]int // queued, KV, queued KV of workers
		n, more int      // active, starting
		want    Reason
		targets int
	}{
		{passes: nil, n: 2, want: noPassData, targets: 2},
		{passes: [][3]int{{}}, n: 2, want: workerCountMismatch, targets: 2},
		{passes: [][3]int{{}, {}}, n: 2, more: 1, want: scalingInProgress, targets: 3},
		{passes: [][3]int{{}, {}}, n: 2, more: 1, set: []string{"scale_while_scaling", "on"}, want: scalingInProgress, targets: 3}, // agg waits always
		{target: targetThroughput, passes: [][3]int{{0, 262144, 0}, {}}, n: 2, want: noChange, targets: 2},
		{target: targetThroughput, passes: [][3]int{{1, 262144, 0}, {}}, n: 2, want: scaleUp, targets: 3},
		{target: targetThroughput, passes: [][3]int{{0, 157286, 0}, {}}, n: 2, want: noChange, targets: 2}, // one would be too full
		{target: targetThroughput, passes: [][3]int{{0, 131071, 0}, {}}, n: 2, want: scaleDown, targets: 1},
		{target: targetThroughput, passes: [][3]int{{0, 157286, 1}, {}}, n: 2, want: noChange, targets: 2},
		{target: TargetLatency, passes: [][3]int{{0, 104858, 0}, {}}, n: 2, want: scaleUp, targets: 3},
		{target: TargetLatency, passes: [][3]int{{0, 26214, 0}, {}}, n: 2, want: scaleDown, targets: 1},
	} {
		config.Target = TargetSLA
		if c.target != "" {
			config.Target = c.target
		}
		p := flat(t, config, Aggregated, 3.5, c.set...)
		for id, w := range c.passes {
			p.Passed(0, id, passOf(w[0], w[1], w[2]))
		}
		pool := workers(c.n)
		pool.Starting = c.more
		tick, targets, err := tickOf(p, pool)
		require.NoError(t, err)
		require.Equal(t, []any{c.want, c.targets}, []any{tick.LoadReason, targets[0]}, "%+v", c)
	}
	p := flat(t, config, Disaggregated, 3.5) // latency: prefill queues of a pool of two
	for _, c := range []struct{ queued, want int }{{819, 2}, {820, 3}, {0, 1}} {
		for id := range 2 {
			p.Passed(0, id, passOf(c.queued*id, 0, 0))
		}
		_, targets, err := tickOf(p, workers(2), workers(1))
		require.NoError(t, err)
		require.Equal(t, c.want, targets[0], "%+v", c)
	}
}
