package reconstruct

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

// First returns the first token at which windows of all the lengths may begin; false if there is none.
func (e *Edges) First(lengths ...int) (start uint32, ok bool) {
	for stretch := range uint64(len(e.Starts)) {
		if places := e.places(stretch, lengths); places != 0 {
			return uint32(64*stretch) + uint32(bits.TrailingZeros64(places)), true
		}
	}
	return 0, false
}

// placeList lists the places of windows of one length, for many draws.
type placeList struct {
	tokens    int // of a window
	places    []uint32
	stretches []placeSpan
}

// placeSpan are the places of a stretch in a placeList, or if it has none, those of the next one.
type placeSpan struct{ first, count uint32 }

// list lists the places of windows of n tokens.
func (e *Edges) list(n int) *placeList {
	l := &placeList{tokens: n, stretches: make([]placeSpan, len(e.Starts))}
	for stretch := range e.Starts {
		first := len(l.places)
		for left := e.places(uint64(stretch), []int{n}); left != 0; left &= left - 1 {
			l.places = append(l.places, uint32(64*stretch+bits.TrailingZeros64(left)))
		}
		l.stretches[stretch] = placeSpan{uint32(first), uint32(len(l.places) - first)}
	}
	var next placeSpan
	for k := 2*len(l.stretches) - 1; k >= 0; k-- { // twice around, for those that reach over the end
		if s := &l.stretches[k%len(l.stretches)]; s.count > 0 {
			next = *s
		} else {
			*s = next
		}
	}
	return l
}

// pick chooses as Edges.pick does. The list is not empty.
func (l *placeList) pick(x uint64) uint32 {
	stretch, rest := bits.Mul64(x, uint64(len(l.stretches)))
	s := l.stretches[stretch]
	k, _ := bits.Mul64(rest, uint64(s.count))
	return l.places[s.first+uint32(k)]
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
