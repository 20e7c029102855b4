package mmapcache

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"unicode/utf8"

	"github.com/agentx/agentx/manifest"
)

// splitMap says where a cut of the corpus as text depends on the bytes beside the cut. It has one bit for every token and
// one for the boundary before it.
type splitMap struct {
	notEmpty    bool
	inCharacter []uint64 // boundaries inside a character
	illFormed   []uint64 // tokens with ill-formed bytes
}

// bitSet returns a set of k in [0,n), listed in ascending order.
func bitSet(n int, list []uint32) ([]uint64, error) {
	set := make([]uint64, n/64+1)
	for i, k := range list {
		if int(k) >= n || i > 0 && k <= list[i-1] {
			return nil, fmt.Errorf("%w: entry %d: token %d is out of range [0,%d) or not above the one before", manifest.ErrDamaged, i, k, n)
		}
		set[k/64] |= 1 << (k % 64)
	}
	return set, nil
}

// needsDecode reports whether a window begins or ends inside a character or covers ill-formed bytes. It may wrap around
// the end of the corpus of n tokens.
func (m *splitMap) needsDecode(start, length uint32, n int) bool {
	if !m.notEmpty || length == 0 {
		return false
	}
	from, end := uint64(start), uint64(start)+uint64(length)
	corpus := uint64(n)
	if hasBit(m.inCharacter, from) || hasBit(m.inCharacter, end%corpus) {
		return true
	}
	if end <= corpus {
		return anyBit(m.illFormed, from, end)
	}
	return anyBit(m.illFormed, from, corpus) || anyBit(m.illFormed, 0, min(end-corpus, from))
}

func hasBit(set []uint64, k uint64) bool { return set[k/64]&(1<<(k%64)) != 0 }

// anyBit reports whether a bit in [from, to) is set.
func anyBit(set []uint64, from, to uint64) bool {
	if from >= to {
		return false
	}
	first, last := from/64, (to-1)/64
	head, tail := ^uint64(0)<<(from%64), ^uint64(0)>>(63-(to-1)%64)
	if first == last {
		return set[first]&head&tail != 0
	}
	if set[first]&head != 0 || set[last]&tail != 0 {
		return true
	}
	for _, w := range set[first+1 : last] {
		if w != 0 {
			return true
		}
	}
	return false
}

// findSplits lists the boundaries inside characters and the tokens with ill-formed bytes of a text, both ascending.
// bounds are the token boundaries in text: token k is text[bounds[k]:bounds[k+1]].
func findSplits(text []byte, bounds []int) (splits, ill []uint32) {
	next := 1 // boundary
	for at := afterASCII(text, 0); at < len(text); at = afterASCII(text, at) {
		bad := illFormed(text[at:])
		n := bad
		if bad == 0 {
			_, n = utf8.DecodeRune(text[at:])
		}
		for bounds[next] <= at {
			next++
		}
		// Token next-1 holds byte at. Boundaries before at+n lie inside this character or ill-formed sequence.
		for k := next; ; k++ {
			if bad > 0 && (len(ill) == 0 || ill[len(ill)-1] != uint32(k-1)) {
				ill = append(ill, uint32(k-1))
			}
			if bounds[k] >= at+n {
				break
			}
			if bad == 0 {
				splits = append(splits, uint32(k))
			}
		}
		at += n
	}
	return splits, ill
}

// afterASCII returns the first byte from at on that is not ASCII, or the length of the text.
func afterASCII(text []byte, at int) int {
	for ; at+8 <= len(text); at += 8 {
		if high := binary.LittleEndian.Uint64(text[at:]) & 0x8080808080808080; high != 0 {
			return at + bits.TrailingZeros64(high)/8
		}
	}
	for at < len(text) && text[at] < utf8.RuneSelf {
		at++
	}
	return at
}
