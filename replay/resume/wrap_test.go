package resume

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/fixtures"
)

// Covers T-16.
func TestWrapPolicyVectors(t *testing.T) {
	type in struct {
		Traces   int  `json:"distinct_roots"`
		Lanes    int  `json:"concurrency"`
		Allow    bool `json:"allow_wrap"`
		Sessions *int
		Requests *int
		Duration *float64 `json:"duration_s"`
		Marker   bool     `json:"marker_active"`
	}
	type want struct{ Accepted, Warning bool }
	fixtures.EachCase(t, "wrap_policy", fixtures.Counts{10, 10, 10}, func(t *testing.T, c fixtures.Case, in in, want want) {
		load := WrapPolicy{Lanes: in.Lanes, Traces: in.Traces, AllowWrap: in.Allow, Marked: in.Marker, MarkerPermitsWrap: switchesOf(t, c).MarkerPermitsWrap}
		if in.Sessions != nil {
			load.Trees = *in.Sessions
		}
		load.OnePass = in.Sessions == nil && in.Requests == nil && in.Duration == nil
		shared, err := load.Check()
		require.Equal(t, want.Accepted, err == nil)
		require.Equal(t, want.Warning, shared)
	})
}

// Lanes by traces by what may permit more of the former.
//
// Covers T-16.
func TestWrapPolicyMatrix(t *testing.T) {
	for bits := range 1 << 4 {
		allow, marker, once, permits := bits&1 > 0, bits&2 > 0, bits&4 > 0, bits&8 > 0
		for _, lanes := range []int{1, 9, 10, 11, 64} {
			for _, trees := range []int{0, 1, 10, 11} {
				l := WrapPolicy{lanes, 10, allow, marker, permits, once, trees}
				shared, err := l.Check()
				without := lanes <= 10 || allow || once || trees == 1 || trees == 10
				require.Equal(t, without || marker && permits, err == nil, "%+v", l)
				require.Equal(t, !without && marker && permits, shared, "%+v", l)
				l.Traces = 0
				shared, err = l.Check()
				require.ErrorIs(t, err, ErrNoTraces)
				require.False(t, shared)
			}
		}
	}
	_, err := WrapPolicy{Lanes: 11, Traces: 10, Trees: 11}.Check()
	require.EqualError(t, err, "11 lanes, but 10 distinct traces, and without a marker no two lanes may play one trace: give --concurrency 10 or less, --trees 10 or less, a --marker, or --allow-wrap, with which lanes find in the prefix cache what another has sent")
}

// Covers T-16.
func TestLanesOfOneTraceDifferInTheirInstant(t *testing.T) {
	seen := map[float64]bool{}
	for _, at := range instants(make([]string, 64)) {
		require.Zero(t, at)
	}
	traces := make([]string, 64)
	for lane := range traces {
		traces[lane] = "trace-a"
	}
	for _, at := range instants(traces) {
		require.False(t, seen[at])
		seen[at] = true
	}
}
