package replay

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/cachetest"
	"github.com/agentx/agentx/internal/fixtures"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/replay/conductor"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/payload"
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

// virtualRun is a run on virtual time. It is the medium of its phases, and answers requests as a script says.
type virtualRun struct {
	*run
	t           *testing.T
	around      func(play func(context.Context)) // calls play
	script      func(s sentTurn) answerTo
	at          time.Duration
	interruptAt time.Duration // 0: never

	interruptBefore int // number of the phase, from 1, that begins with an interrupt; 0: none
	pending         []pendingEvent
	sent            []sentTurn
	cancels         []time.Duration
	phases          []phase
	summary         *measure.Summary
	records         []measure.Record
	warned          []string
}

// sentTurn is a request as it was handed to the transport, at an instant of the run.
type sentTurn struct {
	at             time.Duration
	phase          int // number of the phase among those of the run
	name           string
	lane, turn     int
	trace, session string
	tokens         int64 // asked for
	marker         payload.Marker
	correlation    string
	ordinal        int // of the tree
	phaseOfPrimers bool
}

// String returns what was sent, without the tree's name if that is the session's too.
func (s sentTurn) String() string { return fmt.Sprintf("%d:%s#%d", s.lane, s.session, s.turn) }

// answerTo is the answer to a request.
type answerTo struct {
	takes    time.Duration
	category wire.Category // "": it ends well
	retry    time.Duration // Retry-After of one that does not
	never    bool          // there is none
	deaf     bool          // not even to a cancellation
}

// second is the answer of a server that takes a second for each request.
func second(sentTurn) answerTo { return answerTo{takes: time.Second} }

// virtually plays a run on virtual time, and returns it with its error.
func virtually(t *testing.T, o Options, script func(sentTurn) answerTo, prepare ...func(*virtualRun)) (*virtualRun, error) {
	t.Helper()
	v := &virtualRun{t: t, script: script, around: func(play func(context.Context)) { play(t.Context()) }}
	o.Warn = func(text string) {
		if !strings.HasPrefix(text, "preset ") { // of the cache, which has the profile default
			v.warned = append(v.warned, text)
		}
	}
	require.NoError(t, o.Validate())
	v.run = newRun(o.WithDefaults())
	v.medium = v
	require.NoError(t, v.prepare(t.Context()))
	require.NoError(t, v.open(t.Context()))
	require.NoError(t, v.start())
	for _, f := range prepare {
		f(v)
	}
	var err error
	v.around(func(ctx context.Context) { v.summary, err = v.play(ctx) })
	v.results.warnAtEnd(v.summary)
	require.NoError(t, v.results.write(v.summary))
	v.run.close() // then all warnings have been given
	v.records = readRecords(t, v.results.dir.path)
	requireIdentified(t, v.records)
	return v, err
}

func (v *virtualRun) now() time.Duration { return v.at }

func (v *virtualRun) ready(context.Context) *measure.Ahead { return nil }

func (v *virtualRun) begin(_ context.Context, p phase, origin, recordsOrigin time.Duration) (clock, transport, func()) {
	require.Equal(v.t, v.at, origin)
	require.Empty(v.t, v.pending, "nothing is in flight between two phases")
	v.phases = append(v.phases, p)
	if v.interruptBefore > 0 && len(v.phases) == v.interruptBefore {
		v.interruptAt = v.at
	}
	m := &virtualPhase{v, origin, v.newSender(p, origin, recordsOrigin)}
	return m, m, func() {
		m.sender.close()
		v.pending = nil // what comes later is dropped
	}
}

// virtualPhase is the clock and the transport of a phase.
type virtualPhase struct {
	*virtualRun
	origin time.Duration
	sender *requestSender
}

func (p *virtualPhase) now() time.Duration { return p.at - p.origin }

func (p *virtualPhase) await(until time.Duration) (event, bool) {
	if i := p.interruptAt; i > 0 && i <= p.origin+until && (len(p.pending) == 0 || i <= p.pending[0].at) {
		p.at, p.interruptAt = max(p.at, i), 0
		return event{kind: interrupted}, true
	}
	if len(p.pending) > 0 && p.pending[0].at <= p.origin+until {
		e := p.pending[0]
		p.pending = p.pending[1:]
		p.at = max(p.at, e.at)
		return e.event, true
	}
	p.at = max(p.at, p.origin+until)
	return event{}, false
}

func (p *virtualPhase) send(r *request) {
	r.tree = p.sampler.lanes[r.dispatch.Lane]
	r.record = p.sender.newRecord(r)
	s := sentTurn{
		at: p.at, phase: len(p.phases) - 1, name: r.record.Phase, lane: r.record.Lane, turn: r.record.Turn, trace: r.record.Trace,
		session: r.record.Session, tokens: r.record.MaxTokens, marker: r.tree.marker, correlation: r.record.CorrelationID, ordinal: r.tree.ordinal,
	}
	s.phaseOfPrimers = s.name == measure.WarmupPhase && !p.phases[s.phase].handsOff
	p.virtualRun.sent = append(p.virtualRun.sent, s)
	switch a := p.script(s); {
	case a.deaf:
	case a.never:
		p.pending = append(p.pending, pendingEvent{1 << 62, event{kind: returned, id: r.dispatch.ID}}) // waits for its cancellation
	default:
		p.returns(r.dispatch.ID, p.at, p.at+a.takes, a.category, wire.Usage{Prompt: r.record.RecordedISL, Completion: r.record.MaxTokens})
		p.pending[slices.IndexFunc(p.pending, func(e pendingEvent) bool { return e.id == r.dispatch.ID })].answer.RetryAfter = a.retry
	}
}

// returns lets a request return at an instant of the run.
func (p *virtualPhase) returns(id int, sent, at time.Duration, category wire.Category, usage wire.Usage) {
	result := wire.Result{
		Sent: sent, End: at, FirstToken: at, LastToken: at, SecondToken: wire.Never, FirstOutput: wire.Never, LastMessage: at, Usage: usage,
	}
	if category != "" {
		result = failedResult(sent, at, category, "scripted")
	}
	p.pending = append(p.pending, pendingEvent{at, event{kind: returned, id: id, answer: &answer{Result: since(p.origin, result)}}})
	slices.SortStableFunc(p.pending, func(a, b pendingEvent) int { return cmp.Compare(a.at, b.at) })
}

func (p *virtualPhase) look(time.Duration) time.Duration { return 0 }

func (p *virtualPhase) cancelAll() {
	p.cancels = append(p.cancels, p.at)
	inFlight := p.pending
	p.pending = nil
	for _, e := range inFlight {
		p.returns(e.id, p.at, p.at, wire.Cancelled, wire.NoUsage)
	}
}

// of returns what was sent in the phases of a name, in the order of sending.
func (v *virtualRun) of(name string) (list []sentTurn) {
	return slices.DeleteFunc(slices.Clone(v.sent), func(s sentTurn) bool { return s.name != name })
}

// texts returns what was sent, sorted.
func texts(list []sentTurn) (all []string) {
	for _, s := range list {
		all = append(all, s.String())
	}
	slices.Sort(all)
	return all
}

// call is a recorded request: when it started, and how long it took, in seconds. Requests of an agent stand in its list.
type call struct {
	at, took float64
	agent    []call
}

// recording returns the JSON line of a trace of these requests.
func recording(id string, calls ...call) string {
	blocks := func(n int) string {
		var list []string
		for b := range n {
			list = append(list, fmt.Sprint(b))
		}
		return strings.Join(list, ",")
	}
	request := func(c call, base, k int) string {
		return fmt.Sprintf(`{"t":%g,"type":"n","model":"m","in":%d,"out":2,"hash_ids":[%s],"input_types":[],"output_types":[],"stop":"","api_time":%g}`,
			c.at, 64*(base+k+1), blocks(base+k+1), c.took)
	}
	var list []string
	for k, c := range calls {
		if c.agent == nil {
			list = append(list, request(c, 0, k))
			continue
		}
		var inner []string
		for n, a := range c.agent {
			inner = append(inner, request(a, 2, n))
		}
		last := c.agent[len(c.agent)-1]
		list = append(list, fmt.Sprintf(`{"t":%g,"type":"subagent","agent_id":"a%d","subagent_type":"x","status":"completed","duration_ms":%g,"models":["m"],"requests":[%s]}`,
			c.at, k, 1000*(last.at+last.took-c.at), strings.Join(inner, ",")))
	}
	return fmt.Sprintf(`{"id":%q,"models":["m"],"block_size":64,"hash_id_scope":"local","tool_tokens":0,"system_tokens":64,"requests":[%s]}`+"\n", id, strings.Join(list, ","))
}

// recorded returns a cache of traces.
func recorded(t *testing.T, lines ...string) *mmapcache.Cache {
	return cachetest.Prepare(t, strings.Join(lines, ""), "code")
}

// warming are options of a run on virtual time: at recorded speed, with a marker, from the middle of every trace, and with a
// warmup.
func warming(t *testing.T, c *mmapcache.Cache, name string, w Warmup) Options {
	o := optionsFor(t, c, unreachable)
	o.Concurrency, o.Pace, o.Marker, o.Warmup, o.Start = 1, Pace{}, payload.FirstTurnPrefix, w, Start{Sampled: true}
	s, ok := preset.Named(name)
	require.True(t, ok)
	o.Preset, o.Switches, o.AllowWrap = name, &s, true
	o.Overwrite = true
	return o
}

// at sets t* of lanes, in seconds of their traces. A trace without times keeps the turn that was drawn.
func at(tStar ...float64) func(*virtualRun) {
	return func(v *virtualRun) {
		for lane, s := range tStar {
			if _, _, timed := v.sampler.lanes[lane].Bounds(); !timed {
				continue
			}
			state := v.sampler.lanes[lane].At(1000 * s)
			require.NotEmpty(v.t, state.Live)
			v.begun[lane].tStar, v.sampler.first[lane].Start = 1000*s, state
		}
	}
}

// A turn spawns a child and has a next turn, and the lane may send one more request: the child is sent, the session's own turn is
// left to profiling.
//
//
func TestChildrenComeBeforeTheNextTurnInTheStage(t *testing.T) {
	c := recorded(t, recording("o", call{at: 0, took: 5}, call{at: 100, took: 5}, call{at: 200, took: 5},
		call{at: 206, agent: []call{{at: 206, took: 5}, {at: 266, took: 5}, {at: 326, took: 5}}},
		call{at: 300, took: 5}, call{at: 400, took: 5}, call{at: 500, took: 5}))
	for _, name := range []string{preset.Default, preset.AgentX} {
		o := warming(t, c, name, Warmup{Requests: 3})
		o.Requests = 2
		r, err := virtually(t, o, second, at(75))
		require.NoError(t, err)
		require.Equal(t, []string{"0:o#0"}, texts(r.of(measure.WarmupPhase)[:1]), "the primer")
		require.Equal(t, []string{"0:o#1", "0:o#2", "0:o::sa:a3#0"}, texts(r.stageOf()))
		require.Equal(t, []string{"0:o#3", "0:o::sa:a3#1"}, texts(r.of(measure.ProfilingPhase)))
	}
}

// With HandoffOrder seed the answers do not decide what the stage leaves: however long each takes, the same turns are sent, and the
// same sessions of the same trees go on at the same instants. With arrival they do.
//
// Covers T-70.
func TestTheSeedAloneDecidesTheHandoff(t *testing.T) {
	var lines []string
	for k, id := range []string{"m1", "m2", "m3", "s1", "s2"} {
		if id[0] == 'm' {
			lines = append(lines, mixed(id))
		} else {
			lines = append(lines, recording(id, call{at: 0, took: 1}, call{at: 5 + float64(k), took: 1}, call{at: 20, took: 1}))
		}
	}
	c := recorded(t, lines...)
	for _, recycle := range []Recycle{RecycleSampler, RecycleFIFOGuarded} {
		for _, byArrival := range []bool{false, true} {
			seen := map[string]bool{}
			for trial := range 30 {
				random := rand.New(rand.NewPCG(1, uint64(trial)))
				o := warming(t, c, preset.Default, Warmup{Requests: 5})
				o.Concurrency, o.Duration, o.Recycle, o.Switches.HandoffByArrival = 4, 200*time.Second, recycle, byArrival
				r, err := virtually(t, o, func(s sentTurn) answerTo {
					if s.name == measure.ProfilingPhase {
						return answerTo{takes: time.Second}
					}
					return answerTo{takes: time.Duration(1+random.IntN(2000)) * time.Millisecond}
				})
				require.NoError(t, err)
				require.EqualValues(t, 20, r.summary.Warmup.StageRequests)
				played := ""
				for lane := range 4 {
					require.Len(t, ofLane(r.stageOf(), lane), 5)
				}
				for _, s := range r.of(measure.ProfilingPhase) {
					played += fmt.Sprintln(s.at-r.periods[1].origin, s)
				}
				seen[played] = true
			}
			if !byArrival {
				require.Equal(t, 1, len(seen), "hand-offs")
			} else {
				require.Greater(t, len(seen), 1)
			}
		}
	}
}

// A session of the plan that the server ends early leaves its lane short: the stage ends all the same. A tree that ends before its time
// is followed by one that no plan has; the recycler hears of the end of each tree once.
func TestAStageOfThePlanEndsWithoutTheRequestsOfEndedSessions(t *testing.T) {
	plain := func(id string) string {
		return recording(id, call{at: 0, took: 1}, call{at: 10, took: 1}, call{at: 20, took: 1}, call{at: 30, took: 1}, call{at: 40, took: 1}, call{at: 50, took: 1})
	}
	for _, session := range []string{"m1::sa:a1", "s1"} {
		lines := []string{mixed("m1"), mixed("m2"), mixed("m3")}
		if session == "s1" {
			lines = []string{plain("s1"), plain("s2"), plain("s3")}
		}
		o := warming(t, recorded(t, lines...), preset.Default, Warmup{Requests: 3})
		o.Concurrency, o.Duration, o.Recycle = 2, 300*time.Second, RecycleFIFOGuarded
		r, err := virtually(t, o, func(s sentTurn) answerTo {
			if !s.phaseOfPrimers && s.name == measure.WarmupPhase && s.session == session {
				return answerTo{takes: time.Second, category: wire.ContextOverflow}
			}
			return answerTo{takes: time.Second}
		}, at(5, 5))
		require.NoError(t, err)
		require.Positive(t, r.summary.Requests)
		require.Len(t, ofLane(r.stageOf(), 1), 3)
		q := r.sampler.recycler.(*guardedQueue)
		require.Len(t, q.queue, 3+2, "each of two lanes ended a tree that none followed")
		require.Empty(t, q.live.now)
	}
}
