package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/replay"
	"github.com/agentx/agentx/replay/measure"
)

// The nearest bound decides how much of a run is done.
func TestFractionDone(t *testing.T) {
	r := replay.Progress{Elapsed: 30 * time.Second, Requests: 40, TreesDrained: 1}
	require.Zero(t, fractionDone(replay.Options{}, 0, r))
	require.Equal(t, 0.25, fractionDone(replay.Options{}, 2*time.Minute, r))
	require.Equal(t, 0.5, fractionDone(replay.Options{Duration: time.Minute, Requests: 100, Trees: 4}, 0, r))
	require.Equal(t, 0.8, fractionDone(replay.Options{Duration: time.Minute, Requests: 50}, 0, r))
	require.Equal(t, 1.0, fractionDone(replay.Options{Requests: 30}, 0, r))
	require.Equal(t, 90*time.Second, remaining(replay.Options{}, 2*time.Minute, r))
	require.Equal(t, 10*time.Second, remaining(replay.Options{Requests: 53, Duration: time.Hour}, 0, replay.Progress{Elapsed: 43 * time.Second, Requests: 43}).Round(time.Second))
	r.Phase = measure.WarmupPhase
	require.Zero(t, fractionDone(replay.Options{Duration: time.Minute, Requests: 50}, time.Minute, r), "no bound counts the warmup")
	require.Negative(t, remaining(replay.Options{Duration: time.Minute}, 0, r))
}
