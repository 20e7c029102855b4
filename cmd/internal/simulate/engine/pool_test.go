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
		others := take(p, 2)
		require.False(t, p.holds(kept[0]))
		require.Equal(t, []KVEvent{{Run{7, 1}, false, false}, {Run{0, 2}, false, true}, {Run{0, 2}, true, true}, {Run{7, 1}, true, false}}, p.state().log.list)
		p.own(&others, 0, 2)
		require.False(t, p.holds(kept[0]) || p.holds(kept[1]), "another block at the same place")
	})
}

// A copy of blocks of which only the later ones are there already.
//
// Covers S-16.
func TestCopiesOfTheEnd(t *testing.T) {
	pools(t, 10, func(t *testing.T, p pool) {
		last := take(p, 2)
		p.publish(&last, 0, Run{5, 2})
		whole := take(p, 5)
		p.publish(&whole, 0, Run{3, 5})
		p.release(&whole)
		hits := found(p, 3, 5)
		require.Equal(t, [2]int{5, 2}, [2]int{hits.blocks, p.leased(&hits)})
		take(p, 8)
		require.Empty(t, found(p, 3, 5).list)
		require.Equal(t, 10, p.state().active)
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

// twin is a request with its leases in two pools.
type twin struct {
	chain   []Run
	blocks  int
	visible int
	plain   leases
	request *Request // its leases in extents
}

// randomChain returns a path of a tree: a part of one of two trunks, then a branch that only leaves the trunk there.
func randomChain(draw *rand.Rand) (chain []Run, blocks int) {
	trunk, depth := uint32(draw.IntN(2)), uint32(draw.IntN(12))
	chain = append(chain, Run{50 * trunk, depth}, Run{100 + 800*trunk + 60*depth + 30*uint32(draw.IntN(2)), uint32(draw.IntN(20))})
	return chain, int(chain[0].Count + chain[1].Count)
}

// numbersOf returns the chain numbers of blocks from first to before end.
func (w *twin) numbersOf(first, end int, publish func(first int, numbers Run)) {
	i := 0
	for _, run := range w.chain {
		if from, to := max(first, i), min(end, i+int(run.Count)); from < to {
			publish(from, Run{run.First + uint32(from-i), uint32(to - from)})
		}
		i += int(run.Count)
	}
}

// enter leases what a request finds, at most so many blocks, and takes the rest.
func (w *twin) enter(p, x pool, most int) (cached int) {
	var a, b leases
	p.find(&a, w.chain, most)
	x.find(&b, w.chain, most)
	if a.blocks != b.blocks || p.leased(&a) != x.leased(&b) {
		return -1
	}
	cached = a.blocks
	if w.blocks-cached > p.state().blocks-p.state().active-(cached-p.leased(&a)) {
		w.blocks = 0 // there is no room
		return cached
	}
	p.lease(&w.plain, &a)
	x.lease(&w.request.leases, &b)
	if cached < w.blocks {
		p.take(&w.plain, w.blocks-cached)
		x.take(&w.request.leases, w.blocks-cached)
	}
	w.visible = cached
	return cached
}

// Extents hold what a pool block by block holds: after any leases, copies made beside one another, releases and evictions, every chain
// finds as many blocks, as many of them leased, and the events have told of the same numbers.
//
// Covers S-16, S-18.
func TestExtentsAreAPlainPool(t *testing.T) {
	copies, evictions := 0, int64(0)
	for seed := range uint64(150) {
		draw := rand.New(rand.NewPCG(seed, 4))
		blocks := 20 + draw.IntN(100)
		p, x := newPlainPool(blocks), newExtents(blocks)
		p.log, x.log = &eventLog{}, &eventLog{}
		var open []*twin
		known := [2]map[uint32]bool{{}, {}}
		for range 150 {
			if draw.IntN(2) == 0 {
				one := &twin{request: &Request{}}
				one.chain, one.blocks = randomChain(draw)
				cached := one.enter(p, x, draw.IntN(2)*draw.IntN(one.blocks+1)) // often it does not look, as one that came at the same time
				require.GreaterOrEqual(t, cached, 0, "seed %d", seed)
				if one.blocks > 0 {
					open = append(open, one)
				}
			} else if len(open) > 0 {
				k := draw.IntN(len(open))
				one := open[k]
				next := min(one.visible+1+draw.IntN(12), one.blocks)
				switch {
				case one.visible < one.blocks && draw.IntN(6) > 0:
					one.numbersOf(one.visible, next, func(first int, numbers Run) {
						p.publish(&one.plain, first, numbers)
						x.publish(&one.request.leases, first, numbers)
					})
					one.visible = next
				default:
					own := min(one.visible+draw.IntN(3), one.blocks)
					p.own(&one.plain, one.visible, own)
					x.own(&one.request.leases, one.visible, own)
					p.release(&one.plain)
					x.release(&one.request.leases)
					open = append(open[:k], open[k+1:]...)
				}
			}
			copies = max(copies, compare(t, seed, draw, p, x, open, known))
		}
		evictions += p.evictions
	}
	require.Greater(t, copies, 4)
	require.Greater(t, evictions, int64(3000))
}

// compare wants the same of two pools, and returns the most copies that a number has.
func compare(t *testing.T, seed uint64, draw *rand.Rand, p *plainPool, x *extents, open []*twin, known [2]map[uint32]bool) (copies int) {
	require.Equal(t, [4]int{p.active, p.inactive, p.unused(), int(p.evictions)}, [4]int{x.active, x.inactive, x.unused(), int(x.evictions)}, "seed %d", seed)
	for k, log := range []*eventLog{p.log, x.log} {
		for _, e := range log.list {
			for c := e.First; !e.Private && c < e.First+e.Count; c++ {
				require.Equal(t, e.Removed, known[k][c], "seed %d: number %d", seed, c)
				if known[k][c] = true; e.Removed {
					delete(known[k], c)
				}
			}
		}
		log.list = log.list[:0]
	}
	require.Equal(t, known[0], known[1], "seed %d", seed)
	for range 4 {
		chain, blocks := randomChain(draw)
		var a, b leases
		p.find(&a, chain, blocks)
		x.find(&b, chain, blocks)
		require.Equal(t, [2]int{a.blocks, p.leased(&a)}, [2]int{b.blocks, x.leased(&b)}, "seed %d", seed)
	}
	var running []*Request
	for _, one := range open {
		running = append(running, one.request)
	}
	x.check(t, running)
	for _, first := range p.copies {
		n := 0
		for s := first; s != none; s = p.slots[s].newer {
			n++
		}
		copies = max(copies, n)
	}
	return copies
}
