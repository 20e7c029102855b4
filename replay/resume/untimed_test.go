package resume

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/pyrand"
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
	eachVector(t, "legacy_start", 9, func(t *testing.T, in in, want want) {
		require.Len(t, in.CanOpen, in.Turns)
		r, g := Ratios{in.Min, in.Max}, pyrand.NewPCG64(in.seed())
		require.Equal(t, want.Candidates, append([]int{}, r.Candidates(in.CanOpen)...))
		k, ok := r.Split(in.CanOpen, g)
		require.Equal(t, want.Spawnable, ok)
		if !ok {
			require.Equal(t, pyrand.NewPCG64(in.seed()), g, "nothing was drawn")
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
		require.Equal(t, c.want, Ratios{0.25, 0.75}.Candidates(canOpen), "%d turns, empty %v", c.turns, c.empty)
	}
	require.Equal(t, []int{0, 1}, Ratios{0, 1}.Candidates([]bool{true, true, true}))
}

// Covers T-15.
func TestFromTurn(t *testing.T) {
	trace := &Trace{
		Sessions: []Session{{make([]float64, 4), -1, 0}, {make([]float64, 2), 0, 1}, {make([]float64, 3), 0, 1}, {make([]float64, 5), 1, 2}, {nil, 0, 1}},
		Branches: []Branch{{Parent: 0, Spawn: 0, Sessions: []int{1}}, {Parent: 0, Spawn: 2, Sessions: []int{2, 4}}, {Parent: 1, Spawn: 1, Sessions: []int{3}}},
	}
	for _, c := range []struct {
		next     int
		places   []Place
		finished []int
	}{
		{0, []Place{Live, Ahead, Ahead, Ahead, Over}, []int{0, 0, 0, 0, 0}},
		{1, []Place{Live, Over, Ahead, Over, Over}, []int{1, 2, 0, 5, 0}},
		{2, []Place{Live, Over, Ahead, Over, Over}, []int{2, 2, 0, 5, 0}},
		{3, []Place{Live, Over, Over, Over, Over}, []int{3, 2, 3, 5, 0}},
	} {
		s := trace.From(c.next)
		require.Equal(t, []State{{Next: c.next}}, s.States)
		require.Equal(t, c.places, s.Places)
		require.Equal(t, c.finished, s.Finished)
		require.True(t, s.Spawnable && !s.Rootless)
	}
	over := trace.From(4)
	require.Empty(t, over.States)
	require.False(t, over.Spawnable)
	require.NotContains(t, over.Places, Ahead)
	require.False(t, (&Trace{}).From(0).Spawnable)
}
