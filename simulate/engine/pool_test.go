package engine

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// pools calls a test with a pool of each kind, which logs its events.
func pools(t *testing.T, blocks int, test func(*testing.T, pool)) {
	for name, p := range map[string]pool{"plain": newPlainPool(blocks), "extents": newExtents(blocks)} {
		p.state().log = &eventLog{}
		t.Run(name, func(t *testing.T) { test(t, p) })
	}
}

// fill leases blocks of these chain numbers.
func fill(p pool, chains ...uint32) (l leases) {
	p.take(&l, len(chains))
	for k, c := range chains {
		p.publish(&l, k, Run{c, 1})
	}
	return l
}

// take leases blocks without content.
func take(p pool, count int) (l leases) {
	p.take(&l, count)
	return l
}

// found returns the leading blocks of numbers that follow one another.
func found(p pool, first, count uint32) (hits leases) {
	p.find(&hits, []Run{{first, count}}, int(count))
	return hits
}

// Blocks leave in the order of their release, the end of a sequence before its beginning. A lease in between takes a block out of
// that order.
//
// Covers S-16.
func TestTheBlockReleasedLongestAgoIsEvicted(t *testing.T) {
	pools(t, 6, func(t *testing.T, p pool) {
		a, b := fill(p, 10, 11, 12), fill(p, 20, 21, 22)
		p.release(&a)
		p.release(&b)
		hits, again := found(p, 10, 2), leases{}
		p.lease(&again, &hits)
		p.release(&again)
		for range 6 {
			take(p, 1)
		}
		require.Equal(t, int64(6), p.state().evictions)
		require.Equal(t, []KVEvent{
			{Run{10, 3}, false, false}, {Run{20, 3}, false, false}, {Run{12, 1}, true, false}, {Run{20, 3}, true, false}, {Run{10, 2}, true, false},
		}, p.state().log.list)
	})
}

// Of equal blocks the oldest is found, whichever was released first; they are one chain to the router.
//
// Covers S-16.
func TestCopiesAreFoundOldestFirst(t *testing.T) {
	pools(t, 4, func(t *testing.T, p pool) {
		first, second, third := fill(p, 7), fill(p, 7), fill(p, 7)
		a, b, c := first.list[0], second.list[0], third.list[0]
		require.Equal(t, []piece{a}, found(p, 7, 1).list)
		p.release(&second)
		p.release(&first)
		require.Equal(t, 1, p.state().active)
		take(p, 1) // the unused one
		take(p, 1) // b
		require.Equal(t, []piece{a}, found(p, 7, 1).list)
		require.NotEqual(t, a, b)
		take(p, 1) // a
		require.Equal(t, []piece{c}, found(p, 7, 1).list)
		p.release(&third)
		take(p, 1)
		require.Empty(t, found(p, 7, 1).list)
		require.Equal(t, []KVEvent{{Run{7, 1}, false, false}, {Run{7, 1}, true, false}}, p.state().log.list)
	})
}

// A block without content is unused again, and no eviction.
//
// Covers S-16.
func TestUnfilledBlocksVanish(t *testing.T) {
	pools(t, 2, func(t *testing.T, p pool) {
		l := take(p, 1)
		p.release(&l)
		u := p.state()
		require.Equal(t, []int{0, 0, 2}, []int{u.active, u.inactive, u.unused()})
		fill(p, 1, 2)
		require.Zero(t, u.evictions)
	})
}

// The log counts blocks that only their own requests find, apart from those that have a number.
//
// Covers S-20.
func TestPrivateBlocksAreEvents(t *testing.T) {
	pools(t, 3, func(t *testing.T, p pool) {
		l := fill(p, 7)
		p.take(&l, 2)
		p.own(&l, 0, 3)
		p.own(&l, 2, 3)
		kept := p.privates(nil, &l)
		require.Equal(t, []int32{1, 2}, []int32{kept[0].index, kept[1].index})
		p.release(&l)
		require.True(t, p.holds(kept[1]))
		take(p, 1)
		require.Equal(t, []bool{true, false}, []bool{p.holds(kept[0]), p.holds(kept[1])})
		take(p, 2)
		require.False(t, p.holds(kept[0]))
		require.Equal(t, []KVEvent{{Run{7, 1}, false, false}, {Run{0, 2}, false, true}, {Run{0, 2}, true, true}, {Run{7, 1}, true, false}}, p.state().log.list)
	})
}

// Blocks that one request makes in several passes are one extent, until another leases a part.
func TestExtentsGrowAndSplit(t *testing.T) {
	p := newExtents(100)
	l := take(p, 10)
	p.publish(&l, 0, Run{50, 4})
	p.publish(&l, 4, Run{54, 5})
	p.take(&l, 6)
	p.publish(&l, 9, Run{59, 6})
	require.Equal(t, []int32{15, 1}, []int32{l.list[0].count, l.list[1].count})
	require.Equal(t, int32(15), p.list[l.list[0].at].count)
	hits, other := found(p, 50, 7), leases{}
	require.Len(t, hits.list, 1)
	p.lease(&other, &hits)
	require.Equal(t, int32(7), p.list[l.list[0].at].count)
	p.release(&l)
	require.Equal(t, []int{7, 8}, []int{p.active, p.inactive})
	require.Len(t, found(p, 50, 20).list, 2)
}

func TestIndexFindsBeginnings(t *testing.T) {
	var x index
	there, draw := map[uint32]int32{}, rand.New(rand.NewPCG(1, 2))
	for step := range int32(20_000) {
		c := draw.Uint32N(2000)
		if at, ok := there[c]; ok && step%2 == 0 {
			require.Equal(t, at, x.find(c))
			x.remove(c)
			delete(there, c)
		} else if len(there) < 60 {
			x.put(c, step)
			there[c] = step
		}
		first, last := draw.Uint32N(2000), draw.Uint32N(2200)
		next, before, found := last, uint32(0), false
		for n := range there {
			if n >= first && n < last {
				next = min(next, n)
			}
			if n >= first && n <= last {
				before, found = max(before, n), true
			}
		}
		if first < last {
			require.Equal(t, next, x.next(first, last))
		}
		got, ok := x.before(first, last)
		require.Equal(t, found, ok)
		if found {
			require.Equal(t, before, got)
		}
		require.Equal(t, there[first] > 0, x.find(first) > 0)
	}
	require.LessOrEqual(t, len(x.list), 40)
}
