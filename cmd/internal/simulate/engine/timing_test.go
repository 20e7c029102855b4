package engine

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/fixtures"
)

// Covers S-10, S-25.
func TestTimingVectors(t *testing.T) {
	type in struct {
		Tokens      *int
		Utilisation *float64
		Speedup     *float64 `json:"speedup_ratio"`
		Chunks      []struct{ Prefix, New int }
		Cached      *int    `json:"cached_at_destination"`
		KVBytes     float64 `json:"kv_bytes_per_token"`
		KVRate      float64 `json:"gb_per_s"`
	}
	type want struct {
		MS      *float64
		NS      *int64
		Charged *int
	}
	fixtures.EachSimulate(t, "timing", fixtures.SimulateCounts{19, 19, 19}, func(t *testing.T, c fixtures.SimulateCase, in in, want want) {
		config := Default()
		if in.Speedup != nil {
			config.SpeedupRatio = *in.Speedup
		}
		timing := NewTiming(config, nil)
		var ms float64
		var ns int64
		switch {
		case in.Cached != nil:
			moved := Default()
			moved.KVBytesPerToken, moved.KVTransferGBPerS = in.KVBytes, in.KVRate
			require.Equal(t, *want.NS, moved.HandOff(*in.Tokens-*in.Cached))
			return
		case in.Chunks != nil:
			chunks, prefixes := 0, 0
			for _, one := range in.Chunks {
				chunks, prefixes = chunks+one.New, prefixes+one.Prefix
			}
			require.Equal(t, *want.Charged, charge(len(in.Chunks), chunks, prefixes))
			return
		case in.Tokens != nil:
			ms, ns = timing.prefillMS(float64(*in.Tokens)), timing.Prefill(*in.Tokens)
		default:
			ms, ns = decodePoly(*in.Utilisation), int64(quantise(decodePoly(*in.Utilisation), 1))
		}
		if want.MS != nil {
			require.InDelta(t, *want.MS, ms, c.TolMS)
		}
		require.Equal(t, *want.NS, ns)
	})
}

// The products of a polynomial are rounded, so that a machine with fused multiply-add gets the same nanoseconds: the code
// must agree with arithmetic that says so of every step.
//
// Covers S-10.
func TestPolynomialsRoundEveryProduct(t *testing.T) {
	timing := NewTiming(Default(), nil)
	differ := 0
	for tokens := 1; tokens < 200_000; tokens += 7 {
		x := float64(tokens)
		product := func(a, b float64) float64 { return math.FMA(a, b, 0) }
		want := product(product(4.209989e-07, x), x)
		want = math.FMA(1, want, product(1.518344e-02, x)) // fused with an exact product: a rounded sum
		require.Equal(t, want+16.50142, timing.prefillMS(x))
		if math.FMA(1.518344e-02, x, product(product(4.209989e-07, x), x))+16.50142 != timing.prefillMS(x) {
			differ++
		}
	}
	require.NotZero(t, differ, "fused arithmetic is no different: this test cannot fail")
	for k := range 10_000 {
		p := float64(k) / 9_999
		square := math.FMA(math.FMA(-25.74, p, 0), p, 0)
		require.Equal(t, max(math.FMA(1, square, math.FMA(54.01, p, 0))+5.74, 1), decodePoly(p))
	}
}

func TestDecodeNeedsARequest(t *testing.T) {
	timing := NewTiming(Default(), nil)
	require.Zero(t, timing.Decode(1000, 1000, 0))
	require.Equal(t, int64(34010000), timing.Decode(1<<40, 1<<40, 1), "utilisation is at most 1")
}

// An engine that hardly moves has passes of finite length: no sum of them leaves the int64.
func TestTheSlowestEngine(t *testing.T) {
	for _, speed := range []float64{1e-12, 1e-300} {
		config := Default()
		config.SpeedupRatio = speed
		timing := NewTiming(config, nil)
		require.Equal(t, int64(longestPrefill), timing.Prefill(1<<30))
		require.Equal(t, int64(longestDecode), timing.Decode(1<<20, 1<<20, 1))
	}
	require.Positive(t, int64(1<<62+longestDecode*maxStretch))
}
