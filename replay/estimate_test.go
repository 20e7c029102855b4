package replay

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/cachetest"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/replay/conductor"
	"github.com/agentx/agentx/replay/preset"
	"github.com/agentx/agentx/timeline"
)

// durationOf estimates how long a plan is played on one lane.
func durationOf(t *testing.T, p *mmapcache.Plan, o *Options) time.Duration {
	e := &estimate{view: o.view(), plans: []*mmapcache.Plan{p}}
	limits := conductor.Limits{TreeIdle: o.treeIdle(), SystemIdle: o.Limits.SystemIdle}
	source := &given{first: []conductor.Assignment{{Tree: scheduleUnder(t, p, o).Tree}}}
	d, err := e.play(conductor.New(1, source, limits, e.send, nil))
	require.NoError(t, err)
	return d
}

// longPauses is a plan of a root that runs from 10 to 12 s, 15 to 16 s, at 100 s for a time that is not known, and from 1000 to
// 1005 s. Beside its first turn a side chain runs from 11 to 15 s.
func longPauses() *mmapcache.Plan {
	p := sideChain(4, 0, 11)
	for k, u := range [][2]float64{{10, 2}, {15, 1}, {100, math.NaN()}, {1000, 5}, {11, 4}} {
		p.Turns[k].T, p.Turns[k].APITime = u[0], u[1]
	}
	s := &p.Sessions[1]
	s.SpawnFrom, s.SpawnOffset = timeline.SpawnOffset(10, 2, 11)
	return p
}

func TestEstimateFollowsTheView(t *testing.T) {
	off := func(o *Options) { o.Switches = withoutTreeIdle() }
	second, half := time.Second, time.Second/2
	for _, c := range []struct {
		preset string
		change func(*Options)
		want   time.Duration
	}{
		{preset.Default, off, (6 + 84 + 900 + 5) * second},
		{preset.Default, nil, (6 + 84 + 300 + 5) * second},
		{preset.AIPerf, nil, (6 + 84 + 900 + 5) * second},
		{preset.Default, func(o *Options) { off(o); o.Limits.SystemIdle = 10 * second }, (6 + 10 + 10 + 5) * second},
		{preset.Default, func(o *Options) { o.Limits.TraceIdle = 60 * second }, (6 + 60 + 60 + 5) * second},
		{preset.AIPerf, func(o *Options) { o.Limits.TraceIdle = 60 * second }, (5 + 59 + 1 + 60 + 5) * second}, // from start to start
		{preset.Default, func(o *Options) { off(o); o.Pace.Speed = 2 }, (5+42+450+5)*second + half},            // the side chain from 0.5 to 4.5 s, then the second turn,
		{preset.Default, func(o *Options) { off(o); o.Pace = Pace{Speed: 2, MaxGap: 9 * second} }, (5+9+9+5)*second + half},
		{preset.Default, func(o *Options) { o.Pace.ASAP = true }, (4 + 1 + 5) * second}, // the second turn after the side chain
		{preset.AIPerf, func(o *Options) { o.Pace.ASAP = true }, (2 + 1 + 5) * second},  // beside it
	} {
		require.Equal(t, c.want, durationOf(t, longPauses(), optionsUnder(c.preset, c.change)))
	}
	require.Equal(t, 901*second, durationOf(t, sideChain(1, 0.1, 900), optionsUnder(preset.Default, off)))
	require.Equal(t, 1100*time.Millisecond, durationOf(t, sideChain(1, 0.1, 900), optionsUnder(preset.AIPerf, nil)))
}

// The lane that is free first takes the next trace.
func TestEstimateDuration(t *testing.T) {
	traces := cachetest.TraceLine("a", 64, 64, 64) + cachetest.TraceLine("b", 64) + cachetest.TraceLine("c", 64, 64) // 2.25, 0.25 and 1.25 s
	c := cachetest.Prepare(t, traces, "code")
	for lanes, want := range map[int]float64{1: 3.75, 2: 2.25, 3: 2.25, 7: 2.25} {
		o := required(c)
		o.Concurrency = lanes
		got, err := EstimateDuration(o)
		require.NoError(t, err)
		require.InDelta(t, want, got.Seconds(), 1e-6, "%d lanes", lanes)
	}
	o := required(c)
	o.Traces, o.Pace.ASAP = 2, true
	got, err := EstimateDuration(o)
	require.NoError(t, err)
	require.InDelta(t, 1, got.Seconds(), 1e-6)
}

// Times beyond all measure are played for a time that a clock can hold.
func TestEstimateOfEndlessTimes(t *testing.T) {
	p := sideChain(400, 1e300, 1e300)
	for k := range 400 {
		p.Turns[k].T = float64(k) * 1e300
	}
	off := func(o *Options) { o.Switches, o.Pace.Speed = withoutTreeIdle(), 1e-300 }
	require.GreaterOrEqual(t, durationOf(t, p, optionsUnder(preset.Default, off)), time.Duration(1<<62))
}
