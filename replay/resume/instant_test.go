package resume

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/fixtures"
)

// Covers T-13.
func TestInstantVectors(t *testing.T) {
	type in struct {
		laneOf
		First float64 `json:"start_ms"`
		Last  float64 `json:"end_ms"`
		Min   float64 `json:"min_ratio"`
		Max   float64 `json:"max_ratio"`
	}
	type want struct {
		Lo, Hi float64
		TStar  float64 `json:"t_star_ms"`
		Bits   string
	}
	fixtures.EachCase(t, "t_star", fixtures.Counts{12, 12, 12}, func(t *testing.T, _ fixtures.Case, in in, want want) {
		r := Ratios{in.Min, in.Max}
		lo, hi := r.between(in.First, in.Last)
		require.Equal(t, want.Lo, lo)
		require.Equal(t, want.Hi, hi)
		got := r.Instant(in.First, in.Last, in.seed())
		require.Equal(t, want.TStar, got)
		require.Equal(t, want.Bits, fmt.Sprintf("0x%016x", math.Float64bits(got)))
	})
}

// The table of doc/spec/replay.md 2.3.
//
// Covers T-13.
func TestInstantGoldenTable(t *testing.T) {
	for _, c := range []struct {
		seed          uint64
		wanted        uint64
		middle, whole float64
		choice        int
	}{
		{LaneSeed("42", "trace-a", 0), 13770942415436307373, 52045.89151985578, 54091.78303971157, 4},
		{LaneSeed("42", "trace-a", 1), 4242113779530425952, 70845.1156274513, 91690.23125490262, 2},
		{hashSeed("42:trace-a"), 1080876141580661662, 60296.535592169865, 0, 0},
	} {
		require.Equal(t, c.wanted, c.seed)
		require.Equal(t, c.middle, Ratios{0.25, 0.75}.Instant(0, 100000, c.seed))
		if c.choice > 0 {
			require.Equal(t, c.whole, Ratios{0, 1}.Instant(0, 100000, c.seed))
			choice, ok := Ratios{0.25, 0.75}.Split(slices.Repeat([]bool{true}, 10), c.seed)
			require.True(t, ok)
			require.Equal(t, c.choice, choice)
		}
	}
}

// instants draws t* for the lanes that play these traces, by number; one without a trace draws nothing.
func instants(traces []string) []float64 {
	list := make([]float64, len(traces))
	for lane, trace := range traces {
		if trace != "" {
			list[lane] = Ratios{0.25, 0.75}.Instant(0, 100000, LaneSeed("42", trace, lane))
		}
	}
	return list
}

// Covers T-13.
func TestInstantsOfLanesAreIndependent(t *testing.T) {
	all := instants([]string{"trace-b", "trace-a", "trace-a"})
	without := instants([]string{"", "trace-a", "trace-a"})
	require.Equal(t, 70845.1156274513, all[1])
	require.Equal(t, all[1:], without[1:], "the trace of lane 0 is gone")
	require.NotEqual(t, all[1], all[2], "lanes of one trace")
}
