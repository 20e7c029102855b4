package tokenizer

import "math"

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
	queue []candidate
	known []reach // by token: whether its bytes merge to it
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
