package reconstruct

import (
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/convert/rules"
)

// randomEdges are of a corpus of n tokens: every one in so many is a start, an end, or a flaw.
func randomEdges(r *rand.Rand, n, starts, ends, flaws int) *Edges {
	e := &Edges{Starts: make([]uint64, n/64+1), Ends: make([]uint64, n/64+1)}
	for k := range n + 1 {
		if k < n && r.IntN(starts) == 0 {
			e.Starts[k/64] |= 1 << (k % 64)
		}
		if r.IntN(ends) == 0 {
			e.Ends[k/64] |= 1 << (k % 64)
		}
		if k < n && r.IntN(flaws) == 0 {
			e.Flaws = append(e.Flaws, uint32(k))
		}
	}
	return e
}

func has(set []uint64, k int) bool { return set[k/64]>>(k%64)&1 == 1 }

// allowed lists the places of windows of the lengths, one by one.
func (e *Edges) allowed(n int, lengths []int) (list []uint32) {
	for p := range n {
		ok := has(e.Starts, p)
		for _, length := range lengths {
			ok = ok && p+length <= n && has(e.Ends, p+length) &&
				!slices.ContainsFunc(e.Flaws, func(f uint32) bool { return int(f) >= p && int(f) < p+length })
		}
		if ok {
			list = append(list, uint32(p))
		}
	}
	return list
}

// pickSlowly is pick by the words of the specification.
func (e *Edges) pickSlowly(n int, x uint64, lengths []int) (uint32, bool) {
	allowed := e.allowed(n, lengths)
	stretches := uint64(n/64 + 1)
	stretch, rest := bits.Mul64(x, stretches)
	for k := range stretches {
		var here []uint32
		for _, p := range allowed {
			if uint64(p)/64 == (stretch+k)%stretches {
				here = append(here, p)
			}
		}
		if len(here) > 0 {
			k, _ := bits.Mul64(rest, uint64(len(here)))
			return here[k], true
		}
	}
	return 0, false
}

// Draws choose what the specification says, for corpora of any length, with few and many edges.
func TestPickIsThatOfTheSpecification(t *testing.T) {
	r := rand.New(rand.NewPCG(17, 17))
	found, none := 0, 0
	for range 3000 {
		n := 1 + r.IntN(500)
		e := randomEdges(r, n, 1+r.IntN(100), 1+r.IntN(10), 1+r.IntN(300))
		lengths := []int{1 + r.IntN(40)}
		for r.IntN(3) == 0 {
			lengths = append(lengths, 1+r.IntN(600))
		}
		x := r.Uint64()
		want, wantOK := e.pickSlowly(n, x, lengths)
		got, ok := e.pick(x, lengths...)
		require.Equal(t, wantOK, ok, "n %d, lengths %v", n, lengths)
		require.Equal(t, want, got, "n %d, lengths %v, x %d", n, lengths, x)
		if ok && len(lengths) == 1 {
			require.Equal(t, want, e.list(lengths[0]).pick(x))
		}
		if ok {
			found++
		} else {
			none++
		}
	}
	assert.Greater(t, min(found, none), 500)
}

// Draws reach every place of a corpus about equally often.
func TestPickReachesEveryPlace(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	const n, draws = 64*50 - 1, 200_000
	e := randomEdges(r, n, 4, 2, 1<<30)
	e.Flaws = nil
	counts := map[uint32]int{}
	for range draws {
		start, ok := e.pick(r.Uint64(), 17)
		require.True(t, ok)
		counts[start]++
	}
	allowed := e.allowed(n, []int{17})
	require.Len(t, counts, len(allowed))
	repeats := 0.0
	for _, c := range counts {
		repeats += float64(c) / draws * float64(c) / draws
	}
	assert.Less(t, repeats, 1.4/float64(len(allowed)), "two draws are equal hardly more often than among equally likely places")
}

// Where no place has edges, windows lie where XXH3 has them, and count as inexact.
func TestExactFallsBack(t *testing.T) {
	edges := &Edges{Starts: []uint64{1 << 5, 0}, Ends: []uint64{1 << 10, 0}}
	exact, plain := NewPlacer(rules.Placement{Seed: 3}, 100, edges), NewPlacer(rules.Placement{Backend: rules.XXH3, Seed: 3}, 100, edges)
	var got, want [4]uint32
	exact.Blocks(got[:], "s", 1, 5)
	assert.Equal(t, [4]uint32{5, 5, 5, 5}, got)
	exact.Blocks(got[:], "s", 1, 6)
	plain.Blocks(want[:], "s", 1, 6)
	assert.Equal(t, want, got)
	assert.Equal(t, plain.Filler("c", 1, 200), exact.Filler("c", 1, 200))
	assert.Equal(t, plain.Filler("c", 1, 20), exact.Filler("c", 1, 20))
	assert.EqualValues(t, 5, exact.Filler("c", 1, 5))
	assert.Equal(t, []int{4 + 4 + 3, 4 + 2}, []int{exact.Windows, exact.Inexact})
	assert.Equal(t, []int{4 + 2, 0}, []int{plain.Windows, plain.Inexact})
}

// A block of which prompts have heads begins where all of them have edges, or where it would without heads.
func TestExactWithHeads(t *testing.T) {
	edges := &Edges{Starts: []uint64{1<<5 | 1<<20, 0}, Ends: []uint64{1<<10 | 1<<25 | 1<<22, 0}}
	w := NewPlacer(rules.Placement{Seed: 3}, 100, edges)
	for id := range int64(10) {
		var start [1]uint32
		w.Blocks(start[:], "s", id, 5)
		assert.EqualValues(t, 20, w.WithHeads(start[0], "s", id, 5, []int{2}))
		assert.Zero(t, w.Inexact)
		assert.Equal(t, start[0], w.WithHeads(start[0], "s", id, 5, []int{2, 3}))
		assert.Equal(t, 2, w.Inexact)
		w.Inexact = 0
	}
}

// BenchmarkDraw measures a draw for a block of 64 tokens.
func BenchmarkDraw(b *testing.B) {
	edges := randomEdges(rand.New(rand.NewPCG(1, 1)), 300_000, 4, 1, 1<<30)
	edges.Flaws = nil
	dst := make([]uint32, 1000)
	for _, backend := range rules.Backends() {
		b.Run(backend, func(b *testing.B) {
			w := NewPlacer(rules.Placement{Backend: backend, Seed: 42}, 300_000, edges)
			for b.Loop() {
				w.Blocks(dst, "trace_0001", 7, 64)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(dst)), "ns/block")
		})
	}
}
