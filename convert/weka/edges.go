package weka

import (
	"math/bits"
	"slices"
)

// Edges say where windows of a corpus may begin and end, so that a tokenizer gives their tokens again, whatever other windows stand beside
// them: doc/spec/reconstruction.md 2.8. Goroutines may share them.
type Edges struct {
	Starts []uint64 // bit k: a window may begin with token k
	Ends   []uint64 // bit k: a window may end before token k
	Flaws  []uint32 // tokens that no window may contain, ascending
}

// pick returns the place that a draw chooses of those at which windows of all the lengths may begin; false if there is none. A draw
// chooses a stretch of 64 tokens, and of its places one. If the stretch has none, the next stretch takes its turn.
func (e *Edges) pick(x uint64, lengths ...int) (start uint32, ok bool) {
	stretches := uint64(len(e.Starts))
	stretch, rest := bits.Mul64(x, stretches)
	for range stretches {
		if places := e.places(stretch, lengths); places != 0 {
			k, _ := bits.Mul64(rest, uint64(bits.OnesCount64(places)))
			for range k {
				places &= places - 1
			}
			return uint32(64*stretch) + uint32(bits.TrailingZeros64(places)), true
		}
		if stretch++; stretch == stretches {
			stretch = 0
		}
	}
	return 0, false
}

// places returns the tokens of a stretch, as bits, at which windows of all the lengths may begin.
func (e *Edges) places(stretch uint64, lengths []int) uint64 {
	places := e.Starts[stretch]
	longest := 0
	for _, n := range lengths {
		places &= bitsFrom(e.Ends, 64*stretch+uint64(n))
		longest = max(longest, n)
	}
	if len(e.Flaws) == 0 {
		return places
	}
	sound := places
	for left := places; left != 0; left &= left - 1 {
		start := uint32(64*stretch) + uint32(bits.TrailingZeros64(left))
		if k, _ := slices.BinarySearch(e.Flaws, start); k < len(e.Flaws) && int(e.Flaws[k]-start) < longest {
			sound &^= left & -left
		}
	}
	return sound
}

// bitsFrom returns the 64 bits of a set from bit k on; those beyond its end are 0.
func bitsFrom(set []uint64, k uint64) uint64 {
	word, shift := k/64, k%64
	if word >= uint64(len(set)) {
		return 0
	}
	list := set[word] >> shift
	if word+1 < uint64(len(set)) {
		list |= set[word+1] << (64 - shift) // nothing for shift 0
	}
	return list
}
