package replay

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/cachetest"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/replay/conductor"
	"github.com/agentx/agentx/replay/payload"
	"github.com/agentx/agentx/replay/preset"
	"github.com/agentx/agentx/replay/resume"
	"github.com/agentx/agentx/replay/wire"
	"github.com/agentx/agentx/timeline"
)

// optionsUnder returns options of a preset, with defaults.
func optionsUnder(name string, change func(*Options)) *Options {
	o := Options{Preset: name, Marker: payload.NoMarker}
	if change != nil {
		change(&o)
	}
	o = o.WithDefaults()
	return &o
}

func TestViewsOfPresets(t *testing.T) {
	keep, drop := true, false
	for name, want := range map[string]view{
		preset.Default: {pace: Pace{Speed: 1, KeepOrder: &keep}},
		preset.AIPerf:  {pace: Pace{Speed: 1, KeepOrder: &drop}, branchSpawns: true, immediateJoins: true, emittedClock: true, traceIdle: time.Minute},
		preset.AgentX:  {pace: Pace{Speed: 1, KeepOrder: &keep}, branchSpawns: true},
	} {
		o := optionsUnder(name, func(o *Options) { o.Limits.TraceIdle = time.Minute })
		require.Equal(t, want, o.view())
		require.Equal(t, name != preset.AIPerf, o.treeIdle() == time.Minute, "the cap acts once")
		require.Equal(t, name == preset.Default, optionsUnder(name, nil).treeIdle() == 300*time.Second)
	}
	o := optionsUnder(preset.AIPerf, func(o *Options) { o.Pace.KeepOrder = &keep })
	require.False(t, o.view().pace.dropsOrder())
	require.False(t, optionsUnder(preset.AIPerf, nil).view().pace.dropsOrder(), "delays are not ignored")
}

// The recorded think time of a turn is the gap before it, of a turn without one the whole gap.
func TestThinkTimeOnly(t *testing.T) {
	p := sideChain(3, 0.25, 10)
	p.Turns[1].ThinkTime, p.Turns[2].ThinkTime = 0.5, math.NaN()
	delays := func(o *Options) (list []float64) {
		times, err := o.view().times(p, mmapcache.TimeRules{})
		require.NoError(t, err)
		for _, turn := range times.Turns[:3] {
			list = append(list, turn.Delay)
		}
		return list[1:]
	}
	require.Equal(t, []float64{750, 750}, delays(optionsUnder(preset.Default, nil)))
	require.Equal(t, []float64{500, 750}, delays(optionsUnder(preset.Default, func(o *Options) { o.Pace.ThinkTimeOnly = true })))
}

// sideChain is a plan of a root with turns of a duration that start every second, and of a side chain of one turn that hangs on
// the first of them.
func sideChain(turns int, duration, chain float64) *mmapcache.Plan {
	p := &mmapcache.Plan{
		Trace:    mmapcache.Trace{ID: "t"},
		Sessions: []mmapcache.Session{{ID: "t", Parent: mmapcache.None, Turns: uint32(turns), SpawnTurn: mmapcache.None, JoinTurn: mmapcache.None}},
	}
	for k := range turns {
		p.Turns = append(p.Turns, mmapcache.Turn{T: float64(k), APITime: duration, Outer: uint32(k)})
	}
	s := mmapcache.Session{ID: "t::fa:000", Kind: mmapcache.Flat, FirstTurn: uint32(turns), Turns: 1, Outer: uint32(turns), JoinTurn: mmapcache.None, Start: chain, End: chain + 1}
	s.SpawnFrom, s.SpawnOffset = timeline.SpawnOffset(0, duration, chain)
	p.Sessions, p.Turns = append(p.Sessions, s), append(p.Turns, mmapcache.Turn{T: chain, APITime: 1, Outer: s.Outer})
	return p
}

// scheduleUnder returns the schedule of a plan in the view of options.
func scheduleUnder(t *testing.T, p *mmapcache.Plan, o *Options) *schedule {
	s, err := newSchedule(p, o.view(), mmapcache.TimeRules{})
	require.NoError(t, err)
	return s
}

// The figures are those of AIPerf 0.13.0: its side chain is over after 0.2 s without delays, after 3.1 s in the recorded order.
func TestIgnoredDelaysUnderPresets(t *testing.T) {
	over := func(o *Options) time.Duration {
		sim := &simulation{script: func(conductor.Dispatch) (time.Duration, time.Duration, wire.Category) {
			return 100 * time.Millisecond, 0, ""
		}}
		s := scheduleUnder(t, sideChain(30, 0.1, 29.5), o)
		require.NoError(t, sim.loop(*o, &given{first: []conductor.Assignment{{Tree: s.Tree}}}).run())
		for k, d := range sim.sent {
			if d.Session == 1 {
				return sim.sentAt[k] + 100*time.Millisecond
			}
		}
		return 0
	}
	asap := func(o *Options) { o.Pace.ASAP = true }
	for name, want := range map[string]time.Duration{preset.Default: 3100, preset.AIPerf: 200, preset.AgentX: 3100} {
		require.Equal(t, want*time.Millisecond, over(optionsUnder(name, asap)), name)
	}
	keep, drop := true, false
	require.Equal(t, 3100*time.Millisecond, over(optionsUnder(preset.AIPerf, func(o *Options) { o.Pace = Pace{ASAP: true, KeepOrder: &keep} })))
	require.Equal(t, 200*time.Millisecond, over(optionsUnder(preset.Default, func(o *Options) { o.Pace = Pace{ASAP: true, KeepOrder: &drop} })))
}

// A child that was recorded inside its spawning turn is due at the return of that turn where order is dropped, else at its issue.
func TestIgnoredDelaysOfAChildInsideItsTurn(t *testing.T) {
	for name, onIssue := range map[string]bool{preset.Default: true, preset.AIPerf: false, preset.AgentX: true} {
		s := scheduleUnder(t, sideChain(2, 10, 3), optionsUnder(name, func(o *Options) { o.Pace.ASAP = true }))
		require.Equal(t, onIssue, s.Sessions[1].OnIssue, name)
		require.Zero(t, s.Sessions[1].Offset)
	}
}

// A trace whose times are all ignored is one without times: a lane begins behind a turn that is drawn from their number.
func TestStartsWithoutTimes(t *testing.T) {
	p := sideChain(10, 0.1, 4.5)
	for name, timed := range map[string]bool{preset.Default: true, preset.AIPerf: false, preset.AgentX: true} {
		o := optionsUnder(name, func(o *Options) { o.Pace.ASAP, o.Start.Sampled = true, true })
		state, tStar := newStartPolicy(*o).draw(&loadedTrace{schedule: scheduleUnder(t, p, o), plan: p}, 0)
		require.Equal(t, timed, !math.IsNaN(tStar), name)
		if timed {
			continue
		}
		turn, ok := o.Start.Ratios.Split(slices.Repeat([]bool{true}, 10), resume.LaneSeed(o.Seed, "t", 0))
		require.True(t, ok)
		require.Equal(t, []conductor.LiveSession{{Turn: turn + 1}}, state.Live)
	}
}

// With TraceCap load the recorded clock is compressed: delays, spawn offsets, t* and the recorded order follow it.
func TestTraceCapAtLoad(t *testing.T) {
	p := sideChain(2, 100, 200) // 0 to 100 s, its end cuts into the second turn; the side chain at 200 s
	p.Turns[1].T, p.Turns[1].APITime = 1000, 5
	cap60 := func(o *Options) { o.Limits.TraceIdle = time.Minute }
	recorded := scheduleUnder(t, p, optionsUnder(preset.Default, cap60))
	require.Equal(t, [][]float64{{0, 1000e3}, {200e3}}, recorded.Starts)
	require.Equal(t, 900*time.Second, recorded.Sessions[0].Turns[1].Delay)
	require.Equal(t, 100*time.Second, recorded.Sessions[1].Offset)
	require.Equal(t, []conductor.TurnRef{{}}, recorded.Sessions[1].Turns[0].After)
	require.Equal(t, []conductor.TurnRef{{Session: 1}}, recorded.Sessions[0].Turns[1].After)

	warped := scheduleUnder(t, p, optionsUnder(preset.AIPerf, cap60))
	require.Equal(t, [][]float64{{0, 120e3}, {60e3}}, warped.Starts)
	first, last, ok := warped.Bounds()
	require.True(t, ok)
	require.Equal(t, [2]float64{0, 120e3}, [2]float64{first, last})
	require.Equal(t, 20*time.Second, warped.Sessions[0].Turns[1].Delay)
	require.True(t, warped.Sessions[1].OnIssue)
	require.Equal(t, time.Minute, warped.Sessions[1].Offset)
	require.Empty(t, warped.Sessions[1].Turns[0].After, "on the compressed clock the root's turn has not ended")
	require.Equal(t, []conductor.TurnRef{{Session: 1}}, warped.Sessions[0].Turns[1].After)

	s, _ := preset.Named(preset.Default)
	s.TraceCapAtLoad = true
	ours := scheduleUnder(t, p, optionsUnder(preset.Default, func(o *Options) { o.Switches, o.Limits.TraceIdle = &s, time.Minute }))
	require.Equal(t, warped.Starts, ours.Starts)
	require.Equal(t, scheduleUnder(t, p, optionsUnder(preset.Default, nil)).Tree, scheduleUnder(t, p, optionsUnder(preset.Default, func(o *Options) { o.Switches = &s })).Tree, "no cap, nothing to cut")
}

// A child whose spawning turn comes after a gap that is cut is as far from that turn as on the compressed clock.
func TestTraceCapAtLoadMovesSpawningTurns(t *testing.T) {
	p := sideChain(2, 200, 1100)
	p.Turns[1].T, p.Sessions[1].SpawnTurn = 1000, 1
	p.Sessions[1].SpawnFrom, p.Sessions[1].SpawnOffset = timeline.SpawnOffset(1000, 200, 1100)
	for _, spawn := range []bool{false, true} {
		s, _ := preset.Named(preset.AIPerf)
		s.BranchSpawns = spawn
		got := scheduleUnder(t, p, optionsUnder(preset.AIPerf, func(o *Options) { o.Switches, o.Limits.TraceIdle = &s, time.Minute }))
		require.Equal(t, [][]float64{{0, 60e3}, {120e3}}, got.Starts)
		require.True(t, got.Sessions[1].OnIssue)
		require.Equal(t, time.Minute, got.Sessions[1].Offset, spawn)
	}
}

// The switch Anchor, a burst and the caps decide how far the lanes are moved.
//
// Covers T-23.
func TestAnchorsOfPresets(t *testing.T) {
	for name, want := range map[string]resume.Alignment{preset.Default: resume.Spread, preset.AIPerf: resume.AsDrawn, preset.AgentX: resume.Spread} {
		spread := newStartPolicy(*optionsUnder(name, nil))
		require.Equal(t, want, spread.alignment, name)
		limit := 300 * time.Second
		if name == preset.AgentX {
			limit = 0 // which has no lane-start-cap
		}
		require.Equal(t, limit, spread.limit, name)
		burst := newStartPolicy(*optionsUnder(name, func(o *Options) { o.Start.Burst, o.Limits.TraceIdle = true, time.Second }))
		require.Equal(t, resume.Burst, burst.alignment)
		require.Equal(t, limit, burst.limit)
	}
	for cap, want := range map[time.Duration]time.Duration{0: 300 * time.Second, time.Minute: time.Minute, time.Hour: 300 * time.Second} {
		p := newStartPolicy(*optionsUnder(preset.AIPerf, func(o *Options) { o.Limits.TraceIdle = cap }))
		require.Equal(t, want, p.limit)
		p = newStartPolicy(*optionsUnder(preset.AgentX, func(o *Options) { o.Limits.TraceIdle = cap }))
		require.Zero(t, p.limit)
	}
	p := newStartPolicy(*optionsUnder(preset.AIPerf, func(o *Options) { o.Limits = Limits{LaneStart: Off, TraceIdle: 3 * time.Second} }))
	require.Equal(t, 3*time.Second, p.limit)
	ratios := resume.Ratios{Min: 0.1, Max: 0.2}
	p = newStartPolicy(*optionsUnder(preset.AIPerf, func(o *Options) {
		o.Start, o.Limits = Start{Sampled: true, Ratios: &ratios}, Limits{LaneStart: Off, TraceIdle: 3 * time.Second}
	}))
	require.Equal(t, startPolicy{true, ratios, resume.AsDrawn, 3 * time.Second, defaultSeed}, p)
	lane := func(ready ...time.Duration) *conductor.StartState {
		s := &conductor.StartState{}
		for _, at := range ready {
			s.Live = append(s.Live, conductor.LiveSession{Due: at * time.Second})
		}
		return s
	}
	lanes := []*conductor.StartState{lane(5, 9), lane(2)}
	require.Equal(t, []time.Duration{2 * time.Second, 0}, p.alignment.Align(lanes, false, p.limit))
	require.Equal(t, []*conductor.StartState{lane(3, 7), lane(2)}, lanes, "each lane by itself")
}

// More lanes than traces: a marker is permission where MarkerPermitsWrap says so.
//
// Covers T-16, A-15.
func TestMarkersPermitLanesByPreset(t *testing.T) {
	c := cachetest.Prepare(t, cachetest.TraceLine("a", 64, 64), "code")
	for name, permitted := range map[string]bool{preset.Default: true, preset.AIPerf: true, preset.AgentX: true, "switched off": false} {
		o := required(c)
		o.Preset, o.Concurrency, o.Duration = name, 2, time.Second
		if !permitted {
			o.Preset = preset.Default
			o.Switches = o.switches()
			o.Switches.MarkerPermitsWrap = false
		}
		for _, marker := range []payload.MarkerTarget{payload.FirstTurnPrefix, payload.NoMarker} {
			o.Marker = marker
			r := newRun(o.WithDefaults())
			err := r.chooseTraces()
			r.close()
			require.Equal(t, permitted && marker != payload.NoMarker, err == nil, "%s: %v", name, err)
			require.Equal(t, err == nil, r.shared)
		}
		o.AllowWrap = true
		r := newRun(o.WithDefaults())
		require.NoError(t, r.chooseTraces())
		r.close()
	}
}
