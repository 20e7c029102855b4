package replay

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/cachetest"
	"github.com/agentx/agentx/internal/fixtures"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/replay/conductor"
	"github.com/agentx/agentx/replay/payload"
	"github.com/agentx/agentx/replay/preset"
	"github.com/agentx/agentx/timeline"
)

// viewOf returns the view of a preset at a pace.
func viewOf(name string, pace Pace) view {
	o := Options{Preset: name, Pace: pace, Marker: payload.NoMarker}.WithDefaults()
	return o.view()
}

// seconds converts a recorded time in milliseconds to the seconds of a plan.
func seconds(ms *float64) float64 {
	if ms == nil {
		return math.NaN()
	}
	return *ms / 1000
}

// family is a plan of a root with one turn and a child that it spawns, in a branch that started at an instant of its own.
func family(turn, api, child, branch float64) *mmapcache.Plan {
	p := &mmapcache.Plan{
		Sessions: []mmapcache.Session{{Parent: mmapcache.None, Turns: 1, JoinTurn: mmapcache.None}, {Kind: mmapcache.Flat, FirstTurn: 1, Turns: 1, JoinTurn: mmapcache.None}},
		Turns:    []mmapcache.Turn{{T: turn, APITime: api}, {T: child}},
	}
	p.Sessions[1].Start = branch
	p.Sessions[1].SpawnFrom, p.Sessions[1].SpawnOffset = timeline.SpawnOffset(turn, api, child)
	return p
}

// Covers T-45.
func TestSpawnOffsetVectors(t *testing.T) {
	type in struct {
		Turn   float64  `json:"turn_ms"`
		API    *float64 `json:"api_ms"`
		Child  float64  `json:"child_ms"`
		Branch float64  `json:"branch_ms"`
		Speed  float64
		Cap    float64 `json:"gap_cap_ms"`
		Ignore bool    `json:"ignore_delays"`
	}
	type want struct {
		From   string
		Offset float64 `json:"offset_ms"`
	}
	fixtures.EachCase(t, "spawn_offset", fixtures.Counts{12, 6, 6}, func(t *testing.T, c fixtures.Case, in in, want want) {
		pace := Pace{Speed: in.Speed, MaxGap: time.Duration(in.Cap * 1e6), ASAP: in.Ignore}
		p := family(in.Turn/1000, seconds(in.API), in.Child/1000, in.Branch/1000)
		s, err := newSchedule(p, viewOf(c.Preset, pace), mmapcache.TimeRules{})
		require.NoError(t, err)
		require.Equal(t, want.From == "issue", s.Sessions[1].OnIssue)
		require.Equal(t, time.Duration(want.Offset*1e6), s.Sessions[1].Offset)
	})
}

// What a negative duration does is fixed when a cache is built: the preset only shows it.
func TestDelayVectors(t *testing.T) {
	type in struct {
		PrevStart float64  `json:"prev_start_s"`
		PrevAPI   *float64 `json:"prev_api_time_s"`
		Start     float64  `json:"start_s"`
	}
	type want struct {
		Delay float64 `json:"delay_ms"`
	}
	fixtures.EachCase(t, "delay", fixtures.Counts{7, 7, 7}, func(t *testing.T, c fixtures.Case, in in, want want) {
		api := math.NaN()
		if in.PrevAPI != nil {
			api = *in.PrevAPI
		}
		p := &mmapcache.Plan{
			Sessions: []mmapcache.Session{{Parent: mmapcache.None, Turns: 2}},
			Turns:    []mmapcache.Turn{{T: in.PrevStart, APITime: api}, {T: in.Start}},
		}
		switches, _ := preset.Named(c.Preset)
		rules := mmapcache.TimeRules{Rules: timeline.Rules{SubtractNegative: switches.SubtractNegative}}
		s, err := newSchedule(p, viewOf(c.Preset, Pace{}), rules)
		require.NoError(t, err)
		turns := s.Sessions[0].Turns
		require.Zero(t, turns[0].Delay)
		require.InDelta(t, want.Delay*1e6, float64(turns[1].Delay), 1)
		require.Zero(t, turns[0].JoinDelay)
	})
}

func TestPace(t *testing.T) {
	const forever = 1 << 56
	nan, inf := math.NaN(), math.Inf(1)
	for _, c := range []struct {
		pace Pace
		ms   float64
		want time.Duration
	}{
		{Pace{}, 1500, 1500 * time.Millisecond},
		{Pace{Speed: 1}, 0.25, 250 * time.Microsecond},
		{Pace{Speed: 4}, 1000, 250 * time.Millisecond},
		{Pace{Speed: 0.5}, 1000, 2 * time.Second},
		{Pace{MaxGap: time.Second}, 999, 999 * time.Millisecond},
		{Pace{MaxGap: time.Second}, 1001, time.Second},
		{Pace{Speed: 10, MaxGap: time.Second}, 9000, 900 * time.Millisecond}, // MaxGap bounds what is played
		{Pace{ASAP: true, Speed: 0.1, MaxGap: time.Second}, 9000, 0},
		{Pace{}, 0, 0},
		{Pace{}, -1, 0},
		{Pace{}, nan, 0},
		{Pace{Speed: nan}, 1000, time.Second},
		{Pace{Speed: -3}, 1000, time.Second},
		{Pace{Speed: inf}, 1e300, 0},
		{Pace{Speed: inf}, inf, 0},
		{Pace{}, inf, forever},
		{Pace{}, 1e300, forever},
		{Pace{Speed: 1e-300}, 1, forever},
		{Pace{MaxGap: time.Minute}, inf, time.Minute},
	} {
		require.Equal(t, c.want, c.pace.gap(c.ms), "%+v of %g ms", c.pace, c.ms)
	}
}

// cousins is a plan with two subagents, of which one has no request, and a side chain.
func cousins() *mmapcache.Plan {
	none := int32(mmapcache.None)
	nan := math.NaN()
	return &mmapcache.Plan{
		Trace: mmapcache.Trace{ID: "t"},
		Sessions: []mmapcache.Session{
			{ID: "t", Parent: none, Turns: 3, JoinTurn: none, Start: nan, End: nan},
			{ID: "t::sa:z", Agent: "z", Kind: mmapcache.Subagent, Parent: 0, FirstTurn: 3, Turns: 2, SpawnTurn: 0, JoinTurn: 2, SpawnFrom: timeline.FromIssue, SpawnOffset: 700, Start: 0.7},
			{ID: "t::sa:e", Agent: "e", Kind: mmapcache.Subagent, Parent: 0, FirstTurn: 5, Turns: 0, SpawnTurn: 1, JoinTurn: none, SpawnFrom: timeline.FromReturn, SpawnOffset: 90, Start: 4},
			{ID: "t:fa:000", Kind: mmapcache.Flat, Parent: 0, FirstTurn: 5, Turns: 1, SpawnTurn: 1, JoinTurn: 2, SpawnOffset: 1000, Start: 5},
		},
		Turns: []mmapcache.Turn{{T: 0, APITime: 1}, {T: 3, APITime: 1}, {T: 9, APITime: 1}, {T: 0.7, APITime: 0.1}, {T: 1.8, APITime: 1}, {T: 5, APITime: 2}},
	}
}

func TestScheduleHasTheShapeOfThePlan(t *testing.T) {
	s, ms := time.Second, time.Millisecond
	got := scheduleOf(t, cousins(), Pace{})
	root := conductor.Session{Turns: []conductor.Turn{
		{Spawns: []int{0}},
		{Delay: 2 * s, JoinDelay: 2 * s, Spawns: []int{1, 2}},
		{Delay: 5 * s, JoinDelay: 5 * s, Joins: []int{0, 2}, After: []conductor.TurnRef{{Session: 3}}}, // a scope of its own has session 1
	}}
	require.Equal(t, &conductor.Tree{
		Sessions: []conductor.Session{
			root,
			{Depth: 1, Rank: 2, OnIssue: true, Offset: 700 * ms, Turns: []conductor.Turn{{}, {Delay: s, JoinDelay: s}}},
			{Depth: 1, Rank: 1, Branch: 1, Offset: 90 * ms, Turns: []conductor.Turn{}, Unplayable: true},
			{Depth: 1, Rank: 3, Branch: 2, Offset: s, Turns: []conductor.Turn{{After: []conductor.TurnRef{{Turn: 1}}}}},
		},
		Branches: []conductor.Branch{{Sessions: []int{1}, OnIssue: true}, {Spawn: 1, Sessions: []int{2}}, {Spawn: 1, Sessions: []int{3}}},
	}, got.Tree)
	require.Equal(t, []string{"t:spawn:z", "t:spawn:e", "t:flatspawn:0"}, got.branchIDs)
	require.Equal(t, []float64{700, 4000, 5000}, got.BranchStarts)
	require.Equal(t, []float64{700, 1800}, got.Starts[1])
}

// scheduleOf returns the schedule of a plan under rules that refuse nothing.
func scheduleOf(t *testing.T, p *mmapcache.Plan, pace Pace) *schedule {
	s, err := newSchedule(p, view{pace: pace}, mmapcache.TimeRules{})
	require.NoError(t, err)
	return s
}

// The pressure stage keeps joins and predecessors, and nothing of times.
func TestAcceleratedSchedule(t *testing.T) {
	s := scheduleOf(t, cousins(), Pace{})
	recorded := *s.Tree
	fast := s.accelerated()
	require.Same(t, fast, s.accelerated())
	require.NoError(t, fast.Validate())
	require.Equal(t, recorded, *s.Tree)
	for n, c := range fast.Sessions {
		require.Zero(t, c.Offset)
		for k, u := range c.Turns {
			require.Zero(t, u.Delay)
			require.Zero(t, u.JoinDelay)
			u.Delay, u.JoinDelay = recorded.Sessions[n].Turns[k].Delay, recorded.Sessions[n].Turns[k].JoinDelay
			require.Equal(t, recorded.Sessions[n].Turns[k], u)
		}
		c.Offset, c.Turns = recorded.Sessions[n].Offset, recorded.Sessions[n].Turns
		require.Equal(t, recorded.Sessions[n], c)
	}
	require.Equal(t, recorded.Branches, fast.Branches)
}

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

func TestSelectionVectors(t *testing.T) {
	type in struct {
		Traces []struct{ Top, Inner [][2]int }
		MaxCtx *int `json:"max_context"`
		Count  *int `json:"entries"`
		MaxOSL *int `json:"max_osl"`
	}
	type want struct {
		Peaks, Kept []int
		Error       string
	}
	fixtures.EachWeka(t, "selection", func(t *testing.T, in in, want want) {
		var peaks []int
		for _, tr := range in.Traces {
			peak := 0
			for _, q := range tr.Top {
				out := q[1]
				if in.MaxOSL != nil {
					out = min(out, *in.MaxOSL)
				}
				peak = max(peak, q[0]+max(1, out))
			}
			for _, q := range tr.Inner {
				peak = max(peak, q[0]+max(1, q[1]))
			}
			peaks = append(peaks, peak)
		}
		limit, count := 0, 0
		if in.MaxCtx != nil {
			limit = *in.MaxCtx
		}
		if in.Count != nil {
			count = *in.Count
		}
		kept := firstFitting(peaks, limit, count)
		if want.Error != "" {
			assert.Empty(t, kept)
			return
		}
		assert.Equal(t, want.Peaks, peaks)
		assert.Equal(t, want.Kept, kept)
	})
}

// Turns that are what is new have those before and the answers to them in their prompts.
func TestPromptTokensBehindAnswers(t *testing.T) {
	p := &mmapcache.Plan{Sessions: []mmapcache.Session{{Turns: 1}, {FirstTurn: 1, Turns: 3}}, Turns: []mmapcache.Turn{{In: 100}, {In: 10, Out: 5}, {In: 7, Out: -1}, {In: 3, Out: 2}}}
	require.Equal(t, []int{3, 20}, []int{promptTokens(p, 1, 2, mmapcache.TimeRules{}), peakTokens(&mmapcache.Plan{Sessions: p.Sessions[1:], Turns: p.Turns}, mmapcache.TimeRules{}, 5)})
	require.Equal(t, []int{25, 32}, []int{promptTokens(p, 1, 2, mmapcache.TimeRules{LiveAnswers: true}), peakTokens(&mmapcache.Plan{Sessions: p.Sessions[1:], Turns: p.Turns}, mmapcache.TimeRules{LiveAnswers: true}, 5)})
}
