package tokenizer

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"math/bits"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/agentx/agentx/internal/heap"
)

// longPiece is the number of bytes above which a piece is merged with a heap: looking through a long piece for every merge would take
// quadratic time.
const longPiece = 64

// none is the rank of two parts that do not merge.
const none = math.MaxUint32

// part is a part of a piece that has become one token.
type part struct {
	from int32  // its first byte in the piece
	id   uint32 // of its token
	next pair   // what it and the part behind it become; its rank may be none
}

// merger merges the bytes of pieces into tokens. It is not safe for concurrent use.
type merger struct {
	*model
	parts []part
	links links
	queue []candidate // a heap
	known []reach     // by token: whether its bytes merge to it
	cache pieceCache
}

// reach says whether the bytes of a token merge to that token.
type reach uint8

const (
	unknown reach = iota
	reached
	unreached
)

// append appends the tokens of a piece, which is text[from:to].
func (m *merger) append(ids []uint32, text string, from, to int) []uint32 {
	piece := text[from:to]
	switch {
	case len(piece) == 1:
		return append(ids, m.byteIDs[piece[0]])
	case len(piece) > 15:
		return m.appendLonger(ids, piece)
	}
	c, low, high := m.cache.place(text, from, to)
	if c.low == low && c.high == high {
		switch c.count {
		case 1:
			return append(ids, c.ids[0])
		case 2:
			return append(ids, c.ids[0], c.ids[1])
		case 3:
			return append(ids, c.ids[0], c.ids[1], c.ids[2])
		}
	}
	n := len(ids)
	if id, ok := m.vocabulary.find(piece); ok && m.reaches(id, piece) {
		ids = append(ids, id)
	} else {
		ids = m.appendCached(ids, piece)
	}
	c.set(low, high, ids[n:])
	return ids
}

// appendLonger appends the tokens of a piece that has no place among the short ones.
func (m *merger) appendLonger(ids []uint32, piece string) []uint32 {
	if id, ok := m.vocabulary.find(piece); ok && m.reaches(id, piece) {
		return append(ids, id)
	}
	return m.appendCached(ids, piece)
}

// appendCached appends the tokens of a piece that is not one token.
func (m *merger) appendCached(ids []uint32, piece string) []uint32 {
	c := m.cache.placeLonger(piece)
	if c == nil {
		return m.merge(ids, piece)
	}
	if c.piece() != piece {
		n := len(ids)
		ids = m.merge(ids, piece)
		c.set(piece, ids[n:])
		return ids
	}
	return append(ids, c.ids[:c.count]...)
}

// reaches reports whether the bytes of a token merge to it, which need not be so where merges are listed.
func (m *merger) reaches(id uint32, piece string) bool {
	if m.pairs == nil || m.wholePieces {
		return true
	}
	if m.known == nil {
		m.known = make([]reach, m.vocabulary.size())
	}
	if m.known[id] == unknown {
		m.known[id] = unreached
		if ids := m.merge(nil, piece); len(ids) == 1 {
			m.known[id] = reached
		}
	}
	return m.known[id] == reached
}

// merge appends the tokens that a piece merges to: of all pairs side by side that of the lowest rank merges first, of those of one rank
// the first.
func (m *merger) merge(ids []uint32, piece string) []uint32 {
	m.parts = m.parts[:0]
	for i := range len(piece) {
		p := part{from: int32(i), id: m.byteIDs[piece[i]], next: pair{rank: none}}
		if i+1 < len(piece) {
			p.next = m.bytePairs[piece[i]][piece[i+1]]
		}
		m.parts = append(m.parts, p)
	}
	m.parts = append(m.parts, part{from: int32(len(piece)), next: pair{rank: none}})
	if len(piece) > longPiece {
		return m.mergeLong(ids, piece)
	}
	parts := m.parts
	for {
		best, rank := 0, uint32(none)
		for k := range parts {
			if r := parts[k].next.rank; r < rank {
				best, rank = k, r
			}
		}
		if rank == none {
			break
		}
		parts[best].id = parts[best].next.id
		copy(parts[best+1:], parts[best+2:])
		parts = parts[:len(parts)-1]
		parts[best].next = pair{rank: none}
		if best+2 < len(parts) {
			parts[best].next = m.pair(piece, parts[best], parts[best+1], parts[best+2].from)
		}
		if best > 0 {
			parts[best-1].next = m.pair(piece, parts[best-1], parts[best], parts[best+1].from)
		}
	}
	for _, p := range parts[:len(parts)-1] {
		ids = append(ids, p.id)
	}
	return ids
}

// pair returns what the parts a and b become; end is the byte behind them.
func (m *merger) pair(piece string, a, b part, end int32) pair {
	if m.pairs != nil {
		return m.pairs.find(a.id, b.id)
	}
	if id, ok := m.vocabulary.find(piece[a.from:end]); ok {
		return pair{id, id}
	}
	return pair{rank: none}
}

// links says, by part of a long piece, which part is behind it and which is before it. Parts that have merged stay in their place.
type links struct{ after, before []int32 }

// candidate is a pair that may merge: the rank, and below it the part with the one behind it.
type candidate uint64

func candidateOf(rank uint32, part int32) candidate { return candidate(rank)<<32 | candidate(part) }

// mergeLong merges the parts of a long piece.
func (m *merger) mergeLong(ids []uint32, piece string) []uint32 {
	n := int32(len(m.parts) - 1)
	l := &m.links
	l.reset(n)
	m.queue = m.queue[:0]
	for k := range m.parts {
		m.offer(int32(k))
	}
	for len(m.queue) > 0 {
		c := heap.Pop(&m.queue, cmp.Less)
		a := int32(c & 0xffffffff)
		if m.parts[a].next.rank != uint32(c>>32) { // one that has changed since
			continue
		}
		b := l.after[a]
		m.parts[a].id = m.parts[a].next.id
		m.parts[b].next.rank = none
		l.after[a] = l.after[b]
		l.before[l.after[b]] = a
		m.refresh(piece, a, n)
		if k := l.before[a]; k >= 0 {
			m.refresh(piece, k, n)
		}
	}
	for k := int32(0); k < n; k = l.after[k] {
		ids = append(ids, m.parts[k].id)
	}
	m.forget()
	return ids
}

// reset links n parts, and the end, in their order.
func (l *links) reset(n int32) {
	l.after, l.before = l.after[:0], l.before[:0]
	for k := range n + 1 {
		l.after = append(l.after, min(k+1, n))
		l.before = append(l.before, k-1)
	}
}

// refresh looks up what a part and the one behind it become; n is the end.
func (m *merger) refresh(piece string, k, n int32) {
	p := &m.parts[k]
	p.next = pair{rank: none}
	if b := m.links.after[k]; b < n {
		p.next = m.pair(piece, *p, m.parts[b], m.parts[m.links.after[b]].from)
		m.offer(k)
	}
}

// offer adds a part and the one behind it to the queue, if they merge.
func (m *merger) offer(k int32) {
	if rank := m.parts[k].next.rank; rank != none {
		heap.Push(&m.queue, candidateOf(rank, k), cmp.Less)
	}
}

// maxKeptParts is how many parts a merger keeps room for, between pieces.
const maxKeptParts = 1 << 16

// forget gives the memory of a huge piece back.
func (m *merger) forget() {
	if cap(m.parts) > maxKeptParts {
		m.parts, m.links, m.queue = nil, links{}, nil
	}
}

// pieceCache keeps the tokens of pieces that were met before, the last of those that share a place. Most of the pieces of a text are
// words, blanks and signs that it has met.
type pieceCache struct {
	short [shortPieces]shortPiece
	long  [longPieces]longerPiece
}

const (
	shortPieces = 1 << 14
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

const (
	streamBuffer = 1 << 20 // bytes that EncodeReader reads at a time
	maxStretch   = 8 << 20 // bytes without a place to cut: to encode them takes ninety times their memory
)

// EncodeReader encodes a text of any length, and calls each with the ids of its parts in turn. Joined they are those that Encode returns
// for the whole text. It holds a part of the text at a time: about a megabyte, or more where the text has no blank and no line break.
// The ids are valid until each returns. size is the number of bytes of the text.
func (t *Tokenizer) EncodeReader(r io.Reader, each func(ids []uint32) error) (size int64, err error) {
	return t.encodeReader(r, streamBuffer, each)
}

func (t *Tokenizer) encodeReader(r io.Reader, step int, each func(ids []uint32) error) (size int64, err error) {
	var text []byte
	var ids []uint32
	for end := false; !end; {
		if len(text) > maxStretch {
			return size, fmt.Errorf("tokenizer: %d bytes from byte %d on without a blank or a line break: they are too long to be encoded", len(text), size-int64(len(text)))
		}
		from := len(text)
		text = append(text, make([]byte, max(step, from))...) // twice as much where it could not be cut
		n, err := io.ReadFull(r, text[from:])
		text = text[:from+n]
		size += int64(n)
		end = err == io.EOF || err == io.ErrUnexpectedEOF
		if err != nil && !end {
			return size, err
		}
		cut := len(text)
		if !end {
			cut = t.lastCut(text)
		}
		if cut == 0 {
			continue
		}
		ids = t.AppendIDs(ids[:0], string(text[:cut]))
		if err := each(ids); err != nil {
			return size, err
		}
		text = append(text[:0], text[cut:]...)
	}
	return size, nil
}

// lastCut returns the last place where a text can be cut, so that its parts have the ids of the whole, whatever follows it; 0: there is
// none. It is before a blank behind a character that is no white space, or behind a line break before a letter: a piece begins there
// under every pattern. No added token may lie across it.
func (t *Tokenizer) lastCut(text []byte) int {
	if f := t.added.normalized; f != nil && t.nfc && slices.ContainsFunc(f.tokens, func(a addedToken) bool { return strings.ContainsAny(a.content, " \n") }) {
		return 0 // such a token may be found in a text that differs from it
	}
	for cut := len(text) - utf8.UTFMax - t.added.longest(); cut > 0; cut-- {
		if isCut(text, cut) && !t.added.across(string(text[max(0, cut-t.added.longest()):min(len(text), cut+t.added.longest())]), min(cut, t.added.longest())) {
			return cut
		}
	}
	return 0
}

// isCut reports whether encodeReader may cut the text at a position, so that both sides encode as they do together.
func isCut(text []byte, at int) bool {
	if text[at-1] == '\n' {
		return text[at]|0x20 >= 'a' && text[at]|0x20 <= 'z'
	}
	if text[at] != ' ' {
		return false
	}
	before, _ := utf8.DecodeLastRune(text[:at])
	return classes()[before]&space == 0
}

// longest returns the number of bytes of the longest added token.
func (a *addedTokens) longest() (n int) {
	for _, f := range []*tokenFinder{a.raw, a.normalized} {
		if f != nil {
			n = max(n, f.longest)
		}
	}
	return n
}

// across reports whether an added token lies across a place in a text.
func (a *addedTokens) across(text string, at int) bool {
	for _, f := range []*tokenFinder{a.raw, a.normalized} {
		for from := 0; f != nil && from < at; from++ {
			if f.first[text[from]] {
				if _, length := f.at(text[from:]); from+length > at {
					return true
				}
			}
		}
	}
	return false
}
