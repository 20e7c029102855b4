package simulate

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/simulate/fleet"
	"github.com/agentx/agentx/cmd/internal/simulate/workload"
)

// sampled returns the samples of two workers that play a made-up load.
func sampled(t *testing.T, s Sampling, sessions int) *Result {
	c := Default()
	c.Synthetic = &workload.SyntheticOptions{Sessions: sessions, In: 1000, Out: 50, EveryMS: 100}
	c.Workers, c.Sampling = 2, s
	r, err := Run(context.Background(), c)
	require.NoError(t, err)
	return r
}

// requireEven fails unless samples lie at every multiple of their distance, from 0 to the end of the run.
func requireEven(t *testing.T, r *Result) {
	s := r.Samples
	for k, one := range s.List {
		require.Equal(t, int64(k)*s.Every, one.At)
	}
	require.Greater(t, s.List[len(s.List)-1].At+s.Every, r.Duration-s.Every)
}

// Samples are even. Their distance is the one that is asked for, or doubles until they are few enough; they change nothing of the run.
func TestSamples(t *testing.T) {
	without := sampled(t, Sampling{}, 3000)
	require.Nil(t, without.Samples)
	r := sampled(t, Sampling{On: true}, 3000)
	requireEven(t, r)
	require.EqualValues(t, 400*time.Millisecond, r.Samples.Every)
	require.True(t, len(r.Samples.List) > mostSamples/2 && len(r.Samples.List) <= mostSamples)
	require.Equal(t, without.Summary(), r.Summary())

	r = sampled(t, Sampling{On: true}, 30)
	requireEven(t, r)
	require.EqualValues(t, defaultEvery, r.Samples.Every)
	r = sampled(t, Sampling{On: true, Every: 70 * time.Millisecond}, 300)
	requireEven(t, r)
	require.EqualValues(t, 70*time.Millisecond, r.Samples.Every)
	r = sampled(t, Sampling{On: true, Every: time.Millisecond}, 300)
	requireEven(t, r)
	require.EqualValues(t, 2*time.Millisecond, r.Samples.Every, "30 s have more than 20,000 milliseconds")

	require.ErrorContains(t, Sampling{On: true, Every: time.Microsecond}.Validate(), "samples every 1µs: want at least 1ms, or 0 for the default")
	require.Error(t, Sampling{Every: -time.Second}.Validate())
}

// However many workers there are, samples do not grow without bound.
func TestSamplesOfManyWorkers(t *testing.T) {
	s := newSampler(Sampling{On: true})
	pools := [][]fleet.WorkerState{make([]fleet.WorkerState, 1<<14)}
	for range 300 {
		s.Sample(s.Next(), pools)
		require.LessOrEqual(t, len(s.List)<<14, mostStates)
	}
	require.Greater(t, len(s.List)<<14, mostStates/4)
	require.Zero(t, s.List[0].At)
}
