package live

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/wire"
)

// busyStatus is one of a run in which everything happens.
func busyStatus() Status {
	s := Status{
		State: measure.ProfilingPhase, Elapsed: 83.2, Remaining: 224, Lanes: 64, OpenTrees: 64, InFlight: 58, Sent: 1234, Completed: 1170,
		Errors: map[wire.Category]int{wire.Timeout: 4, wire.HTTPStatus: 2}, Overflows: 3,
		Recent: Recent{
			Seconds: 30, RequestRate: 14.72, PromptTokenRate: 812_000, OutputTokenRate: 1523, TokenHitRate: 0.934,
			TTFT: Stat{N: 9, P50: 1.84, P95: 4.2}, ITL: Stat{N: 9, P50: 0.0281, P95: 0.041}, RequestLatency: Stat{N: 100, P95: 0.2}, Lateness: Stat{N: 100, P95: 0.0107, P99: 0.0213},
		},
	}
	s.judge()
	return s
}

// A block has the most important parts that fit.
func TestBlock(t *testing.T) {
	s := busyStatus()
	for columns, want := range map[int]string{
		120: `replay  [=====---------------]  27 %  1m23s  3m44s left
64 of 64 lanes  58 in flight  1234 sent  1170 completed  3 context overflow
14.7 requests/s  tokens/s in 812k  93.4 % cached  out 1523
ttft 1.84 s / 4.20 s  itl 28.1 ms / 41.0 ms  (p50 / p95, last 30 s)
6 failed (0.51 %)  timeout 4, http_status 2  lateness p99 21.3 ms  client-bound`,
		80: `replay  [=====---------------]  27 %  1m23s  3m44s left
64 of 64 lanes  58 in flight  1234 sent  1170 completed  3 context overflow
14.7 requests/s  tokens/s in 812k  93.4 % cached  out 1523
ttft 1.84 s / 4.20 s  itl 28.1 ms / 41.0 ms  (p50 / p95, last 30 s)
6 failed (0.51 %)  timeout 4, http_status 2  lateness p99 21.3 ms  client-bound`,
		40: `replay  27 %  1m23s  3m44s left
64 of 64 lanes  58 in flight  1234 sent
14.7 requests/s  tokens/s in 812k
ttft 1.84 s / 4.20 s
6 failed (0.51 %)  client-bound`,
		20: `replay  27 %  1m23s
58 in flight
14.7 requests/s
ttft 1.84 s / 4.20 s
6 failed (0.51 %)`,
		3: "\n\n\n\n",
	} {
		lines := s.Block(columns)
		require.Equal(t, want, strings.Join(lines[:], "\n"), columns)
		for _, line := range lines {
			require.LessOrEqual(t, utf8.RuneCountInString(line), columns)
		}
	}
}

// A run that has just begun has no figures yet, and one without a bound no end.
func TestBlockOfNothing(t *testing.T) {
	s := NewState(measure.Rules{}, 8).Status()
	lines := s.Block(80)
	require.Equal(t, `replay  0s
0 of 8 lanes  0 in flight  0 sent  0 completed
- requests/s  tokens/s in -  out -
ttft - / -  itl - / -  (p50 / p95, last 30 s)
0 failed  lateness p99 -`, strings.Join(lines[:], "\n"))
	s.State, s.Lanes, s.WaitingTrees, s.OpenTrees = measure.WarmupPhase, 0, new(int), 3
	lines = s.Block(80)
	require.Equal(t, "warmup  0s", lines[0])
	require.Equal(t, "3 trees open, 0 waiting  0 in flight  0 sent  0 completed", lines[1])
}

// A line of a log has all of a block but the bar.
func TestLog(t *testing.T) {
	s := busyStatus()
	require.Equal(t, "replay 1m23s, 3m44s left: 64 of 64 lanes, 58 in flight, 1234 sent, 1170 completed, 3 context overflow; "+
		"14.7 requests/s, tokens/s in 812k, 93.4 % cached, out 1523; ttft 1.84 s / 4.20 s, itl 28.1 ms / 41.0 ms (p50 / p95, last 30 s); "+
		"6 failed (0.51 %), timeout 4, http_status 2, lateness p99 21.3 ms, client-bound", s.Log())
}

// From ten seconds on a block and a log say for how long nothing was received. Of a load that is so where no part receives anything.
func TestSilence(t *testing.T) {
	s := busyStatus()
	s.Silent = 9.9
	require.NotContains(t, s.Log(), "received")
	s.Silent = 40.2
	require.Contains(t, s.Log(), "64 of 64 lanes, 58 in flight, nothing received for 40 s, 1234 sent, ")
	require.Contains(t, s.Block(80)[1], "64 of 64 lanes  58 in flight, nothing received for 40 s  1170 completed")

	for _, c := range []struct {
		own, other measure.Progress
		want       float64
	}{
		{measure.Progress{InFlight: 1, Silent: 40 * time.Second}, measure.Progress{InFlight: 1, Silent: 20 * time.Second}, 20},
		{measure.Progress{InFlight: 1, Silent: 20 * time.Second}, measure.Progress{InFlight: 1, Silent: 40 * time.Second}, 20},
		{measure.Progress{InFlight: 1, Silent: 40 * time.Second}, measure.Progress{}, 40},
		{measure.Progress{}, measure.Progress{InFlight: 1, Silent: 40 * time.Second}, 40},
	} {
		state := NewState(measure.Rules{}, 8)
		state.Report(c.own)
		state.others = map[int]measure.Progress{1: c.other}
		require.Equal(t, c.want, state.Status().Silent)
	}
	state := NewState(measure.Rules{}, 8)
	state.Report(measure.Progress{InFlight: 1, Silent: time.Minute})
	state.end(nil)
	require.Zero(t, state.Status().Silent)
}
