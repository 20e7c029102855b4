package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/replay"
	"github.com/agentx/agentx/replay/measure"
)

// The lines are those that agentx-harness 1.0.12 logged of such periods.
func TestPhaseLines(t *testing.T) {
	warmup := replay.Progress{Phase: measure.WarmupPhase}
	measured := replay.Progress{Phase: measure.ProfilingPhase}
	for want, n := range map[string]replay.PhaseNews{
		"Phase warmup (warmup) started | target: 12 requests": {Progress: warmup, Target: replay.PhaseTarget{Requests: 12}},
		"Phase warmup (warmup) started":                       {Progress: warmup},
		"Phase profiling (profiling) started | phase_index=0 | profiling_index=0 | target: 20.0s duration": {
			Progress: measured, Target: replay.PhaseTarget{Duration: 20 * time.Second}},
		"Phase profiling (profiling) started | phase_index=0 | profiling_index=0 | target: 1,500 requests, 0.5s duration, 7 sessions": {
			Progress: measured, Target: replay.PhaseTarget{Requests: 1500, Duration: time.Second / 2, Trees: 7}},
		"Phase warmup progress | returned=8/12 | sent=12 | in_flight=3 | errors=2 | elapsed=9.9s": {
			Step: replay.PhaseGoesOn, Target: replay.PhaseTarget{Requests: 12},
			Progress: replay.Progress{Phase: measure.WarmupPhase, Elapsed: 9940 * time.Millisecond, Requests: 12, InFlight: 3, Completed: 5, Errors: 1, Overflows: 1, Cancelled: 1}},
		"Phase warmup (warmup) sending complete | sent=12, completed=8, in_flight=4 | sessions: sent=6, completed=2": {
			Step: replay.PhaseSent, Progress: replay.Progress{Phase: measure.WarmupPhase, Requests: 12, InFlight: 4, Completed: 8},
			Sessions: replay.SessionCounts{Sent: 6, Completed: 2}},
		"Phase profiling (profiling) sending complete | sent=0, completed=0, in_flight=0 | timeout_triggered=True": {
			Step: replay.PhaseSent, Progress: measured, TimedOut: true},
		"Phase warmup (warmup) complete | completed=12, cancelled=0, errors=0 | sessions: completed=3, cancelled=0 | elapsed=10.10s": {
			Step: replay.PhaseOver, Progress: replay.Progress{Phase: measure.WarmupPhase, Elapsed: 10101 * time.Millisecond, Requests: 12, Completed: 12},
			Sessions: replay.SessionCounts{Sent: 6, Completed: 3}},
		"Phase profiling (profiling) complete | completed=1,004, cancelled=1, errors=4 | sessions: completed=0, cancelled=1 | elapsed=50.00s | grace_period_timeout=True | was_cancelled=True": {
			Step: replay.PhaseOver, TimedOut: true, Ended: true, Sessions: replay.SessionCounts{Sent: 3, Cancelled: 1},
			Progress: replay.Progress{Phase: measure.ProfilingPhase, Elapsed: 50 * time.Second, Requests: 1005, Completed: 1000, Errors: 1, Overflows: 3, Cancelled: 1}},
	} {
		require.Equal(t, []string{want}, phaseLines(&n, nil))
	}
}
