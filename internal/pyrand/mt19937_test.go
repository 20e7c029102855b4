package pyrand

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/bits"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/fixtures"
	"github.com/agentx/agentx/internal/splitmix"
)

func TestMT19937(t *testing.T) {
	type in struct {
		Seed  string
		N     uint32
		Count int
	}
	type want struct{ U32, Draws []uint32 }
	seed := func(t *testing.T, in in) uint64 {
		n, err := strconv.ParseUint(in.Seed, 10, 64)
		require.NoError(t, err)
		return n
	}
	fixtures.EachWeka(t, "mt19937", func(t *testing.T, in in, want want) {
		var m Twisters
		for g := range Lanes {
			seeds := manySeeds(uint64(g))
			seeds[g] = seed(t, in)
			m.Seed(&seeds)
			for k, w := range want.U32 {
				assert.Equal(t, w, m.output(g, k))
			}
		}
	})
	fixtures.EachWeka(t, "mt_draws", func(t *testing.T, in struct {
		BaseSeed string `json:"base_seed"`
		Scope    string
		HashID   int64 `json:"hash_id"`
		N        uint32
	}, want want) {
		sum := sha256.Sum256(fmt.Appendf(nil, "%s:%s:%d", in.BaseSeed, in.Scope, in.HashID))
		var m Twisters
		m.Seed(&[Lanes]uint64{3: binary.BigEndian.Uint64(sum[:])})
		assert.Equal(t, want.Draws, draws(&m, 3, in.N, len(want.Draws)))
	})
	fixtures.EachWeka(t, "mt_uniform", func(t *testing.T, in in, want want) {
		var m Twisters
		m.Seed(&[Lanes]uint64{31: seed(t, in)})
		assert.Equal(t, want.Draws, draws(&m, 31, in.N, in.Count))
		assert.Equal(t, want.Draws[0], m.Below(31, in.N))
	})
}

// manySeeds returns one seed for each generator, of one word and of two.
func manySeeds(from uint64) (seeds [Lanes]uint64) {
	stream := splitmix.Rand(from)
	for g := range seeds {
		seeds[g] = stream.Next() >> (g % 2 * 40)
	}
	return seeds
}

// The whole state is that of the plain code.
func TestSeedAVX2(t *testing.T) {
	if !hasAVX2 {
		t.Skip("this processor has no AVX2")
	}
	for from := range uint64(100) {
		seeds := manySeeds(from)
		var fast, plain Twisters
		fast.Seed(&seeds)
		keys := keysOf(&seeds)
		plain.seedPlain(&keys)
		require.Equal(t, plain, fast)
	}
}

// BenchmarkSeed reports as x-plain how many times as fast Seed is as the plain code in the same run. It fails where the faster code is lost.
func BenchmarkSeed(b *testing.B) {
	var m Twisters
	var fast, plain time.Duration
	seeds := manySeeds(1)
	keys := keysOf(&seeds)
	for b.Loop() {
		begin := time.Now()
		m.Seed(&seeds)
		fast += time.Since(begin)
		begin = time.Now()
		m.seedPlain(&keys)
		plain += time.Since(begin)
	}
	b.ReportMetric(float64(fast.Nanoseconds())/float64(b.N)/Lanes, "ns/seed")
	b.ReportMetric(float64(plain)/float64(fast), "x-plain")
	if hasAVX2 && b.N > 1000 && plain < 2*fast {
		b.Errorf("a seed takes 1/%.1f of the time of the plain code, which should be 1/2 or less", float64(plain)/float64(fast))
	}
}

// draws returns successive numbers in [0, n) of generator g, of which Below gives the first.
func draws(m *Twisters, g int, n uint32, count int) (list []uint32) {
	for k := 0; len(list) < count; k++ {
		if r := m.output(g, k) >> (32 - bits.Len32(n)); r < n {
			list = append(list, r)
		}
	}
	return list
}
