package tokenizer

import "math/bits"

// pieceCache keeps the tokens of pieces that were met before, the last of those that share a place. Most of the pieces of a text are
// words, blanks and signs that it has met.
type pieceCache struct {
	short [shortPieces]shortPiece
	long  [longPieces]longerPiece
}

const (
	shortPieces = 1 << 13
	longPieces  = 1 << 11
)

// shortPiece is a piece of up to 15 bytes, in the two words that they make, with its length in the last byte.
type shortPiece struct {
	low, high uint64
	ids       [3]uint32
	count     uint32 // 0: none is here
}

// longerPiece is a piece that is too long for a shortPiece, or has too many tokens.
type longerPiece struct {
	ids   [10]uint32
	text  [30]byte
	size  uint8
	count uint8
}

// word returns up to 8 bytes of a text, from a byte on.
func word(text string, at int) (w uint64) {
	if at+8 <= len(text) {
		t := text[at : at+8]
		return uint64(t[0]) | uint64(t[1])<<8 | uint64(t[2])<<16 | uint64(t[3])<<24 | uint64(t[4])<<32 | uint64(t[5])<<40 | uint64(t[6])<<48 | uint64(t[7])<<56
	}
	for k := at; k < len(text); k++ {
		w |= uint64(text[k]) << (8 * (k - at))
	}
	return w
}

// place returns the words of a piece of up to 15 bytes, which is text[from:to], and its place.
func (c *pieceCache) place(text string, from, to int) (p *shortPiece, low, high uint64) {
	n := to - from
	low = word(text, from)
	if n < 8 {
		low &= 1<<(8*n) - 1
	} else if n > 8 {
		high = word(text, from+8) & (1<<(8*(n-8)) - 1)
	}
	high |= uint64(n) << 56
	over, under := bits.Mul64(low^0x9e3779b97f4a7c15, high^0xbf58476d1ce4e5b9)
	return &c.short[(over^under)%shortPieces], low, high
}

// placeLonger returns the place of a piece; nil: it is too long.
func (c *pieceCache) placeLonger(piece string) *longerPiece {
	if len(piece) > len(longerPiece{}.text) {
		return nil
	}
	hash := uint32(2166136261)
	for i := range len(piece) {
		hash = (hash ^ uint32(piece[i])) * 16777619
	}
	return &c.long[(hash^hash>>15)%longPieces]
}

// set keeps a piece, if its tokens fit. It reports whether they do.
func (p *shortPiece) set(low, high uint64, ids []uint32) bool {
	if len(ids) > len(p.ids) {
		return false
	}
	p.low, p.high, p.count = low, high, uint32(copy(p.ids[:], ids))
	return true
}

func (p *longerPiece) piece() string { return string(p.text[:p.size]) }

// set keeps a piece, if its tokens fit.
func (p *longerPiece) set(piece string, ids []uint32) {
	if len(ids) > len(p.ids) {
		return
	}
	p.size, p.count = uint8(copy(p.text[:], piece)), uint8(copy(p.ids[:], ids))
}
