package pyrand

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/fixtures"
)

// seedOf is the seed of a vector.
type seedOf struct {
	Seed uint64 `json:",string"`
}

func hex32(v uint32) string   { return fmt.Sprintf("0x%08x", v) }
func hex64(v uint64) string   { return fmt.Sprintf("0x%016x", v) }
func float(v float64) string  { return hex64(math.Float64bits(v)) }
func (n u128) String() string { return fmt.Sprintf("0x%016x%016x", n.hi, n.lo) }

// Covers T-13.
func TestSeedSequence(t *testing.T) {
	type in struct {
		Seed  uint64    `json:",string"`
		Words [4]uint32 `json:"entropy_words"`
	}
	type want struct{ U32, U64 []string }
	fixtures.EachCase(t, "seedsequence", fixtures.Counts{7, 7, 7}, func(t *testing.T, _ fixtures.Case, in in, want want) {
		if in.Seed != 0 {
			in.Words = [4]uint32{uint32(in.Seed), uint32(in.Seed >> 32)}
		}
		words := expand(mixEntropy(in.Words))
		for k, w := range want.U32 {
			require.Equal(t, w, hex32(words[k]))
		}
		require.NotEmpty(t, want.U64)
		for k, w := range want.U64 {
			require.Equal(t, w, hex64(uint64(words[2*k+1])<<32|uint64(words[2*k])))
		}
	})
}

// Covers T-13.
func TestPCG64Outputs(t *testing.T) {
	type in struct {
		seedOf
		N int
	}
	type want struct {
		State, Increment string
		U64              []string
	}
	fixtures.EachCase(t, "pcg64_raw", fixtures.Counts{6, 6, 6}, func(t *testing.T, _ fixtures.Case, in in, want want) {
		g := NewPCG64(in.Seed)
		if want.State != "" {
			require.Equal(t, want.State, g.state.String())
			require.Equal(t, want.Increment, g.increment.String())
		}
		require.Len(t, want.U64, in.N)
		for _, w := range want.U64 {
			require.Equal(t, w, hex64(g.Uint64()))
		}
	})
}

// Covers T-13.
func TestUint32KeepsTheHighHalf(t *testing.T) {
	type in struct {
		seedOf
		N     int
		Draws []string
	}
	type want struct {
		U32    []string
		Double string `json:"double_bits"`
	}
	fixtures.EachCase(t, "pcg64_u32", fixtures.Counts{2, 2, 2}, func(t *testing.T, _ fixtures.Case, in in, want want) {
		for range in.N {
			in.Draws = append(in.Draws, "u32")
		}
		g, halves := NewPCG64(in.Seed), []string{}
		for _, draw := range in.Draws {
			if draw == "double" {
				require.Equal(t, want.Double, float(g.Float64()))
			} else {
				halves = append(halves, hex32(g.uint32()))
			}
		}
		require.Equal(t, want.U32, halves)
	})
}

// Covers T-13.
func TestFloat64(t *testing.T) {
	type in struct {
		seedOf
		N int
	}
	type want struct{ Bits []string }
	fixtures.EachCase(t, "pcg64_double", fixtures.Counts{2, 2, 2}, func(t *testing.T, _ fixtures.Case, in in, want want) {
		g := NewPCG64(in.Seed)
		require.Len(t, want.Bits, in.N)
		for _, w := range want.Bits {
			require.Equal(t, w, float(g.Float64()))
		}
	})
}

// Covers T-13.
func TestBounded(t *testing.T) {
	type in struct {
		seedOf
		N     uint32
		Draws int
	}
	type want struct {
		Values []uint32
		Used   *int `json:"u32_used"`
	}
	fixtures.EachCase(t, "bounded", fixtures.Counts{7, 7, 7}, func(t *testing.T, _ fixtures.Case, in in, want want) {
		g := NewPCG64(in.Seed)
		require.Len(t, want.Values, in.Draws)
		for _, w := range want.Values {
			require.Equal(t, w, g.Bounded(in.N))
		}
		if want.Used != nil { // what comes next tells how many were taken
			fresh := NewPCG64(in.Seed)
			for range *want.Used {
				fresh.uint32()
			}
			require.Equal(t, fresh, g)
		}
	})
}

// The oracle computes 2^32 mod n with 64-bit arithmetic and rejects every product whose low half lies below it.
func TestBoundedRejectsSurplusProducts(t *testing.T) {
	for _, n := range []uint32{2, 3, 6, 7, 1 << 31, 1<<31 + 1, 3 << 30, math.MaxUint32} {
		g, slow := NewPCG64(uint64(n)), NewPCG64(uint64(n))
		for range 1000 {
			product := uint64(slow.uint32()) * uint64(n)
			for product%(1<<32) < (1<<32)%uint64(n) {
				product = uint64(slow.uint32()) * uint64(n)
			}
			require.Equal(t, uint32(product/(1<<32)), g.Bounded(n), "below %d", n)
		}
		require.Equal(t, slow, g)
	}
	g := NewPCG64(1)
	require.Zero(t, g.Bounded(0))
	require.Equal(t, NewPCG64(1), g, "nothing was drawn")
}
