package pyrand

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/bits"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/fixtures"
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
		var m MT19937x4
		for g := range 4 {
			seeds := [4]uint64{11, 22, 33, 44}
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
		var m MT19937x4
		m.Seed(&[4]uint64{1, 2, 3, binary.BigEndian.Uint64(sum[:])})
		assert.Equal(t, want.Draws, draws(&m, 3, in.N, len(want.Draws)))
	})
	fixtures.EachWeka(t, "mt_uniform", func(t *testing.T, in in, want want) {
		var m MT19937x4
		m.Seed(&[4]uint64{1, 2, 3, seed(t, in)})
		assert.Equal(t, want.Draws, draws(&m, 3, in.N, in.Count))
		assert.Equal(t, want.Draws[0], m.Below(3, in.N))
	})
}

// draws returns successive numbers in [0, n) of generator g, of which Below gives the first.
func draws(m *MT19937x4, g int, n uint32, count int) (list []uint32) {
	for k := 0; len(list) < count; k++ {
		if r := m.output(g, k) >> (32 - bits.Len32(n)); r < n {
			list = append(list, r)
		}
	}
	return list
}
