package tokenizer

import (
	"cmp"
	"math"

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
