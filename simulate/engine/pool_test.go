package engine

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// fill leases blocks of these chain numbers.
func fill(p *pool, chains ...uint32) (list []int32) {
	for _, c := range chains {
		s := p.take()
		p.publish(s, c)
		list = append(list, s)
	}
	return list
}

func releaseAll(p *pool, list []int32) {
	for k := len(list) - 1; k >= 0; k-- {
		p.release(list[k])
	}
}

// Blocks leave in the order of their release, the end of a sequence before its beginning. A lease in between takes a block out of
// that order.
//
// Covers S-16.
func TestTheBlockReleasedLongestAgoIsEvicted(t *testing.T) {
	p := newPool(6)
	p.log = &eventLog{}
	a, b := fill(p, 10, 11, 12), fill(p, 20, 21, 22)
	releaseAll(p, a)
	releaseAll(p, b)
	p.lease(a[1])
	p.release(a[1])
	var left []uint32
	for range 6 {
		left = append(left, p.slots[p.oldest].key-1)
		p.take()
	}
	require.Equal(t, []uint32{12, 10, 22, 21, 20, 11}, left)
	require.Equal(t, int64(6), p.evictions)
	require.Equal(t, []KVEvent{
		{Run{10, 3}, false, false}, {Run{20, 3}, false, false}, {Run{12, 1}, true, false}, {Run{10, 1}, true, false}, {Run{20, 3}, true, false}, {Run{11, 1}, true, false},
	}, p.log.list)
}

// Of equal blocks the oldest is found, whichever was released first; they are one chain to the router.
//
// Covers S-16.
func TestCopiesAreFoundOldestFirst(t *testing.T) {
	p := newPool(4)
	p.log = &eventLog{}
	list := append(append(fill(p, 7), fill(p, 7)...), fill(p, 7)...)
	require.Equal(t, list[0], p.index.find(7))
	p.release(list[1])
	p.release(list[0])
	require.Equal(t, 1, p.active)
	p.take() // the free one
	p.take() // list[1]
	require.Equal(t, list[0], p.index.find(7))
	p.take() // list[0]
	require.Equal(t, list[2], p.index.find(7))
	p.release(list[2])
	p.take()
	require.Equal(t, int32(none), p.index.find(7))
	require.Equal(t, []KVEvent{{Run{7, 1}, false, false}, {Run{7, 1}, true, false}}, p.log.list)
}

// A block without content is free again, and no eviction.
//
// Covers S-16.
func TestUnfilledBlocksVanish(t *testing.T) {
	p := newPool(2)
	p.release(p.take())
	require.Equal(t, []int{0, 0, 2}, []int{p.active, p.inactive, p.unused()})
	fill(p, 1, 2)
	require.Zero(t, p.evictions)
}

// The log counts blocks that only their own requests find, apart from those that have a number.
//
// Covers S-20.
func TestPrivateBlocksAreEvents(t *testing.T) {
	p := newPool(3)
	p.log = &eventLog{}
	list := append(fill(p, 7), p.take(), p.take())
	p.own(list[0])
	p.own(list[1])
	p.own(list[2])
	p.own(list[2])
	releaseAll(p, list)
	for range 3 {
		p.take()
	}
	require.Equal(t, []KVEvent{{Run{7, 1}, false, false}, {Run{0, 2}, false, true}, {Run{0, 2}, true, true}, {Run{7, 1}, true, false}}, p.log.list)
}

func TestIndexFollowsThePool(t *testing.T) {
	var x index
	for chain := uint32(0); chain < 100_000; chain += 1000 {
		require.Equal(t, int32(none), x.put(chain, int32(chain/1000)))
		require.Equal(t, int32(chain/1000), x.find(chain))
		require.Equal(t, int32(none), x.find(chain+1))
		if chain >= 5000 {
			require.Equal(t, int32(chain-5000)/1000, x.swap(chain-5000, int32(chain-5000)/1000, none))
			require.Equal(t, int32(none), x.find(chain-5000))
		}
	}
	require.LessOrEqual(t, len(x.slots), 7)
	require.Equal(t, int32(none), x.find(1<<30))
}
