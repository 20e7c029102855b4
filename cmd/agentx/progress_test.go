package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/replay"
	"github.com/agentx/agentx/replay/measure"
)

func TestReplayLine(t *testing.T) {
	r := replay.Progress{Elapsed: 83 * time.Second, Requests: 1234, InFlight: 8, Completed: 1220, Errors: 6}
	for columns, want := range map[int]string{
		200: "replay  [===---------]  27 %  1m23s  1234 sent  1220 completed  8 in flight  6 errors  14.7/s  ETA 3m44s",
		81:  "replay  27 %  1m23s  1234 sent  1220 completed  8 in flight  6 errors  ETA 3m44s",
		80:  "replay  27 %  1234 sent  1220 completed  8 in flight  6 errors  ETA 3m44s",
		60:  "replay  27 %  1234 sent  8 in flight  6 errors  ETA 3m44s",
		30:  "replay  27 %  1234 sent",
		3:   "",
	} {
		line := replayLine(r, 0.27, columns)
		require.Equal(t, want, line)
		require.LessOrEqual(t, len(line), columns)
	}
	require.Equal(t, "replay  1m23s  1234 sent  1220 completed  8 in flight  6 errors  14.7/s", replayLine(r, 0, 80), "without a bound there is no ETA")
	r.Arrivals, r.TreesOpen, r.TreesWaiting = true, 9, 70
	require.Equal(t, "replay  1m23s  1234 sent  1220 completed  8 in flight  6 errors  9 trees open  70 waiting  14.7/s", replayLine(r, 0, 120))
	require.Equal(t, "replay  1m23s  1234 sent  8 in flight  6 errors  70 waiting", replayLine(r, 0, 60))
}

// The nearest bound decides how much of a run is done.
func TestFractionDone(t *testing.T) {
	r := replay.Progress{Elapsed: 30 * time.Second, Requests: 40, TreesDrained: 1}
	require.Zero(t, fractionDone(replay.Options{}, 0, r))
	require.Equal(t, 0.25, fractionDone(replay.Options{}, 2*time.Minute, r))
	require.Equal(t, 0.5, fractionDone(replay.Options{Duration: time.Minute, Requests: 100, Trees: 4}, 0, r))
	require.Equal(t, 0.8, fractionDone(replay.Options{Duration: time.Minute, Requests: 50}, 0, r))
	require.Equal(t, 1.0, fractionDone(replay.Options{Requests: 30}, 0, r))
	r.Phase = measure.WarmupPhase
	require.Zero(t, fractionDone(replay.Options{Duration: time.Minute, Requests: 50}, time.Minute, r), "no bound counts the warmup")
	require.Equal(t, "warmup  30s  40 sent  0 completed  0 in flight  0 errors  0.0/s", replayLine(r, 0, 80))
}
