package workload

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/simulate/preset"
)

// Covers S-07.
func TestPoissonArrivals(t *testing.T) {
	s, err := Synthetic(SyntheticOptions{Sessions: 100_001, In: 100, Out: 1, Rate: 10, BlockSize: 64, Seed: 42})
	require.NoError(t, err)
	require.Zero(t, s.list[0].start)
	mean, squares := s.list[100_000].start/100_000, 0.0
	for k := range 100_000 {
		d := s.list[k+1].start - s.list[k].start - mean
		squares += d * d
	}
	require.InDelta(t, 100, mean, 1)
	require.InDelta(t, 100, math.Sqrt(squares/100_000), 2)
}

// Covers S-07.
func TestSyntheticSessions(t *testing.T) {
	o := SyntheticOptions{Sessions: 40, Turns: 3, In: 1000, Out: 7, EveryMS: 25, ThinkMS: 9, Shared: 0.5, Groups: 4, BlockSize: 64, Seed: 1}
	s, err := Synthetic(o)
	require.NoError(t, err)
	require.Equal(t, []int{40, 120}, []int{len(s.list), len(s.turns)})
	groups := map[uint32]int{}
	for k := range s.turns {
		one := s.Turn(k)
		require.Equal(t, []int{k / 3, k % 3, 1000, 7}, []int{one.Session, one.Number, one.Prompt, one.Output})
		require.Len(t, one.Chain, 1)
		require.Equal(t, uint32(8), one.Chain[0].Count, "half of 15 blocks, rounded half to even")
		require.Zero(t, one.Chain[0].First%8)
		groups[one.Chain[0].First]++
	}
	require.Len(t, groups, 4)
	o.Rate, o.EveryMS = 10, 0
	other, err := Synthetic(o)
	require.NoError(t, err)
	for k := range s.turns {
		require.Equal(t, s.Turn(k), other.Turn(k), "arrivals do not move the draws of groups")
	}
	require.NotEqual(t, s.list[3].start, other.list[3].start)
}

func TestSyntheticOptionsThatCannotBeUsed(t *testing.T) {
	for want, o := range map[string]SyntheticOptions{
		"synthetic: in 0: want 1 to 67108864":                                                  {Out: 1, BlockSize: 1},
		"synthetic: n -1: want 0 to 67108864":                                                  {Sessions: -1, In: 1, Out: 1, BlockSize: 1},
		"synthetic: shared NaN: want 0 to 1":                                                   {In: 1, Out: 1, BlockSize: 1, Shared: math.NaN()},
		"synthetic: every 5 ms and a rate of 3/s contradict each other: leave one of them out": {In: 1, Out: 1, BlockSize: 1, EveryMS: 5, Rate: 3},
		"synthetic: 9000 sessions of 9000 turns: want at most 67108864 turns":                  {Sessions: 9000, Turns: 9000, In: 1, Out: 1, BlockSize: 1},
	} {
		_, err := Synthetic(o)
		require.EqualError(t, err, want)
	}
}

// A load says no turn twice, none before its time, and keeps to its places.
//
// Covers S-05, S-06.
func TestLoadsReleaseEveryTurnOnce(t *testing.T) {
	s, err := Synthetic(SyntheticOptions{Sessions: 9, Turns: 4, In: 10, Out: 1, EveryMS: 3, ThinkMS: 8, BlockSize: 4})
	require.NoError(t, err)
	trace, err := s.Trace(1)
	require.NoError(t, err)
	sessions, err := s.Concurrency(2, "sessions")
	require.NoError(t, err)
	requests, err := s.Concurrency(2, preset.UnitRequests)
	require.NoError(t, err)
	for name, load := range map[string]Load{"trace": trace, "sessions": sessions, "requests": requests} {
		seen, flying, open := map[int]int64{}, map[int]int64{}, map[int]bool{}
		const service = 5_000_000
		for now, left := int64(0), len(s.turns); left > 0; {
			next, ok := load.Next()
			for _, end := range flying {
				if !ok || end < next {
					next, ok = end, true
				}
			}
			require.True(t, ok, name)
			require.GreaterOrEqual(t, next, now)
			now = next
			for id, end := range flying {
				if end == now {
					delete(flying, id)
					load.Completed(id, now)
					if s.last(id) {
						delete(open, s.turns[id].session)
					}
				}
			}
			for one, ok := load.Release(now); ok; one, ok = load.Release(now) {
				require.NotContains(t, seen, one.ID)
				seen[one.ID], flying[one.ID], open[one.Session] = now, now+service, true
				if one.Number > 0 {
					ready := seen[one.ID-1] + service + 8_000_000
					require.GreaterOrEqual(t, now, ready)
					if name != "requests" {
						require.Equal(t, ready, now)
					}
				} else if name == "trace" {
					require.Equal(t, int64(one.Session)*3_000_000, now)
				}
				left--
			}
			require.Equal(t, left, load.Left())
			require.False(t, name == "sessions" && len(open) > 2 || name == "requests" && len(flying) > 2)
		}
	}
	for _, speed := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		_, err := s.Trace(speed)
		require.ErrorContains(t, err, "want a finite number above 0")
	}
	_, err = s.Concurrency(0, "sessions")
	require.EqualError(t, err, "concurrency 0: want at least 1")
}
