package measure

import (
	"encoding/json"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/fixtures"
)

// Covers T-39.
func TestVectorsPercentile(t *testing.T) {
	type in struct {
		Values []float64
		ITL    []float64 `json:"itl_ms"`
	}
	type want struct {
		Avg, Max, Std float64
		Percentiles   map[string]float64
		ITL           map[string]float64 `json:"itl_s"`
		Interactivity map[string]float64
	}
	rank := map[string]float64{"p1": 1, "p5": 5, "p10": 10, "p25": 25, "p50": 50, "p75": 75, "p90": 90, "p95": 95, "p99": 99}
	fixtures.EachCase(t, "percentile", fixtures.Counts{9, 9, 9}, func(t *testing.T, _ fixtures.Case, in in, want want) {
		if in.ITL != nil { // the reciprocal has the same label
			slices.Sort(in.ITL)
			for name, w := range want.ITL {
				require.InDelta(t, w, Percentile(in.ITL, rank[name])/1e3, 1e-9)
				require.InDelta(t, want.Interactivity[name], 1e3/Percentile(in.ITL, rank[name]), 1e-9)
			}
			return
		}
		s := NewStat(in.Values)
		require.InDelta(t, want.Avg, float64(s.Mean), 1e-9)
		require.InDelta(t, want.Std, float64(s.Std), 1e-9)
		require.EqualValues(t, want.Max, s.Max)
		require.Equal(t, len(in.Values), s.N)
		require.Len(t, want.Percentiles, len(rank))
		for name, w := range want.Percentiles {
			require.InDelta(t, w, Percentile(in.Values, rank[name]), 1e-9, name)
		}
		for name, got := range map[string]Number{"p50": s.P50, "p75": s.P75, "p90": s.P90, "p95": s.P95, "p99": s.P99} {
			require.InDelta(t, want.Percentiles[name], float64(got), 1e-9, name)
		}
	})
}

func TestStatJSON(t *testing.T) {
	b, err := json.Marshal(NewStat(nil))
	require.NoError(t, err)
	require.JSONEq(t, `{"mean":null,"p50":null,"p75":null,"p90":null,"p95":null,"p99":null,"max":null,"std":null,"n":0}`, string(b))
	b, err = json.Marshal(NewStat([]float64{0.5}))
	require.NoError(t, err)
	require.JSONEq(t, `{"mean":0.5,"p50":0.5,"p75":0.5,"p90":0.5,"p95":0.5,"p99":0.5,"max":0.5,"std":0,"n":1}`, string(b))
	for in, want := range map[string]float64{"null": math.NaN(), "2.5": 2.5} {
		var n Number
		require.NoError(t, json.Unmarshal([]byte(in), &n))
		require.Equal(t, math.IsNaN(want), n.IsMissing())
		if !n.IsMissing() {
			require.EqualValues(t, want, n)
		}
	}
	require.Error(t, json.Unmarshal([]byte(`"x"`), new(Number)))
	require.True(t, Number(math.Inf(1)).IsMissing())
}
