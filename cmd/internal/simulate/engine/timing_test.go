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
			ms, ns = prefillMS(&timing, *in.Tokens), timing.Prefill(*in.Tokens)
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
		require.Equal(t, want+16.50142, prefillMS(&timing, tokens))
		if math.FMA(1.518344e-02, x, product(product(4.209989e-07, x), x))+16.50142 != prefillMS(&timing, tokens) {
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

// prefillMS returns the milliseconds of so many tokens of one prompt.
func prefillMS(t *Timing, tokens int) float64 {
	w := prompt(tokens)
	return t.prefillMS(&w)
}

// formula is one whose parts of the duration of a pass are easy to tell apart.
var formula = &Formula{Pass: 2, Weights: 3, Token: 0.01, Attention: 1e-6, KV: 1e-4}

// Covers S-29.
func TestFormulaAddsUpAPass(t *testing.T) {
	config := Default()
	config.Timing.Formula = formula
	timing := NewTiming(config, nil)
	for _, c := range []struct {
		work Work
		want float64 // ms
	}{
		{Work{}, 0},
		{Work{Batch: 10, KV: 1000}, 2 + 3 + 0.1}, // the weights are slower than computing ten tokens
		{Work{New: 1000, Attended: attended(1000, 0), charged: 1000}, 2 + 10 + 0.5005},
		{Work{New: 1000, Prefix: 100_000, Attended: attended(1000, 100_000), charged: 1000}, 2 + 10 + 100.5005 + 10},
		{Work{New: 1000, Prefix: 100_000, Attended: attended(1000, 100_000), charged: 1000, Batch: 10, KV: 1000}, 2 + 10.1 + 100.5005 + 10.1},
	} {
		require.InDelta(t, c.want*1e6, timing.pass(&c.work), 1, "%+v", c.work)
	}
	each := *formula
	each.Sequence = 0.3
	config.Timing.Formula = &each
	timing = NewTiming(config, nil)
	require.InDelta(t, 8.1e6, timing.pass(&Work{Batch: 10, KV: 1000}), 1)
	config.Timing.Formula = formula
	config.SpeedupRatio, config.DecodeSpeedupRatio = 2, 5
	timing = NewTiming(config, nil)
	require.InDelta(t, 12.5005e6/2, timing.pass(&Work{New: 1000, Attended: attended(1000, 0), charged: 1000}), 1)
	require.InDelta(t, 5.1e6/10, timing.pass(&Work{Batch: 10, KV: 1000}), 1)
}

// A pass of several prompts has the prefix of one prompt that attends to as many tokens.
//
// Covers S-29.
func TestMeanPrefix(t *testing.T) {
	one := Work{New: 300, Attended: attended(300, 700)}
	require.InDelta(t, 700, one.meanPrefix(), 1e-9)
	two := Work{New: 200, Attended: 2 * attended(100, 50)} // 2 * 100 * (50 + 50.5) pairs: 200 tokens see as much behind no prefix
	require.InDelta(t, 0, two.meanPrefix(), 1e-9)
	two.Attended = 2 * attended(100, 550)
	require.InDelta(t, 500, two.meanPrefix(), 1e-9)
}

// Covers S-29.
func TestPassesOutsideOfWhatWasSeen(t *testing.T) {
	config := Default()
	f := *formula
	f.Seen = &Seen{New: 1000, Prefix: 4000, Batch: 8, KV: 8000}
	config.Timing.Formula = &f
	timing := NewTiming(config, nil)
	for _, c := range []struct {
		work Work
		want bool
	}{
		{Work{New: 1250, Attended: attended(1250, 5000), Batch: 10, KV: 10_000}, false}, // a quarter more is near
		{Work{New: 1251, Attended: attended(1251, 0)}, true},
		{Work{New: 10, Attended: attended(10, 5001)}, true},
		{Work{Batch: 11}, true},
		{Work{Batch: 1, KV: 10_001}, true},
	} {
		require.Equal(t, c.want, timing.outside(&c.work), "%+v", c.work)
	}
	var seen Seen
	seen.Add(&Work{New: 1000, Attended: attended(1000, 4000), Batch: 2, KV: 8000})
	seen.Add(&Work{Batch: 8, KV: 5})
	require.Equal(t, *f.Seen, seen)
	timing = NewTiming(Default(), exampleTable())
	for _, c := range []struct {
		work Work
		want bool
	}{
		{Work{New: 100, Batch: 1, KV: 300, length: 20}, false},
		{Work{New: 99}, true}, {Work{New: 301}, true}, {Work{Batch: 1, KV: 301, length: 20}, true}, {Work{Batch: 1, KV: 20, length: 21}, true},
	} {
		require.Equal(t, c.want, timing.outside(&c.work), "%+v", c.work)
	}
}
