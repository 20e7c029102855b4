package mock

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// slowCache is the oracle of prefixCache: the names in order of use, the newest first.
type slowCache struct {
	capacity int
	names    []uint64
}

func (c *slowCache) admit(names []uint64) (hits int) {
	names = names[:min(len(names), c.capacity)]
	for hits < len(names) && slices.Contains(c.names, names[hits]) {
		hits++
	}
	for _, name := range slices.Backward(names) {
		if i := slices.Index(c.names, name); i >= 0 {
			c.names = slices.Delete(c.names, i, i+1)
		}
		c.names = slices.Insert(c.names, 0, name)
	}
	c.names = c.names[:min(len(c.names), c.capacity)]
	return hits
}

// inOrder returns the names in c, the newest first.
func (c *prefixCache) inOrder() (names []uint64) {
	for slot := c.blocks[0].older; slot != 0; slot = c.blocks[slot].older {
		names = append(names, c.blocks[slot].name)
	}
	return names
}

// Random walks over prompts that share prefixes and middles, so that blocks are also found after a gap, at capacities below and
// above the length of a prompt.
func TestPrefixCacheMatchesASortedList(t *testing.T) {
	for _, capacity := range []int{1, 2, 7, 30, 3000} {
		random := rand.New(rand.NewPCG(1, uint64(capacity)))
		fast, slow := newPrefixCache(capacity), &slowCache{capacity: capacity}
		var scratch []int32
		fresh := uint64(1 << 32)
		for range 1500 {
			names := make([]uint64, 0, 16)
			from := random.Uint64N(20)
			for i := range random.Uint64N(14) {
				names = append(names, from+i)
			}
			for range random.Uint64N(3) {
				fresh++
				names = append(names, fresh)
			}
			var hits int
			hits, scratch = fast.admit(names, scratch)
			require.Equal(t, slow.admit(names), hits)
			require.Equal(t, slow.names, append([]uint64{}, fast.inOrder()...))
		}
		require.Equal(t, min(capacity, len(slow.names)), fast.len())
		fast.reset()
		require.Zero(t, fast.len())
		hits, _ := fast.admit([]uint64{0, 1}, nil)
		require.Zero(t, hits)
	}
}

func TestOnlyTruePrefixesShareNames(t *testing.T) {
	stream := make([]byte, 4*blockBytes+blockBytes-1)
	for i := range stream {
		stream[i] = byte(i * i >> 3)
	}
	names := appendBlockNames(nil, 7, stream)
	require.Len(t, names, 4, "the part of a block at the end has no name")
	require.Equal(t, names[:2], appendBlockNames(nil, 7, stream[:3*blockBytes-1]))

	for block := range 4 {
		changed := slices.Clone(stream)
		changed[block*blockBytes]++
		other := appendBlockNames(nil, 7, changed)
		require.Equal(t, names[:block], other[:block])
		for i := block; i < 4; i++ {
			require.NotEqual(t, names[i], other[i], "block %d after a change in %d", i, block)
		}
	}
	require.NotEqual(t, names[0], appendBlockNames(nil, 8, stream)[0])
}

func TestCacheSizes(t *testing.T) {
	require.Equal(t, DefaultCacheBlocks, newPrefixCache(0).capacity)
	require.Equal(t, 5, newPrefixCache(5).capacity)
	none := newPrefixCache(-1)
	for range 2 {
		hits, _ := none.admit([]uint64{1, 2}, nil)
		require.Zero(t, hits)
	}
}

func TestModelsAndPromptKindsShareNoBlocks(t *testing.T) {
	roots := map[uint64]bool{}
	for _, model := range []string{`"a"`, `"b"`} {
		for _, ids := range []bool{false, true} {
			roots[cacheRoot(&request{model: []byte(model), prompt: prompt{isIDs: ids}})] = true
		}
	}
	require.Len(t, roots, 4)
}
