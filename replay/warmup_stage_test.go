package replay

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/fixtures"
	"github.com/agentx/agentx/internal/cachetest"
	"github.com/agentx/agentx/replay/conductor"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/preset"
	"github.com/agentx/agentx/replay/wire"
)

// ofLane returns what a lane sent.
func ofLane(list []sentTurn, lane int) []sentTurn {
	return slices.DeleteFunc(slices.Clone(list), func(s sentTurn) bool { return s.lane != lane })
}

// stageOf returns what the pressure stage sent.
func (v *virtualRun) stageOf() []sentTurn {
	return slices.DeleteFunc(v.of(measure.WarmupPhase), func(s sentTurn) bool { return !v.phases[s.phase].handsOff })
}

// Every lane sends R requests, primers not counted, then defers. A tree that ends is followed by another. Profiling goes on
// where the stage stopped, on one clock. A lane whose trace overflows takes another, and the others keep their numbers.
//
// Covers T-22.
func TestPressureStageOfRequests(t *testing.T) {
	c := recorded(t, mixed("m"), recording("s", call{at: 0, took: 1}, call{at: 50, took: 1}),
		recording("long", call{at: 0, took: 1}, call{at: 10, took: 1}, call{at: 20, took: 1}, call{at: 300, took: 1}),
		recording("next", call{at: 0, took: 1}, call{at: 7, took: 1}, call{at: 20, took: 1}))
	for _, name := range []string{preset.Default, preset.AgentX} {
		o := warming(t, c, name, Warmup{Requests: 2})
		o.Switches.OverflowFails = false
		o.Concurrency, o.Trees, o.Limits.LaneStart = 3, 3, Off
		r, err := virtually(t, o, func(s sentTurn) answerTo {
			if s.trace == "long" { // the first trace of lane 2
				return answerTo{takes: time.Second, category: wire.ContextOverflow}
			}
			return answerTo{takes: time.Second}
		}, at(45, 45, 15), func(r *virtualRun) { r.starts.ratios.Min, r.starts.ratios.Max = 0.2, 0.2 }) // lane 2 then begins "next" at 4 s
		require.NoError(t, err)
		require.EqualValues(t, 6, r.summary.Warmup.Primers, "three of m, one of each other")
		require.EqualValues(t, 6, r.summary.Warmup.StageRequests)
		require.EqualValues(t, 1, r.summary.Warmup.ReplacedLanes)
		stage, rest := r.stageOf(), r.of(measure.ProfilingPhase)
		require.Equal(t, []string{"0:m::sa:a1#2", "0:m::sa:a4#1"}, texts(ofLane(stage, 0)))
		require.Equal(t, []string{"1:m#0", "1:s#1"}, texts(ofLane(stage, 1)))
		require.Equal(t, []string{"2:next#1", "2:next#2"}, texts(ofLane(stage, 2)))
		for _, s := range stage {
			require.EqualValues(t, 1, s.tokens)
		}
		require.Equal(t, []string{"0:m#2", "0:m#3", "0:m::sa:a4#2"}, texts(ofLane(rest, 0)))
		require.Contains(t, texts(ofLane(rest, 1)), "1:m#1")
		require.NotContains(t, texts(ofLane(rest, 1)), "1:m#0")
		require.Contains(t, texts(ofLane(rest, 2)), "2:s#0", "nothing was left: the next trace from its first turn")
		began := rest[0].at
		offset := func(lane int, text string) float64 {
			k := slices.IndexFunc(rest, func(s sentTurn) bool { return s.lane == lane && s.String() == text })
			return (rest[k].at - began).Seconds()
		}
		require.Equal(t, 0.0, offset(2, "2:s#0"))
		require.Equal(t, 15.0, offset(0, "0:m#2"), "60 s from t* = 45 s")
		require.Equal(t, 45.0, offset(0, "0:m::sa:a4#2"))
		require.Equal(t, 10.0, offset(1, "1:m#1"), "10 s from the start of a tree that the stage opened")
		primers := r.of(measure.WarmupPhase)[:3]
		for _, s := range ofLane(rest, 0) {
			k := slices.IndexFunc(primers, func(p sentTurn) bool { return p.session == s.session })
			require.Equal(t, primers[k].correlation, s.correlation)
			require.Equal(t, primers[k].marker, s.marker)
		}
		for lane, trace := range []string{"m", "m", "s"} { // lanes are reported of profiling
			got := r.results.lanes[lane]
			require.Equal(t, trace, got.Trace)
			require.Equal(t, lane > 0, got.TStar.IsMissing())
			require.Equal(t, len(ofLane(rest, lane)), got.Requests)
			require.InDelta(t, (ofLane(rest, lane)[0].at - r.periods[1].origin).Seconds(), float64(got.FirstRequest), 1e-9)
		}
		require.Equal(t, []string{`warmup: a primer of trace "long" does not fit the context of the server: lanes [2] draw another trace`}, r.warned)
	}
}

// A parent that waits through the whole stage, and a session whose turn came after the cut-off, go on in profiling.
//
// Covers T-51.
func TestParentThatWaitsThroughTheStage(t *testing.T) {
	c := recorded(t, mixed("m"))
	for name, want := range map[string]map[string]float64{
		preset.Default: {"0:m::sa:a1#2": 0, "0:m#2": 10},
		preset.AgentX:  {"0:m::sa:a1#2": 0, "0:m#2": 10},
		preset.AIPerf:  {"0:m::sa:a1#2": 19, "0:m#2": 20}, // its delay after a return at the end; joins have no deadline
	} {
		t.Run(name, func(t *testing.T) {
			o := warming(t, c, name, Warmup{Duration: 2 * time.Second})
			r, err := virtually(t, o, func(s sentTurn) answerTo {
				switch {
				case s.name == measure.ProfilingPhase || s.phaseOfPrimers:
					return answerTo{takes: time.Second}
				case s.session == "m::sa:a1":
					return answerTo{takes: 5 * time.Second}
				}
				return answerTo{takes: 1500 * time.Millisecond}
			}, at(20))
			require.NoError(t, err)
			require.Equal(t, []string{"0:m::sa:a1#1", "0:m::sa:a4#1", "0:m::sa:a4#2"}, texts(r.stageOf()))
			rest := r.of(measure.ProfilingPhase)
			require.Equal(t, []string{"0:m#2", "0:m#3", "0:m::sa:a1#2"}, texts(rest))
			for _, s := range rest {
				if at, ok := want[s.String()]; ok {
					require.InDelta(t, at, (s.at - r.periods[1].origin).Seconds(), 1e-9, "%v", s)
				}
			}
			require.Equal(t, 1, r.summary.Branches.ChildrenResumed)
			require.Equal(t, 1, r.summary.Branches.ParentsSuspended)
		})
	}
}

// A delay that is counted from the last return goes on for TraceIdleCap at most, in a trace whose clock is not compressed because
// subagents keep its starts close.
//
// Covers T-22.
func TestTraceIdleCapAfterTheStage(t *testing.T) {
	c := recorded(t, recording("m",
		call{at: 0, took: 1}, call{at: 10, took: 1},
		call{at: 12, agent: []call{{at: 12, took: 1}, {at: 24, took: 200}}},
		call{at: 49, agent: []call{{at: 49, took: 200}}}, call{at: 74, agent: []call{{at: 74, took: 200}}}, call{at: 99, agent: []call{{at: 99, took: 200}}},
		call{at: 20, took: 1}, call{at: 120, took: 1}))
	for limit, want := range map[time.Duration]float64{0: 98.5, 30 * time.Second: 30} {
		o := warming(t, c, preset.AIPerf, Warmup{Duration: 1500 * time.Millisecond})
		o.Limits.TraceIdle = limit
		r, err := virtually(t, o, func(s sentTurn) answerTo {
			if s.session == "m" {
				return answerTo{takes: 2 * time.Second}
			}
			return answerTo{takes: 2500 * time.Millisecond}
		}, at(11))
		require.NoError(t, err)
		rest := r.of(measure.ProfilingPhase)
		require.Equal(t, []string{"0:m#3", "0:m::sa:a2#1"}, texts(rest))
		for _, s := range rest {
			require.InDelta(t, map[string]float64{"0:m::sa:a2#1": 11, "0:m#3": want}[s.String()], (s.at - r.periods[1].origin).Seconds(), 1e-9)
		}
	}
}

// No turn is lost, and none is sent twice, whatever a warmup does: what stage and profiling send of a tree is what its start
// leaves.
//
// Covers T-51, INV-20.
func TestNothingIsLostBetweenPhases(t *testing.T) {
	c := cachetest.Demo(t)
	seeds := 20
	if testing.Short() {
		seeds = 4
	}
	for seed := range seeds {
		for k, name := range fixtures.Presets {
			rng := rand.New(rand.NewPCG(uint64(seed), uint64(k)))
			w := Warmup{Primers: true, Duration: time.Duration(rng.IntN(60)) * time.Second}
			if name != preset.AIPerf && rng.IntN(2) == 0 {
				w = Warmup{Requests: 1 + rng.IntN(6)}
			}
			t.Run(fmt.Sprintf("%d/%s/%+v", seed, name, w), func(t *testing.T) {
				o := warming(t, c, name, w)
				o.Concurrency, o.Seed, o.Once, o.Limits.Prefill, o.Grace = 5, fmt.Sprint(seed), true, rng.IntN(4), time.Minute
				starts := map[int]*conductor.StartState{} // by tree
				r, err := virtually(t, o, func(s sentTurn) answerTo {
					return answerTo{takes: time.Duration(1+rng.IntN(9000)) * time.Millisecond}
				}, func(r *virtualRun) {
					for lane, a := range r.sampler.first {
						starts[r.sampler.lanes[lane].ordinal] = a.Start
					}
				})
				require.NoError(t, err)
				requireComplete(t, r, starts)
			})
		}
	}
}

// requireComplete compares what stage and profiling sent of every tree with what its start leaves to be sent.
func requireComplete(t *testing.T, r *virtualRun, starts map[int]*conductor.StartState) {
	type key struct{ tree, session, turn int }
	names := map[string][2]int{} // trace and session by name
	for i := range r.Cache.Traces() {
		for n, s := range cachetest.Plan(r.Cache, i).Sessions {
			names[s.ID] = [2]int{i, n}
		}
	}
	sent, traces := map[key]bool{}, map[int]int{}
	for _, s := range r.sent {
		at := names[s.session]
		traces[s.ordinal] = at[0]
		if s.name == measure.WarmupPhase && !r.phases[s.phase].handsOff {
			continue // a primer
		}
		require.False(t, sent[key{s.ordinal, at[1], s.turn}], "%v twice", s)
		sent[key{s.ordinal, at[1], s.turn}] = true
	}
	want := map[key]bool{}
	for tree, trace := range traces {
		for n, s := range cachetest.Plan(r.Cache, trace).Sessions {
			first := 0
			if start := starts[tree]; start != nil {
				first = start.TurnsDone[n]
			}
			for turn := first; turn < int(s.Turns); turn++ {
				want[key{tree, n, turn}] = true
			}
		}
	}
	for k := range want {
		require.True(t, sent[k], "lost: %+v", k)
	}
	require.Len(t, sent, len(want))
}

// What is in flight when the stage's duration is over gets the longer of the grace and of the duration, 300 s at most. A root
// that is cancelled then fails the warmup, a subagent does not.
//
// Covers T-47.
func TestGraceOfThePressureStage(t *testing.T) {
	c := recorded(t, mixed("m"))
	for _, v := range []struct {
		duration, grace, cancelled time.Duration
	}{
		{4 * time.Second, Off, 8 * time.Second}, {4 * time.Second, 10 * time.Second, 14 * time.Second}, {1000 * time.Second, time.Second, 1300 * time.Second},
	} {
		for _, stuck := range []string{"m", "m::sa:a4"} {
			o := warming(t, c, preset.Default, Warmup{Duration: v.duration})
			o.Grace, o.Requests, o.Limits.SystemIdle = v.grace, 5, time.Hour
			r, err := virtually(t, o, func(s sentTurn) answerTo {
				return answerTo{takes: time.Second, never: s.session == stuck && s.name == measure.WarmupPhase && !s.phaseOfPrimers}
			}, at(61))
			require.Equal(t, conductor.Limits{InOrder: true}, r.phases[1].limits, "no cap on idle time acts in the stage")
			require.Len(t, r.cancels, 1)
			require.InDelta(t, v.cancelled.Seconds(), (r.cancels[0] - r.stageOf()[0].at).Seconds(), 1e-6)
			if stuck == "m" {
				require.ErrorContains(t, err, `a request of the pressure stage of lane 0, trace "m", session "m", turn 3: still running after the grace of`)
				require.Empty(t, r.of(measure.ProfilingPhase))
				continue
			}
			require.NoError(t, err)
			require.Equal(t, 1, r.summary.Warmup.Errors[wire.Cancelled])
		}
	}
}

// A root's request of the stage that fails ends the warmup; one that overflows ends its session alone.
//
// Covers T-20.
func TestRootThatFailsInTheStage(t *testing.T) {
	c := recorded(t, mixed("m"), mixed("n"))
	for _, category := range []wire.Category{wire.HTTPStatus, wire.ContextOverflow} {
		o := warming(t, c, preset.Default, Warmup{Requests: 2})
		o.Requests = 3
		r, err := virtually(t, o, func(s sentTurn) answerTo {
			if s.name == measure.WarmupPhase && !s.phaseOfPrimers && s.session == "m" {
				return answerTo{takes: time.Second, category: category}
			}
			return answerTo{takes: time.Second}
		}, at(61))
		if category == wire.HTTPStatus {
			require.EqualError(t, err, `replay: the warmup failed, so nothing was measured: a request of the pressure stage of lane 0, trace "m", session "m", turn 3: scripted`)
			require.Len(t, r.cancels, 1)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, 3, r.summary.Requests)
		require.Zero(t, r.summary.Warmup.ReplacedLanes)
	}
}

// With R requests a lane Warmup.Grace counts from the last request sent.
//
// Covers T-47.
func TestGraceOfAStageOfRequests(t *testing.T) {
	c := recorded(t, mixed("m"), recording("s", call{at: 0, took: 1}, call{at: 50, took: 1}, call{at: 60, took: 1}, call{at: 70, took: 1}))
	o := warming(t, c, preset.Default, Warmup{Requests: 3, Grace: 5 * time.Second})
	o.Concurrency = 2
	r, err := virtually(t, o, func(s sentTurn) answerTo {
		return answerTo{takes: time.Second, never: s.session == "m" && s.name == measure.WarmupPhase && !s.phaseOfPrimers}
	}, at(61, 45))
	require.ErrorContains(t, err, `lane 0, trace "m", session "m", turn 3: still running after the grace of 5s`)
	stage := r.stageOf()
	require.Equal(t, stage[len(stage)-1].at+5*time.Second, r.at)
	require.Equal(t, 3, len(ofLane(stage, 1)))
}

// The report of a tree that deadlocks in the stage has the clock of the records of the warmup, which began with the primers.
func TestDeadlockInTheStageHasTheClockOfItsRecords(t *testing.T) {
	o := warming(t, recorded(t, mixed("m")), preset.Default, Warmup{Duration: time.Minute})
	o.Requests = 3
	r, err := virtually(t, o, second, at(20), func(r *virtualRun) {
		tree := r.sampler.lanes[0]
		root, agent := &tree.Sessions[0].Turns[3], &tree.Sessions[3].Turns[2]
		root.After, agent.After = []conductor.TurnRef{{Session: 3, Turn: 2}}, []conductor.TurnRef{{Turn: 3}}
	})
	require.NoError(t, err)
	require.NotEmpty(t, r.summary.Deadlocks)
	d := r.summary.Deadlocks[0]
	require.Equal(t, measure.WarmupPhase, d.Phase)
	require.Equal(t, "returned", d.Last.Kind)
	k := slices.IndexFunc(r.records, func(m measure.Record) bool {
		return m.Session == d.Last.Session && m.Turn == d.Last.Turn && m.Tree == d.Tree
	})
	require.Greater(t, r.stageOf()[0].at, time.Second)
	require.InDelta(t, float64(r.records[k].End.Seconds()), d.Last.At, 1e-9)
	require.InDelta(t, float64(r.records[k].End.Seconds()), d.At, 1e-9)
}

// When every trace is played once, and the stage has played them all, nothing is left to measure.
func TestStageThatLeavesNothing(t *testing.T) {
	o := warming(t, recorded(t, mixed("m")), preset.Default, Warmup{Duration: time.Hour})
	r, err := virtually(t, o, second, at(45))
	require.ErrorContains(t, err, "nothing is left to measure")
	require.Zero(t, r.summary.Requests)
	require.Less(t, r.at, time.Minute, "the stage ends with its last request")
}
