package replay

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/fixtures"
	"github.com/agentx/agentx/internal/cachetest"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/replay/arrivals"
	"github.com/agentx/agentx/replay/conductor"
	"github.com/agentx/agentx/replay/preset"
)

// playedOn plays a player against a server of its own: takes says how long a turn takes, and how it ends. What was taken stands with
// its instant.
func playedOn(t testing.TB, p *Player, takes func(PlayedTurn) (time.Duration, conductor.Outcome)) (list []PlayedTurn, at []time.Duration) {
	t.Helper()
	type ending struct {
		id      int
		at      time.Duration
		outcome conductor.Outcome
	}
	var flying []ending
	now := time.Duration(0)
	for {
		for turn, ok := p.Take(now); ok; turn, ok = p.Take(now) {
			list, at = append(list, turn), append(at, now)
			took, outcome := takes(turn)
			flying = append(flying, ending{turn.ID, now + took, outcome})
			slices.SortStableFunc(flying, func(a, b ending) int { return int(a.at - b.at) })
		}
		next, ok := p.Next()
		switch {
		case len(flying) > 0 && (!ok || flying[0].at <= next):
			now = flying[0].at
			require.NoError(t, p.Returned(flying[0].id, now, flying[0].outcome))
			flying = flying[1:]
		case ok:
			now = max(now, next)
		default:
			require.True(t, p.Done())
			require.NoError(t, p.Err())
			return list, at
		}
	}
}

// aSecond is a server that takes a second for each turn.
func aSecond(PlayedTurn) (time.Duration, conductor.Outcome) { return time.Second, conductor.OK }

// A player gives out the turns that a run sends, in its order and at its instants, against a server that takes as long.
//
// Covers S-04.
func TestPlayerPlaysTheRun(t *testing.T) {
	demo := cachetest.Demo(t)
	timed := mooncake(t, 0, 1500, 1500, 4000, 90000)
	for name, set := range map[string]func(*Options){
		"default":         func(*Options) {},
		"flat out":        func(o *Options) { o.Pace = Pace{ASAP: true} },
		"half the traces": func(o *Options) { o.Traces = 8 },
		"shuffled":        func(o *Options) { o.Order = Shuffle },
		"trees":           func(o *Options) { o.Trees = 40; o.Order = Random; o.AllowWrap = true },
		"requests":        func(o *Options) { o.Requests = 150; o.Recycle = RecycleFIFOGuarded },
		"guarded":         func(o *Options) { o.Requests = 150; o.MaxLivePerTrace = true },
		"duration":        func(o *Options) { o.Duration = 7 * time.Minute; o.Grace = time.Hour },
		"sampled":         func(o *Options) { o.Start = Start{Sampled: true} },
		"burst":           func(o *Options) { o.Start = Start{Sampled: true, Burst: true} },
		"ramp":            func(o *Options) { o.Arrivals.Ramp = time.Minute },
		"idle":            func(o *Options) { o.Limits.SystemIdle, o.Limits.TraceIdle = 2*time.Second, 3*time.Second },
		"more lanes":      func(o *Options) { o.Concurrency = 30 },
		"rate": func(o *Options) {
			o.Arrivals = Arrivals{Mode: RateArrivals, Rate: 0.2, Law: arrivals.Poisson}
			o.Concurrency = 0
		},
		"rate, capped": func(o *Options) {
			o.Arrivals = Arrivals{Mode: RateArrivals, Rate: 0.2, Law: arrivals.Poisson}
			o.Concurrency = 2
		},
		"recorded":        func(o *Options) { o.Cache, o.Arrivals = timed, Arrivals{Mode: RecordedArrivals}; o.Concurrency = 2 },
		"a small context": func(o *Options) { o.MaxContext = 20000 },
	} {
		for _, preset := range []string{preset.Default, preset.AIPerf, preset.AgentX} {
			t.Run(name+"/"+preset, func(t *testing.T) {
				o := optionsFor(t, demo, unreachable)
				o.Pace, o.Preset, o.Switches, o.Overwrite = Pace{}, preset, nil, true
				set(&o)
				v, err := virtually(t, o, second)
				require.NoError(t, err)
				p, err := NewPlayer(Options{
					Cache: o.Cache, Concurrency: o.Concurrency, Traces: o.Traces, MaxContext: o.MaxContext, Order: o.Order, Recycle: o.Recycle,
					MaxLivePerTrace: o.MaxLivePerTrace, AllowWrap: o.AllowWrap, Start: o.Start, Arrivals: o.Arrivals, Pace: o.Pace,
					Limits: o.Limits, Preset: o.Preset, Duration: o.Duration, Requests: o.Requests, Trees: o.Trees,
				})
				require.NoError(t, err)
				turns, at := playedOn(t, p, aSecond)
				var want, got []string
				for _, s := range v.sent {
					want = append(want, fmt.Sprint(s.at, s.lane, s.ordinal, s.trace, s.session, s.turn))
				}
				for k, u := range turns {
					plan := cachetest.Plan(o.Cache, u.Trace)
					got = append(got, fmt.Sprint(at[k], u.Lane, u.Tree, plan.Trace.ID, plan.Sessions[u.Session].ID, u.Turn))
					require.Equal(t, k, u.ID)
				}
				require.NotEmpty(t, want)
				require.Equal(t, want, got)
			})
		}
	}
}

// The vectors of the group event_log, with a player: it takes each turn when the vector sends it. Left out are those in which requests
// are cancelled at the end of a grace, which no simulated server does, and those that no plan can hold.
//
// Covers S-04.
func TestEventLogsOfAPlayer(t *testing.T) {
	list, err := fixtures.Cases("event_log")
	require.NoError(t, err)
	ran := map[string]int{}
	for _, c := range list {
		var e eventLog
		require.NoError(t, json.Unmarshal(c.In, &e))
		plans, ok := e.plans()
		if !ok || len(e.Refused) > 0 || e.Deadline != nil {
			continue
		}
		ran[c.Preset]++
		t.Run(c.Name+"/"+c.Preset, func(t *testing.T) {
			var want struct{ Sends [][]any }
			require.NoError(t, json.Unmarshal(c.Want, &want))
			o, source, script, _ := e.prepare(t, c.Preset, plans)
			p := newPlayer(o, measuredPhase(o, treesOf{source}, nil), func(d conductor.Dispatch) (int, int) { return 0, d.Tree })
			turns, at := playedOn(t, p, func(u PlayedTurn) (time.Duration, conductor.Outcome) {
				took, outcome := script(conductor.Dispatch{Tree: u.Tree, Session: u.Session, Turn: u.Turn})
				return took, map[string]conductor.Outcome{"ok": conductor.OK, "error": conductor.Failed, "overflow": conductor.Overflow}[outcome]
			})
			var sends []loggedTurn
			for k, u := range turns {
				sends = append(sends, loggedTurn{at: at[k], lane: u.Lane, session: plans[u.Tree].Sessions[u.Session].ID, turn: u.Turn})
			}
			require.Equal(t, rowsOf(want.Sends), sortLog(sends))
		})
	}
	require.Equal(t, map[string]int{"default": 36, "aiperf-0.13": 34, "agentx-1.0.12": 35}, ran)
}

// A player needs no prompts, and says which options it cannot use.
//
// Covers S-04.
func TestPlayerOfAStructure(t *testing.T) {
	demo := cachetest.Demo(t)
	c, err := mmapcache.OpenStructure(demo.Root, demo.Manifest.Parts[mmapcache.StructureKind].Key)
	require.NoError(t, err)
	defer c.Close()
	for text, o := range map[string]Options{
		"cache: nil: want an open cache":                                                         {},
		"warmup: a player has none":                                                              {Cache: c, Warmup: Warmup{Requests: 3}},
		"limits: prefill 2: a player does not learn of first tokens":                             {Cache: c, Limits: Limits{Prefill: 2}},
		"StopOnDeadlock: a player goes on with the next tree":                                    {Cache: c, StopOnDeadlock: true},
		"none of 16 traces fits a context of 10 tokens":                                          {Cache: c, MaxContext: 10},
		"17 lanes, but 16 distinct traces, and without a marker no two lanes may play one trace": {Cache: c, Concurrency: 17, Requests: 10},
		"have no recorded start":                                                                 {Cache: c, Arrivals: Arrivals{Mode: RecordedArrivals}},
		"seed \"x\": want a decimal number":                                                      {Cache: c, Seed: "x"},
	} {
		_, err := NewPlayer(o)
		require.ErrorContains(t, err, text)
	}
	p, err := NewPlayer(Options{Cache: c, Concurrency: 4})
	require.NoError(t, err)
	turns, _ := playedOn(t, p, aSecond)
	require.Len(t, turns, c.Facts.Turns, "every turn once")
	require.Equal(t, 16, p.Counts().TreesDrained)
	require.Error(t, p.Returned(0, 1<<50, conductor.OK), "it has returned before")
}
