package replay

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/fixtures"
	"github.com/agentx/agentx/replay/conductor"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/payload"
	"github.com/agentx/agentx/replay/preset"
	"github.com/agentx/agentx/replay/resume"
	"github.com/agentx/agentx/replay/wire"
)

func milliseconds(n float64) time.Duration { return time.Duration(n * 1e6) }

// rampOf returns the ramp that options come to.
func rampOf(name string, system *float64, leadMax time.Duration, burst bool) (o Options) {
	o = Options{Preset: name, Start: Start{Burst: burst}, Warmup: Warmup{LeadMax: leadMax}, Marker: payload.NoMarker}
	if system != nil {
		o.Limits.SystemIdle = milliseconds(*system)
	}
	return o.WithDefaults()
}

// TestWarmupSpread plays the vectors of the ramp under each preset that they name.
//
// Covers T-18.
func TestWarmupSpread(t *testing.T) {
	type in struct {
		Leads   []float64 `json:"lead_ms"`
		System  *float64  `json:"system_cap_ms"`
		LeadMax any       `json:"primer_lead_max_ms"`
		Mode    string
		Service float64 `json:"service_ms"`
		RunTime bool    `json:"run_time"`
	}
	type want struct {
		Fire []float64 `json:"fire_ms"`
	}
	fixtures.EachCase(t, "warmup_spread", fixtures.Counts{6, 6, 6}, func(t *testing.T, c fixtures.Case, in in, want want) {
		leadMax := time.Duration(0) // its default
		if n, ok := in.LeadMax.(float64); ok {
			leadMax = milliseconds(n)
		} else if c.Name == "no-cap" { // null, which is not the same as left out
			leadMax = Off
		}
		o := rampOf(c.Preset, in.System, leadMax, in.Mode == "burst")
		var leads []time.Duration
		for _, lead := range in.Leads {
			leads = append(leads, milliseconds(lead))
		}
		at := o.ramp().Times(leads)
		if in.RunTime {
			at = fired(t, at, o.Limits.SystemIdle, milliseconds(in.Service))
		}
		for k := range at {
			require.Equal(t, milliseconds(want.Fire[k]), at[k])
		}
	})
}

// fired plays primers under a cap on the idle time of the system, and returns when each was sent.
func fired(t *testing.T, at []time.Duration, idle, service time.Duration) (sent []time.Duration) {
	source := make(onceSource, len(at))
	for lane := range source {
		tree := &conductor.Tree{Sessions: []conductor.Session{{Turns: make([]conductor.Turn, 1)}}}
		source[lane] = conductor.Assignment{Tree: tree, Start: &conductor.StartState{TurnsDone: []int{0}, Live: []conductor.LiveSession{{Due: at[lane]}}}}
	}
	s := &simulation{script: func(conductor.Dispatch) (time.Duration, time.Duration, wire.Category) { return service, 0, "" }}
	w := &warmup{run: &run{Options: Options{Concurrency: len(at), Limits: Limits{SystemIdle: idle}}}}
	p := w.phase(source, conductor.Limits{SystemIdle: idle})
	p.recorder, p.fatal = s, nil
	require.NoError(t, newLoop(Options{Concurrency: len(at), Switches: withoutTreeIdle(), Progress: func(Progress) {}}, p, s, s).run())
	sent = make([]time.Duration, len(at))
	for k, d := range s.sent {
		sent[d.Lane] = s.sentAt[k]
	}
	return sent
}

// TestWarmupGrace plays the vectors of primers that never answer.
//
// Covers T-47.
func TestWarmupGrace(t *testing.T) {
	type in struct {
		Sent        []float64 `json:"sent_ms"`
		Returned    []*float64
		ReturnedMS  []*float64 `json:"returned_ms"`
		Grace       *float64   `json:"grace_ms"`
		CancelTakes *float64   `json:"cancel_takes_ms"`
		Pressure    float64    `json:"pressure_ms"`
	}
	type want struct {
		End        float64 `json:"end_ms"`
		Failed     bool
		Unfinished []int
		Stage      bool `json:"stage_started"`
	}
	c := recorded(t, recording("a", call{at: 0, took: 1}, call{at: 60, took: 1}), recording("b", call{at: 0, took: 1}, call{at: 60, took: 1}))
	fixtures.EachCase(t, "warmup_grace", fixtures.Counts{5, 5, 5}, func(t *testing.T, v fixtures.Case, in in, want want) {
		o := warming(t, c, v.Preset, Warmup{Primers: true, LeadMax: Off, Duration: milliseconds(in.Pressure)})
		o.Concurrency = 2
		if in.Grace != nil {
			o.Warmup.Grace = milliseconds(*in.Grace)
		}
		tStars := []float64{9 - in.Sent[0]/1000, 9 - in.Sent[1]/1000} // as they are sent: the leads
		r, err := virtually(t, o, func(s sentTurn) answerTo {
			switch {
			case s.name == measure.ProfilingPhase:
				return answerTo{takes: time.Second}
			case in.ReturnedMS[s.lane] == nil:
				return answerTo{never: in.CancelTakes != nil, deaf: in.CancelTakes == nil}
			}
			return answerTo{takes: milliseconds(*in.ReturnedMS[s.lane]) - s.at}
		}, at(tStars...))
		for lane, s := range r.sent[:2] {
			require.Equal(t, lane, s.lane)
			require.Equal(t, milliseconds(in.Sent[lane]), s.at)
		}
		require.InDelta(t, want.End/1000, float64(r.summary.Warmup.Duration), 1e-9)
		require.Equal(t, want.Failed, err != nil)
		if want.Failed {
			require.Len(t, r.phases, 1, "neither a stage nor profiling")
			require.Len(t, r.cancels, 1)
			require.Zero(t, r.summary.Requests)
			for _, lane := range want.Unfinished {
				require.ErrorContains(t, err, fmt.Sprintf(`lane %d, trace %q, session %[2]q, turn 0: still running after the grace of 5s`, lane, []string{"a", "b"}[lane]))
			}
		} else {
			require.Len(t, r.phases, 2)
			require.Empty(t, r.cancels)
		}
		require.False(t, want.Stage)
	})
}

// mixed is a trace with sessions of every kind at t* = 45 s: a root that waits for agent a1, which runs, a2 and a3 in the
// background, of which the second has sent nothing, and a4, which is over.
func mixed(id string) string {
	return recording(id,
		call{at: 0, took: 1},
		call{at: 2, agent: []call{{at: 2, took: 1}, {at: 30, took: 1}, {at: 50, took: 1}}}, // a1, joined at 60
		call{at: 3, agent: []call{{at: 3, took: 1}, {at: 5, took: 1}}},                     // a2, over at 6
		call{at: 10, took: 1},
		call{at: 12, agent: []call{{at: 12, took: 1}, {at: 48, took: 1}, {at: 90, took: 1}}}, // a4, in the background
		call{at: 60, took: 1},
		call{at: 70, took: 1},
	)
}

// Every session with a turn before its next has one primer of one token, with the marker and correlation id that it has later.
// Nothing is spawned. The summary speaks of profiling.
//
// Covers T-17.
func TestPrimersOfARun(t *testing.T) {
	for _, name := range fixtures.Presets {
		t.Run(name, func(t *testing.T) {
			o := warming(t, recorded(t, mixed("m")), name, Warmup{Primers: true})
			r, err := virtually(t, o, second, at(45))
			require.NoError(t, err)
			primers, rest := r.of(measure.WarmupPhase), r.of(measure.ProfilingPhase)
			require.Equal(t, []string{"0:m#1", "0:m::sa:a1#1", "0:m::sa:a4#0"}, texts(primers))
			for _, s := range primers {
				require.EqualValues(t, 1, s.tokens)
			}
			require.Equal(t, []string{"0:m#2", "0:m#3", "0:m::sa:a1#2", "0:m::sa:a4#1", "0:m::sa:a4#2"}, texts(rest))
			for _, s := range rest {
				require.EqualValues(t, 2, s.tokens)
				require.Equal(t, primers[0].marker, s.marker)
				k := slices.IndexFunc(primers, func(p sentTurn) bool { return p.session == s.session })
				require.Equal(t, primers[k].correlation, s.correlation)
			}
			require.Equal(t, 5, r.summary.Requests)
			require.Equal(t, 5, r.summary.Buckets.Profiling)
			require.Equal(t, 2, r.summary.Branches.ChildrenResumed)
			require.Zero(t, r.summary.Branches.ChildrenSpawned)
			require.Equal(t, 3, r.summary.Warmup.Requests)
			require.EqualValues(t, 3, r.summary.Warmup.Primers)
			require.Len(t, r.records, 8)
			for _, record := range r.records[:3] {
				require.Equal(t, measure.WarmupBucket, record.Bucket)
			}
			require.Empty(t, r.warned)
		})
	}
}

// The ramp of a run: primers are spread by their leads, or all leave at once. Leads are divided by the speed; without delays
// they are 0.
//
// Covers T-18.
func TestRampOfARun(t *testing.T) {
	var lines []string
	for k := range 3 {
		lines = append(lines, recording(fmt.Sprint("t", k), call{at: 0, took: 0.1}, call{at: 1000, took: 0.1}))
	}
	c := recorded(t, lines...)
	sends := func(name string, set func(*Options)) (list []float64) {
		o := warming(t, c, name, Warmup{Primers: true})
		o.Concurrency = 3
		set(&o)
		r, err := virtually(t, o, func(sentTurn) answerTo { return answerTo{takes: 100 * time.Millisecond} }, at(0.5, 3, 400))
		require.NoError(t, err)
		list = make([]float64, 3)
		for _, s := range r.of(measure.WarmupPhase) {
			list[s.lane] = s.at.Seconds()
		}
		return list
	}
	system := func(o *Options) { o.Limits.SystemIdle = 10 * time.Second }
	none := func(*Options) {}
	for _, name := range []string{preset.Default, preset.AgentX} {
		require.Equal(t, []float64{9.5, 7, 0}, sends(name, none))
		require.Equal(t, []float64{9.5, 7, 0}, sends(name, system))
		require.Equal(t, []float64{399.5, 397, 0}, sends(name, func(o *Options) { o.Warmup.LeadMax = Off }))
		require.Equal(t, []float64{19.5, 17, 0}, sends(name, func(o *Options) { o.Limits.SystemIdle = 20 * time.Second }), "without a cap of its own")
	}
	require.Equal(t, []float64{59.5, 57, 0}, sends(preset.Default, func(o *Options) { o.Limits.SystemIdle = time.Minute }), "primer-lead-max is off")
	require.Equal(t, []float64{19.5, 17, 0}, sends(preset.Default, func(o *Options) {
		o.Switches.LeadCapOfTrace, o.Limits.TraceIdle, o.Warmup.LeadMax = true, 20*time.Second, time.Second
	}), "the cap of the trace alone")
	require.Equal(t, []float64{399.5, 397, 0}, sends(preset.AIPerf, none))
	require.Equal(t, []float64{12.6, 10.1, 0}, sends(preset.AIPerf, system))
	for _, name := range fixtures.Presets {
		require.Equal(t, []float64{0, 0, 0}, sends(name, func(o *Options) { o.Start.Burst = true }))
		require.Equal(t, []float64{0, 0, 0}, sends(name, func(o *Options) { o.Pace = Pace{ASAP: true} }))
	}
	require.Equal(t, []float64{9.875, 9.25, 0}, sends(preset.Default, func(o *Options) { o.Pace = Pace{Speed: 4} }))
}

// A ramp of more than a minute is told, with the gaps as the cap on idle time cuts them.
func TestLongRampIsTold(t *testing.T) {
	c := recorded(t, recording("t0", call{at: 0, took: 0.1}, call{at: 1000, took: 0.1}), recording("t1", call{at: 0, took: 0.1}, call{at: 1000, took: 0.1}))
	warned := func(name string, idle time.Duration) []string {
		o := warming(t, c, name, Warmup{Primers: true})
		o.Concurrency, o.Limits.SystemIdle = 2, idle
		r, err := virtually(t, o, second, at(3, 400))
		require.NoError(t, err)
		return r.warned
	}
	require.Contains(t, warned(preset.AIPerf, 0), "warmup: the primers take about 6m37s to send, because they are spread as recorded: --system-idle-cap cuts the gaps between them, --warmup-lead-cap system with --primer-lead-max the whole")
	require.NotContains(t, strings.Join(warned(preset.AIPerf, 10*time.Second), " "), "to send")
	require.NotContains(t, strings.Join(warned(preset.Default, 0), " "), "to send")
	seconds := func(list ...time.Duration) (at []time.Duration) {
		for _, n := range list {
			at = append(at, n*time.Second)
		}
		return at
	}
	require.Equal(t, 100*time.Second, rampLength(seconds(100, 0, 3), 0))
	require.Equal(t, 13*time.Second, rampLength(seconds(100, 0, 3), 10*time.Second))
	require.Zero(t, rampLength(nil, 0))
}

// The grace of a round that a subagent alone outlasts ends it: profiling begins, without the pressure stage, and the session
// goes on.
//
// Covers T-47.
func TestSubagentThatOutlastsTheGrace(t *testing.T) {
	for _, name := range fixtures.Presets {
		o := warming(t, recorded(t, mixed("m")), name, Warmup{Duration: time.Minute, Grace: 5 * time.Second})
		r, err := virtually(t, o, func(s sentTurn) answerTo {
			return answerTo{takes: time.Second, never: s.phaseOfPrimers && s.session == "m::sa:a1"}
		}, at(45))
		require.NoError(t, err)
		require.Empty(t, r.stageOf())
		require.Equal(t, []time.Duration{r.sent[2].at + 5*time.Second}, r.cancels)
		require.Equal(t, 1, r.summary.Warmup.Errors[wire.Cancelled])
		require.Equal(t, []string{"0:m#2", "0:m#3", "0:m::sa:a1#2", "0:m::sa:a4#1", "0:m::sa:a4#2"}, texts(r.of(measure.ProfilingPhase)))
	}
}

// Lanes beyond the number of trees that may be opened have no primers either, nor a stage.
//
// Covers T-17.
func TestLanesWithoutATreeHaveNoPrimers(t *testing.T) {
	for _, o := range []Options{{Trees: 1}, {Once: true}} {
		run := warming(t, recorded(t, mixed("m")), preset.Default, Warmup{Requests: 1})
		run.Concurrency, run.Trees, run.Once = 3, o.Trees, o.Once
		r, err := virtually(t, run, second, at(45))
		require.NoError(t, err)
		require.Equal(t, 1, r.sampler.opened)
		for _, s := range r.sent {
			require.Zero(t, s.lane)
		}
		require.Equal(t, 1, r.summary.Lanes.Started)
	}
}

// A run that ignores delays and drops the recorded order, as under aiperf-0.13, has no t*: the turn that was drawn is the primer,
// profiling goes on with the next, and what that spawns begins at its return.
//
// Covers T-17.
func TestWarmupWithoutRecordedTimes(t *testing.T) {
	o := warming(t, recorded(t, mixed("m")), preset.AIPerf, Warmup{Primers: true})
	o.Pace.ASAP, o.Start.Ratios = true, &resume.Ratios{}
	r, err := virtually(t, o, second)
	require.NoError(t, err)
	require.Equal(t, []string{"0:m#0"}, texts(r.of(measure.WarmupPhase)))
	require.EqualValues(t, 1, r.sent[0].tokens)
	var rest []string
	for _, s := range r.of(measure.ProfilingPhase) {
		rest = append(rest, fmt.Sprint((s.at-r.periods[1].origin).Seconds(), " ", s))
	}
	slices.Sort(rest)
	require.Equal(t, []string{"0 0:m#1", "1 0:m#2", "1 0:m::sa:a4#0", "2 0:m#3", "2 0:m::sa:a4#1", "3 0:m::sa:a4#2"}, rest)
}

// A prefill limit holds for primers, and their grace counts though they never leave.
//
// Covers T-47.
func TestPrefillLimitHoldsForPrimers(t *testing.T) {
	c := recorded(t, recording("a", call{at: 0, took: 1}, call{at: 60, took: 1}), recording("b", call{at: 0, took: 1}, call{at: 60, took: 1}))
	o := warming(t, c, preset.Default, Warmup{Primers: true, Grace: 5 * time.Second})
	o.Concurrency, o.Start.Burst, o.Limits.Prefill = 2, true, 1
	r, err := virtually(t, o, second, at(9, 9))
	require.NoError(t, err)
	require.Equal(t, time.Second, r.sent[1].at)
	r, err = virtually(t, o, func(sentTurn) answerTo { return answerTo{never: true} }, at(9, 9))
	require.ErrorContains(t, err, "lane 0")
	require.NotContains(t, err.Error(), "lane 1", "it was never sent")
	require.Len(t, r.sent, 1)
	require.Equal(t, 5*time.Second, r.at)
}

// Primers of subagents that never answer end the round with its grace, with those that still wait for a slot. Profiling
// begins, but no pressure stage.
//
// Covers T-47.
func TestSubagentPrimerThatIsStuck(t *testing.T) {
	c := recorded(t, mixed("m"))
	o := warming(t, c, preset.Default, Warmup{Duration: 3 * time.Second, Grace: 5 * time.Second})
	o.Start.Burst, o.Limits.Prefill = true, 1
	r, err := virtually(t, o, func(s sentTurn) answerTo {
		return answerTo{takes: time.Second, never: s.session == "m::sa:a1" && s.name == measure.WarmupPhase}
	}, at(45))
	require.NoError(t, err)
	require.Equal(t, []string{"0:m#1", "0:m::sa:a1#1"}, texts(r.of(measure.WarmupPhase)), "a4 got no slot")
	require.Equal(t, []time.Duration{6 * time.Second}, r.cancels, "5 s after the last was sent")
	require.Len(t, r.phases, 2)
	require.Equal(t, 5, r.summary.Requests)
	require.EqualValues(t, 1, r.summary.Warmup.PrimersFailed)
}

// Without a turn before any lane's start there is no primer: profiling begins at once, or the pressure stage.
//
// Covers T-19.
func TestWarmupWithoutPrimers(t *testing.T) {
	c := recorded(t, mixed("m"))
	for _, name := range fixtures.Presets {
		r, err := virtually(t, warming(t, c, name, Warmup{Primers: true}), second, at(0))
		require.NoError(t, err)
		require.Len(t, r.phases, 1)
		require.Equal(t, measure.ProfilingPhase, r.sent[0].name)
		require.Zero(t, r.sent[0].at)
		require.Zero(t, r.summary.Warmup.Requests)
		require.EqualValues(t, 0, r.summary.Warmup.Duration)

		r, err = virtually(t, warming(t, c, name, Warmup{Duration: 2 * time.Second}), second, at(0))
		require.NoError(t, err)
		require.Len(t, r.phases, 2)
		require.Equal(t, measure.WarmupPhase, r.sent[0].name)
		require.Zero(t, r.summary.Warmup.Primers)
	}
	o := warming(t, c, preset.Default, Warmup{Primers: true})
	o.Start = Start{}
	r, err := virtually(t, o, second)
	require.NoError(t, err)
	require.Len(t, r.warned, 1)
	require.Contains(t, r.warned[0], "there are no primers")
	require.Empty(t, r.of(measure.WarmupPhase))
}

// A root's primer that fails ends the warmup: all that is in flight is cancelled, once, and profiling never begins. A primer
// of a subagent may fail. The results are written.
//
// Covers T-20.
func TestPrimerThatFails(t *testing.T) {
	c := recorded(t, mixed("m"), recording("a", call{at: 0, took: 1}, call{at: 60, took: 1}), recording("b", call{at: 0, took: 1}, call{at: 60, took: 1}))
	for _, name := range fixtures.Presets {
		for which, fails := range map[string]func(sentTurn) bool{
			"root":     func(s sentTurn) bool { return s.session == "m" },
			"subagent": func(s sentTurn) bool { return s.session == "m::sa:a1" },
		} {
			t.Run(name+"/"+which, func(t *testing.T) {
				o := warming(t, c, name, Warmup{Primers: true, LeadMax: Off})
				o.Concurrency = 3
				r, err := virtually(t, o, func(s sentTurn) answerTo {
					switch {
					case s.name == measure.WarmupPhase && fails(s):
						return answerTo{takes: 2 * time.Second, category: wire.HTTPStatus}
					case s.name == measure.WarmupPhase && s.session == "b":
						return answerTo{takes: time.Hour}
					}
					return answerTo{takes: time.Second}
				}, at(45, 36, 36)) // m's root at 0, a and b a second later, the last primer at 33 s
				if which == "subagent" {
					require.NoError(t, err)
					require.Empty(t, r.cancels)
					require.EqualValues(t, 1, r.summary.Warmup.PrimersFailed)
					require.Equal(t, 1, r.summary.Warmup.Errors[wire.HTTPStatus])
					require.Positive(t, r.summary.Completed)
					return
				}
				require.EqualError(t, err, `replay: the warmup failed, so nothing was measured: the primer of lane 0, trace "m", session "m", turn 1: scripted`)
				require.Len(t, r.cancels, 1)
				require.Len(t, r.phases, 1)
				require.Zero(t, r.summary.Requests)
				require.Less(t, len(r.sent), 5, "the ramp ends")
				require.Len(t, r.records, len(r.sent))
				require.Equal(t, []time.Duration{3 * time.Second}, r.cancels, "when it failed")
				require.Equal(t, 3*time.Second, r.at)
				require.EqualValues(t, len(r.sent), r.summary.Warmup.Requests)
				require.Empty(t, r.warned)
			})
		}
	}
}

// A primer whose prompt does not fit the context fails nothing: all lanes of its trace keep their numbers and draw another,
// whose primers are a further round. With WarmupOverflow fail it is a failure as any other: nothing is measured.
//
// Covers T-22, A-6.
func TestPrimerThatOverflows(t *testing.T) {
	var lines []string
	for _, id := range []string{"a", "b", "c", "d"} {
		lines = append(lines, recording(id, call{at: 0, took: 1}, call{at: 1, took: 1}, call{at: 60, took: 1}))
	}
	c := recorded(t, lines...)
	overflows := func(traces ...string) func(sentTurn) answerTo {
		return func(s sentTurn) answerTo {
			if slices.Contains(traces, s.trace) {
				return answerTo{takes: time.Second, category: wire.ContextOverflow}
			}
			return answerTo{takes: time.Second}
		}
	}
	for _, name := range fixtures.Presets {
		o := warming(t, c, name, Warmup{Primers: true})
		o.Concurrency, o.Trees, o.Start.Burst = 6, 6, true // a b c d a b
		r, err := virtually(t, o, overflows("a", "c"))
		if o.switches().OverflowFails {
			require.ErrorContains(t, err, "replay: the warmup failed, so nothing was measured: the primer of lane 0, trace \"a\"")
			require.Len(t, r.phases, 1)
			require.Zero(t, r.summary.Requests)
			continue
		}
		require.NoError(t, err)
		require.EqualValues(t, 3, r.summary.Warmup.ReplacedLanes)
		require.Zero(t, r.summary.Warmup.EmptyLanes)
		require.Len(t, r.phases, 3, "two rounds")
		first, last := map[int]sentTurn{}, map[int]sentTurn{}
		for _, s := range r.of(measure.WarmupPhase) {
			if s.phase == 0 {
				first[s.lane] = s
			}
			last[s.lane] = s
		}
		instants := map[float64]bool{}
		for lane := range 6 {
			instants[r.begun[lane].tStar] = true
			if lane == 0 || lane == 2 || lane == 4 { // a or c
				require.Equal(t, 1, last[lane].phase)
				require.Contains(t, []string{"b", "d"}, last[lane].trace)
				require.NotEqual(t, first[lane].marker, last[lane].marker)
				require.NotEqual(t, first[lane].correlation, last[lane].correlation)
			} else {
				require.Zero(t, last[lane].phase, "it was primed in the first round")
			}
		}
		require.Len(t, instants, 6, "each lane has a t* of its own")
		for _, s := range r.of(measure.ProfilingPhase)[:6] {
			require.Equal(t, last[s.lane].marker, s.marker)
		}
		require.Equal(t, []string{
			`warmup: a primer of trace "a" does not fit the context of the server: lanes [0 4] draw another trace`,
			`warmup: a primer of trace "c" does not fit the context of the server: lanes [2] draw another trace`,
		}, r.warned)
		require.Len(t, r.sampler.ledger.passes, 4)

		o.Trees, o.Once, o.Concurrency = 0, true, 4 // no trace is left for the lanes of a and c
		r, err = virtually(t, o, overflows("a", "c"))
		require.NoError(t, err)
		require.EqualValues(t, 2, r.summary.Warmup.EmptyLanes)
		require.Equal(t, 2, r.summary.Lanes.Started)
		require.Contains(t, r.warned[0], "warmup: lane 0 stays empty")

		_, err = virtually(t, o, overflows("a", "b", "c", "d"))
		require.ErrorContains(t, err, "no trace is left whose primers fit the context")
	}
}
