package replay

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/preset"
	"github.com/agentx/agentx/replay/wire"
)

// An interrupt in the ramp, in the pressure stage and in profiling ends the sending; what is in flight gets half a minute, or
// the grace of the phase, and no further phase begins.
func TestInterruptOfAWarmup(t *testing.T) {
	c := recorded(t, recording("a", call{at: 0, took: 1}, call{at: 60, took: 1}, call{at: 61, took: 1}, call{at: 62, took: 1}),
		recording("b", call{at: 0, took: 1}, call{at: 60, took: 1}, call{at: 61, took: 1}, call{at: 62, took: 1}))
	for name, v := range map[string]struct {
		warmup    Warmup
		at, takes time.Duration
		ends      time.Duration
		phases    int
		sent      int
		cancelled int
		deaf      bool
	}{
		"in the ramp":                     {Warmup{Primers: true}, 3 * time.Second, time.Hour, 33 * time.Second, 1, 1, 1, false},
		"in the ramp, answered":           {Warmup{Primers: true}, 3 * time.Second, 5 * time.Second, 5 * time.Second, 1, 1, 0, false},
		"in the ramp, a grace":            {Warmup{Primers: true, Grace: 4 * time.Second}, 3 * time.Second, time.Hour, 7 * time.Second, 1, 1, 1, false},
		"in the ramp, deaf":               {Warmup{Primers: true, Grace: 4 * time.Second}, 3 * time.Second, time.Hour, 17 * time.Second, 1, 1, 1, true},
		"in the ramp, nothing in flight":  {Warmup{Primers: true}, 3 * time.Second, time.Second, 3 * time.Second, 1, 1, 0, false},
		"in the stage":                    {Warmup{Requests: 3}, 20 * time.Second, 9 * time.Second, 26 * time.Second, 2, 4, 0, false},
		"in the ramp, answered late":      {Warmup{Duration: time.Minute}, 20 * time.Second, 40 * time.Second, 48 * time.Second, 1, 2, 0, false},
		"in the stage of a duration":      {Warmup{Duration: time.Minute}, 10500 * time.Millisecond, time.Second, 11 * time.Second, 2, 6, 0, false},
		"after the duration of the stage": {Warmup{Duration: 2 * time.Second}, 13500 * time.Millisecond, 3 * time.Second, 14 * time.Second, 2, 4, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			o := warming(t, c, preset.Default, v.warmup)
			o.Concurrency, o.Duration, o.Grace = 2, time.Hour, time.Minute
			r, err := virtually(t, o, func(s sentTurn) answerTo { return answerTo{takes: v.takes, deaf: v.deaf} },
				at(9, 1), func(r *virtualRun) { r.interruptAt = v.at })
			require.NoError(t, err)
			require.Len(t, r.phases, v.phases)
			require.InDelta(t, v.ends.Seconds(), r.at.Seconds(), 1e-6)
			require.Len(t, r.sent, v.sent)
			require.Len(t, r.records, v.sent)
			require.Equal(t, v.cancelled, r.summary.Warmup.Errors[wire.Cancelled])
			require.Zero(t, r.summary.Requests)
		})
	}
}

// After an interrupt a primer that fails cancels nothing, and the run has no error.
func TestPrimerThatFailsAfterAnInterrupt(t *testing.T) {
	line := recording("a", call{at: 0, took: 1}, call{at: 60, took: 1})
	o := warming(t, recorded(t, line, recording("b", call{at: 0, took: 1}, call{at: 60, took: 1})), preset.Default, Warmup{Primers: true})
	o.Concurrency, o.Start.Burst = 2, true
	r, err := virtually(t, o, func(s sentTurn) answerTo {
		if s.lane == 0 {
			return answerTo{takes: 2 * time.Second, category: wire.HTTPStatus}
		}
		return answerTo{takes: 4 * time.Second}
	}, at(9, 9), func(r *virtualRun) { r.interruptAt = time.Second })
	require.NoError(t, err)
	require.Empty(t, r.cancels)
	require.Equal(t, 4*time.Second, r.at)
}

// An interrupt between two phases begins no other.
func TestInterruptBetweenPhases(t *testing.T) {
	c := recorded(t, mixed("m"))
	for before, warmup := range map[int]Warmup{2: {Primers: true}, 3: {Requests: 2}} {
		r, err := virtually(t, warming(t, c, preset.Default, warmup), second, at(45), func(r *virtualRun) { r.interruptBefore = before })
		require.NoError(t, err)
		require.Len(t, r.phases, before)
		require.Empty(t, r.of(measure.ProfilingPhase))
		require.Zero(t, r.summary.Requests)
		require.Equal(t, r.summary.Warmup.Requests, len(r.sent))
	}
}

// The instants of records count from the start of the warmup, over all its phases, and from that of profiling. The results
// say when these were.
func TestInstantsOfPhases(t *testing.T) {
	o := warming(t, recorded(t, mixed("m")), preset.Default, Warmup{Requests: 2})
	r, err := virtually(t, o, second, at(45))
	require.NoError(t, err)
	info, err := measure.ReadInfo(o.Out)
	require.NoError(t, err)
	require.Len(t, info.Phases, 2)
	warm, profiled := info.Phases[0], info.Phases[1]
	require.Equal(t, []string{measure.WarmupPhase, measure.ProfilingPhase}, []string{warm.Name, profiled.Name})
	require.Equal(t, warm.Offset+warm.Duration, profiled.Offset)
	require.InDelta(t, profiled.Offset, profiled.Start.Sub(warm.Start).Seconds(), 1e-9)
	require.EqualValues(t, warm.Duration, r.summary.Warmup.Duration)
	require.EqualValues(t, profiled.Duration, r.summary.PhaseDuration)
	for _, s := range r.sent {
		k := slices.IndexFunc(r.records, func(m measure.Record) bool {
			return m.Phase == s.name && m.Session == s.session && m.Turn == s.turn
		})
		require.GreaterOrEqual(t, k, 0)
		from := 0.0
		if s.name == measure.ProfilingPhase {
			from = profiled.Offset
		}
		require.InDelta(t, s.at.Seconds(), from+r.records[k].Sent.Seconds(), 1e-9)
		require.InDelta(t, s.at.Seconds(), from+r.records[k].Admitted.Seconds(), 1e-9)
		require.LessOrEqual(t, r.records[k].Due.Seconds(), r.records[k].Sent.Seconds())
		require.InDelta(t, r.records[k].Sent.Seconds()+1, r.records[k].End.Seconds(), 1e-9)
	}
}
