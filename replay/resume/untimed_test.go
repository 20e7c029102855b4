package resume

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/fixtures"
	"github.com/agentx/agentx/replay/conductor"
)

// Covers T-15.
func TestSplitVectors(t *testing.T) {
	type in struct {
		laneOf
		Turns   int
		Min     float64 `json:"min_ratio"`
		Max     float64 `json:"max_ratio"`
		CanOpen []bool  `json:"can_open"`
	}
	type want struct {
		Candidates []int
		Warmup     *int `json:"warmup_turn"`
		Resume     *int `json:"resume_turn"`
		Spawnable  bool
	}
	fixtures.EachCase(t, "legacy_start", fixtures.Counts{9, 9, 9}, func(t *testing.T, _ fixtures.Case, in in, want want) {
		require.Len(t, in.CanOpen, in.Turns)
		r := Ratios{in.Min, in.Max}
		require.Equal(t, want.Candidates, append([]int{}, r.candidates(in.CanOpen)...))
		k, ok := r.Split(in.CanOpen, in.seed())
		require.Equal(t, want.Spawnable, ok)
		if !ok {
			return
		}
		require.Equal(t, *want.Warmup, k)
		require.Equal(t, *want.Resume, k+1)
	})
}

// The text of the catalogue: n = 1, 2, 3, 10, and turns at k or k+1 that add nothing to the conversation.
//
// Covers T-15.
func TestSplitCandidates(t *testing.T) {
	for _, c := range []struct {
		turns int
		empty []int
		want  []int
	}{
		{0, nil, nil},
		{1, nil, nil},
		{2, nil, []int{0}},
		{2, []int{0}, nil},
		{2, []int{1}, nil},
		{3, nil, []int{0, 1}},
		{3, []int{2}, []int{0}},
		{3, []int{1}, nil},
		{10, nil, []int{2, 3, 4, 5, 6, 7}},
		{10, []int{2, 8}, []int{3, 4, 5, 6}},
		{10, []int{1, 9}, []int{2, 3, 4, 5, 6, 7}},
	} {
		canOpen := make([]bool, c.turns)
		for k := range canOpen {
			canOpen[k] = true
		}
		for _, k := range c.empty {
			canOpen[k] = false
		}
		require.Equal(t, c.want, Ratios{0.25, 0.75}.candidates(canOpen), "%d turns, empty %v", c.turns, c.empty)
	}
	require.Equal(t, []int{0, 1}, Ratios{0, 1}.candidates([]bool{true, true, true}))
}

// Covers T-15.
func TestFromTurn(t *testing.T) {
	trace := newTrace(make([]float64, 4))
	early := trace.spawn(0, 0, nil, make([]float64, 2))
	trace.spawn(0, 2, nil, make([]float64, 3), nil)
	trace.spawn(early[0], 1, nil, make([]float64, 5))
	for _, c := range []struct {
		turn int
		done []int // by session: the root, one that turn 0 spawns, two that turn 2 spawns, one that session 1 spawns
	}{
		{0, []int{0, 0, 0, 0, 0}},
		{1, []int{1, 2, 0, 0, 5}},
		{2, []int{2, 2, 0, 0, 5}},
		{3, []int{3, 2, 3, 0, 5}},
	} {
		s := trace.From(c.turn)
		require.Equal(t, []conductor.LiveSession{{Turn: c.turn}}, s.Live)
		require.Equal(t, c.done, s.TurnsDone)
	}
	over := trace.From(4)
	require.Empty(t, over.Live)
	require.Equal(t, []int{4, 2, 3, 0, 5}, over.TurnsDone)
	require.Empty(t, (&Trace{Tree: &conductor.Tree{}}).From(0).Live)
}
