package planner

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/simulate/preset"
	"github.com/agentx/agentx/internal/fixtures"
)

// Covers S-60.
func TestBatchOfThePublishedWorkload(t *testing.T) {
	l := Line{Intercept: 0.0045, Coef: [2]float64{1e-5, 1.1e-7}, Fitted: true}
	for _, rule := range []preset.Choice{"steady", preset.BalancePR8280} {
		c := aggCapacity(l, aggInput{
			isl: 8844, osl: 173, fresh: 8844, ttft: 2.5, itl: 0.05, balance: rule,
			engine: Engine{MaxBatchedTokens: 8192, MaxSeqs: 256, MaxKV: 262144},
		})
		require.Equal(t, []int{29, 29}, []int{c.MaxBatch, c.Batch}, rule)
		require.InDelta(t, 3.506, c.RPS, 5e-4)
		require.Equal(t, 2, replicas(5.75*60, 60, c.RPS, 1))
	}
}

// Covers S-61.
func TestPrefillIsAskedForPasses(t *testing.T) {
	l := Line{Intercept: 0.0165, Coef: [2]float64{1.6e-5}, Fitted: true}
	for _, c := range []struct{ isl, full, rest float64 }{{1, 0, 1}, {8191, 0, 8191}, {8192, 0, 8192}, {8193, 1, 1}, {16384, 1, 8192}, {16384.5, 2, 0.5}, {0, 0, 0}} {
		full, rest := chunksOf(c.isl, 8192)
		require.Equal(t, []float64{c.full, c.rest}, []float64{full, rest}, c.isl)
		if c.isl > 0 {
			want := c.full*(0.0165+1.6e-5*8192) + 0.0165 + 1.6e-5*c.rest
			require.InEpsilon(t, want, prefillSeconds(l, c.isl, 8192, 0), 1e-12)
			require.InEpsilon(t, 1/want, prefillCapacity(l, c.isl, Engine{MaxBatchedTokens: 8192}, 9).RPS, 1e-12)
		}
	}
}

// Covers S-62.
func TestDecodeBatchesByCapabilities(t *testing.T) {
	require.Equal(t, 29, heldBatch(Engine{MaxKV: 262144, MaxSeqs: 256}, 10_000, 8930.5))
	require.Equal(t, 16, heldBatch(Engine{MaxKV: 262144, MaxSeqs: 16}, 10_000, 8930.5))
	require.Equal(t, 11, heldBatch(Engine{}, 100_000, 8930.5))
	require.Equal(t, 256, heldBatch(Engine{}, 0, 8930.5))
	require.Equal(t, 1, heldBatch(Engine{MaxKV: 100}, 0, 8930.5))
}

// Throughput decides first on a combined tick; the result of load wins where there is one.
//
// Covers S-63.
func TestLoadSeesTheNewFloor(t *testing.T) {
	in := loadIn{Mode: Aggregated, Replicas: 2, OldFloor: 1, SLA: 50}
	in.Tick.Count, in.Tick.Window, in.Tick.RPS = 600, 60, 3.5
	combined(t, in, loadWant{Replicas: 3, Floor: 3, LoadReason: scaleUp, ThroughputReason: setLowerBound})
}

// Covers S-64.
func TestFloorActsWhereLoadIsContent(t *testing.T) {
	config := Default()
	config.LoadScaling, config.MaxGPUBudget = true, -1
	p := flat(t, config, Aggregated, 3.5)
	p.floors = []int{3}
	tick := poolsOf(2)
	require.Equal(t, []int{3}, p.settle(tick, []verdict{{defined: true}}))
	require.Equal(t, scaleUp, tick.LoadReason)
	p = flat(t, config, Disaggregated, 3.5)
	p.floors = []int{1, 4}
	tick = poolsOf(2, 2)
	require.Equal(t, []int{2, 4}, p.settle(tick, []verdict{{defined: true}, {reason: insufficientData}}))
	require.Equal(t, []Reason{noChange, scaleUp, scaleUp}, []Reason{tick.Pools[0].LoadReason, tick.Pools[1].LoadReason, tick.LoadReason})
}

// Covers S-65.
func TestSignsOfCoefficients(t *testing.T) {
	plane := func(a, b float64) (list []sample) {
		for _, x := range [][2]float64{{1, 500}, {8, 4000}, {32, 64000}, {64, 128000}, {128, 60000}, {256, 256000}} {
			list = append(list, sample{x: x, wall: 0.05 + a*x[0] + b*x[1]})
		}
		return list
	}
	l := fit(decodeKind, plane(-5e-7, 2e-7), 5)
	require.True(t, l.Fitted)
	require.InEpsilon(t, -5e-7, l.Coef[0], 1e-6)
	l = fit(decodeKind, plane(-2e-5, 2e-7), 5)
	require.True(t, l.Fitted)
	require.Zero(t, l.Coef[0])
	require.False(t, fit(decodeKind, plane(1e-5, -1e-8), 5).Fitted)
	require.False(t, fit(aggKind, plane(-5e-7, 2e-7), 5).Fitted)
	require.False(t, fit(decodeKind, collinear(), 5).Fitted, "collinear")
}

// collinear returns samples whose features say the same.
func collinear() (list []sample) {
	for k := range 5 {
		x := float64(k + 1)
		list = append(list, sample{x: [2]float64{x, 10 * x}, wall: x})
	}
	return list
}

// Covers S-66.
func TestReasonsOfPools(t *testing.T) {
	config := Default()
	config.Predictor = constant
	for k, want := range [][]Reason{{modelNotReady, partnerNotReady}, {partnerNotReady, modelNotReady}} {
		p := flat(t, config, Disaggregated, 3)
		p.models[k] = newModel(p.models[k].kind, config)
		p.window = traffic(600, 60)
		tick := throughputTickOf(t, p, workers(1), workers(1))
		require.Equal(t, append(want, modelNotReady), []Reason{tick.Pools[0].ThroughputReason, tick.Pools[1].ThroughputReason, tick.ThroughputReason})
	}
	config.LoadScaling = true
	p := flat(t, config, Disaggregated, 3)
	tick := poolsOf(2, 2)
	p.settle(tick, []verdict{{step: -1, defined: true}, {step: 1, defined: true}})
	require.Equal(t, []Reason{scaleDown, scaleUp, scaleUp}, []Reason{tick.Pools[0].LoadReason, tick.Pools[1].LoadReason, tick.LoadReason})
}

// Covers S-67.
func TestCappedByTheFloorAlone(t *testing.T) {
	config := Default()
	config.LoadScaling, config.MinEndpoint = true, 3
	p := flat(t, config, Aggregated, 3.5)
	for floor, want := range map[int]Reason{1: noChange, 3: scaleDownCapped} {
		p.floors[0] = floor
		tick := poolsOf(3)
		require.Nil(t, p.settle(tick, []verdict{{step: -1, defined: true}}))
		require.Equal(t, want, tick.LoadReason, floor)
	}
}

// Covers S-68.
func TestTTFTOfThoseThatHaveOne(t *testing.T) {
	w := newWindow(0, preset.CountOffered)
	require.Nil(t, w.ttftMS())
	w.arrived(100, 1)
	w.arrived(100, 1)
	w.arrived(100, 1)
	w.Completed(Completion{Arrival: 5, First: 5, Last: 5, HasFirst: true, Tokens: 1})
	require.Equal(t, 0.0, *w.ttftMS())
	w.Completed(Completion{Arrival: 5, First: 2_000_005, Last: 2_000_005, HasFirst: true, Tokens: 1})
	require.Equal(t, 1.0, *w.ttftMS())
	require.Nil(t, w.itlMS())
}

// Covers S-69.
func TestTransitionsAreOfWorkers(t *testing.T) {
	type in struct{ Prefill, Decode []int }
	run := func(in in, decided bool) (list []*Tick) {
		for i := range in.Prefill {
			tick := poolsOf(in.Prefill[i], in.Decode[i])
			for k := range tick.Pools {
				tick.Pools[k].Decided = decided
			}
			list = append(list, tick)
		}
		return list
	}
	list, err := fixtures.Simulate("report")
	require.NoError(t, err)
	require.NotEmpty(t, list)
	for _, decided := range []bool{false, true} {
		require.Equal(t, 3, Transitions(run(in{[]int{1, 2, 2, 1}, []int{1, 1, 2, 2}}, decided))) // transitions-two-pools
		require.Equal(t, 2, Transitions(run(in{[]int{2, 2, 3, 3, 2}, []int{1, 1, 1, 1, 1}}, decided)))
	}
}

// GPU-hours of ticks, as the vector gpu-hours has them.
//
// Covers S-69.
func TestGPUHoursOfTicks(t *testing.T) {
	config := Default()
	config.ThroughputInterval = 1800
	p := flat(t, config, Disaggregated, 3.5)
	p.budget.gpus = []int{2, 1}
	var last *Tick
	for _, n := range []int{1, 2} {
		last = throughputTickOf(t, p, workers(n), workers(4))
	}
	require.InEpsilon(t, 7.0, last.GPUHours, 1e-12)
}

// Covers S-70.
func TestBootstrapOfEachPool(t *testing.T) {
	config := Default()
	config.Mode = Disaggregated
	e := Engine{MaxBatchedTokens: 8192, MaxSeqs: 256, MaxKV: 1 << 20, ContextLength: 1 << 20, GPUs: 1, Timing: lineTiming(1e6)}
	other := e
	other.MaxSeqs, other.Timing = 1024, lineTiming(9e6)
	p, err := New(Options{Config: config, Switches: switchesOf(t, preset.Default), Engines: []Engine{e, other}})
	require.NoError(t, err)
	require.InEpsilon(t, 0.001, p.models[0].line().Intercept, 1e-9)
	require.InEpsilon(t, 0.009, p.models[1].line().Intercept, 1e-9)
	most := 0.0
	for _, s := range p.models[1].samples.list {
		most = max(most, s.x[0])
	}
	require.Greater(t, most, 256.0)
	config.Mode = Aggregated
	p, err = New(Options{Config: config, Switches: switchesOf(t, preset.Default), Engines: []Engine{e}})
	require.NoError(t, err)
	require.True(t, p.models[0].line().Fitted)
	require.Equal(t, Bootstrap{Samples: []int{38}}, p.Bootstrap())
}

// Covers S-71.
func TestTrafficIsDrainedByThroughput(t *testing.T) {
	config := Default()
	config.LoadScaling, config.ThroughputInterval, config.LoadInterval = true, 20, 5
	p := flat(t, config, Aggregated, 3.5)
	for i := range 8 {
		if i < 4 {
			p.Arrived(100, 10)
			p.Arrived(100, 10)
		}
		require.Equal(t, int64(i+1)*5e9, p.Next())
		tick, _, err := p.Tick(0, []Workers{workers(1)})
		require.NoError(t, err)
		require.Equal(t, (i+1)%4 == 0, tick.Window != nil)
		switch i {
		case 3:
			require.Equal(t, 8, tick.Window.Requests)
			require.Equal(t, 20.0, tick.Window.Seconds())
		case 7:
			require.Equal(t, noTrafficData, tick.ThroughputReason)
		}
	}
	require.Equal(t, int64(45e9), p.Next())
}

// Covers S-72.
func TestBootstrapThatFails(t *testing.T) {
	config := Default()
	e := Engine{MaxBatchedTokens: 8192, MaxSeqs: 256, MaxKV: 1 << 20, ContextLength: 1 << 20, GPUs: 1, Timing: constantTiming(0)}
	options := Options{Config: config, Switches: switchesOf(t, preset.Default), Engines: []Engine{e}}
	p, err := New(options)
	require.NoError(t, err)
	require.Equal(t, Bootstrap{Failed: "agg: no bootstrap: the timing gives 0 ns for a prefill of 100 tokens: want more than 0"}, p.Bootstrap())
	require.Empty(t, p.models[0].samples.list)
	p.Arrived(100, 10)
	tick := throughputTickOf(t, p, workers(1))
	require.Equal(t, modelNotReady, tick.ThroughputReason)
	for _, change := range []func(e *Engine){func(e *Engine) { e.MaxBatchedTokens = 99 }, func(e *Engine) { e.MaxKV = 499 }} {
		one := e
		one.Timing = constantTiming(1e6)
		change(&one)
		p, err := New(Options{Config: config, Switches: options.Switches, Engines: []Engine{one}})
		require.NoError(t, err)
		require.NotEmpty(t, p.Bootstrap().Failed)
	}
	options.Engines[0].Timing = nil
	_, err = New(options)
	require.EqualError(t, err, "planner: the engine of pool agg: it has no Timing")
	options.Engines[0].Timing, options.Engines[0].MaxKV = e.Timing, 0
	_, err = New(options)
	require.EqualError(t, err, "planner: the engine of pool agg: MaxKV 0: want at least 1")
	_, _, err = p.Tick(0, nil)
	require.EqualError(t, err, "planner: a tick got the workers of 0 pools: want those of 1")
}
