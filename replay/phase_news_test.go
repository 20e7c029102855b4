package replay

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/preset"
	"github.com/agentx/agentx/replay/wire"
)

// newsOf plays a run and returns the steps of its periods: step, phase, seconds; sent, completed, errors and overflows, cancelled, in flight; sessions
// sent, completed, cancelled.
func newsOf(t *testing.T, o Options, script func(sentTurn) answerTo, prepare ...func(*virtualRun)) (steps []string, flags []string, targets []PhaseTarget) {
	o.Phase = func(n PhaseNews) {
		steps = append(steps, fmt.Sprintf("%d %s %g: %d %d %d %d %d; %d %d %d", n.Step, n.Phase[:1], n.Elapsed.Seconds(),
			n.Requests, n.Completed, n.Errors+n.Overflows, n.Cancelled, n.InFlight, n.Sessions.Sent, n.Sessions.Completed, n.Sessions.Cancelled))
		if n.Step == PhaseBegun {
			targets = append(targets, n.Target)
		}
		if n.Step != PhaseGoesOn {
			flags = append(flags, fmt.Sprintf("%d %s %t %t", n.Step, n.Phase[:1], n.TimedOut, n.Ended))
		}
	}
	_, _ = virtually(t, o, script, prepare...)
	return steps, flags, targets
}

// A period tells its steps as one, also where it has several phases: what primers and the pressure stage sent, and the sessions that
// both were parts of. Sending is complete with the last request of the target, or with the duration.
func TestPhaseNews(t *testing.T) {
	c := recorded(t, recording("s", call{at: 0, took: 1}, call{at: 50, took: 1}),
		recording("long", call{at: 0, took: 1}, call{at: 10, took: 1}, call{at: 20, took: 1}, call{at: 30, took: 1}))
	o := warming(t, c, preset.AgentX, Warmup{Requests: 2, Grace: 100 * time.Second})
	o.Concurrency, o.Duration, o.Grace, o.Limits.LaneStart, o.StatsInterval = 2, 12*time.Second, 3*time.Second, Off, 5*time.Second
	script := func(s sentTurn) answerTo {
		switch {
		case s.name == measure.WarmupPhase:
			return answerTo{takes: time.Second}
		case s.trace == "s":
			return answerTo{takes: time.Second, category: wire.HTTPStatus}
		}
		return answerTo{never: true}
	}
	steps, flags, targets := newsOf(t, o, script, at(25, 5))
	require.Equal(t, []PhaseTarget{{Requests: 6}, {Duration: 12 * time.Second}}, targets)
	require.Equal(t, []string{
		"0 w 0: 0 0 0 0 0; 0 0 0", "1 w 5: 2 1 0 0 1; 2 0 0", // long#0 5 s after s#0: both t* at 10 s
		"2 w 7: 6 4 0 0 2; 3 1 0", "3 w 8: 6 6 0 0 0; 3 1 0", // 6 s: s#1 and long#1; then s, which is over, begins again
		"0 p 0: 0 0 0 0 0; 0 0 0", "1 p 5: 1 0 0 0 1; 1 0 0", "1 p 10: 1 0 0 0 1; 1 0 0",
		"2 p 12: 1 0 0 0 1; 1 0 0", "1 p 15: 1 0 0 0 1; 1 0 0", "3 p 15: 1 0 0 1 0; 1 0 1", // the last turn of long is cancelled
	}, steps)
	require.Equal(t, []string{"0 w false false", "2 w false false", "3 w false false", "0 p false false", "2 p true false", "3 p true false"}, flags)
}

// A root that waits for its children when the measured period begins holds its lane, as in the harness. An interrupt ends a period, and
// what failed or overflowed has completed.
func TestPhaseNewsOfAnInterrupt(t *testing.T) {
	o := warming(t, recorded(t, mixed("m")), preset.AgentX, Warmup{Primers: true, Grace: 100 * time.Second})
	o.Limits.LaneStart, o.StatsInterval, o.Requests = Off, 10*time.Second, 3
	script := func(s sentTurn) answerTo {
		return answerTo{takes: time.Second, category: map[string]wire.Category{"m::sa:a1": wire.Timeout}[s.session]}
	}
	steps, _, targets := newsOf(t, o, func(s sentTurn) answerTo {
		if s.name == measure.WarmupPhase {
			return second(s)
		}
		return script(s)
	}, at(45))
	require.Equal(t, []PhaseTarget{{Requests: 3}, {Requests: 3}}, targets)
	require.Equal(t, []string{
		"0 w 0: 0 0 0 0 0; 0 0 0", "2 w 0: 3 0 0 0 3; 1 0 0", "3 w 1: 3 3 0 0 0; 1 0 0",
		"0 p 0: 0 0 0 0 0; 0 0 0", "1 p 10: 2 1 1 0 0; 1 0 0", // of agents; the root is sent behind them
		"2 p 12: 3 1 1 0 1; 1 0 0", "3 p 13: 3 2 1 0 0; 1 0 0",
	}, steps)

	_, flags, _ := newsOf(t, o, script, at(45), func(v *virtualRun) { v.interruptBefore = 2 })
	require.Equal(t, "3 p false true", flags[len(flags)-1])
}

// A request that fails a warmup ends it: no grace was over, though what else ran was cancelled.
func TestPhaseNewsOfAFailedWarmup(t *testing.T) {
	o := warming(t, recorded(t, mixed("m")), preset.AgentX, Warmup{Primers: true, Grace: 100 * time.Second})
	_, flags, _ := newsOf(t, o, func(s sentTurn) answerTo {
		if s.session == "m" {
			return answerTo{takes: time.Second, category: wire.HTTPStatus}
		}
		return answerTo{never: true}
	}, at(45))
	require.Equal(t, "3 w false true", flags[len(flags)-1])
}
