package tokenizer

import "math"

// longPiece is the number of bytes above which a piece is merged with a heap: looking through a long piece for every merge would take
// quadratic time.
const longPiece = 200

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
	queue mergeQueue
	known []reach // by token: whether its bytes merge to it
	cache []cachedPiece
}

// reach says whether the bytes of a token merge to that token.
type reach uint8

const (
	unknown reach = iota
	reached
	unreached
)

// append appends the tokens of a piece.
func (m *merger) append(ids []uint32, piece string) []uint32 {
	if len(piece) == 1 {
		return append(ids, m.byteIDs[piece[0]])
	}
	if id, ok := m.vocabulary.find(piece); ok && m.reaches(id, piece) {
		return append(ids, id)
	}
	c := m.cached(piece)
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
		m.parts = append(m.parts, part{from: int32(i), id: m.byteIDs[piece[i]]})
	}
	m.parts = append(m.parts, part{from: int32(len(piece)), next: pair{rank: none}})
	for k := range len(piece) {
		m.parts[k].next = m.pair(piece, k, k+1, k+2)
	}
	if len(piece) > longPiece {
		return m.mergeLong(ids, piece)
	}
	for {
		best, rank := 0, uint32(none)
		for k := range m.parts {
			if r := m.parts[k].next.rank; r < rank {
				best, rank = k, r
			}
		}
		if rank == none {
			break
		}
		m.parts[best].id = m.parts[best].next.id
		copy(m.parts[best+1:], m.parts[best+2:])
		m.parts = m.parts[:len(m.parts)-1]
		m.parts[best].next = m.pair(piece, best, best+1, best+2)
		if best > 0 {
			m.parts[best-1].next = m.pair(piece, best-1, best, best+1)
		}
	}
	for _, p := range m.parts[:len(m.parts)-1] {
		ids = append(ids, p.id)
	}
	return ids
}

// pair returns what the parts a and b become; end is the part behind them.
func (m *merger) pair(piece string, a, b, end int) pair {
	if end >= len(m.parts) {
		return pair{rank: none}
	}
	if m.pairs != nil {
		if merge, ok := m.pairs.find(m.parts[a].id, m.parts[b].id); ok {
			return merge
		}
		return pair{rank: none}
	}
	if id, ok := m.vocabulary.find(piece[m.parts[a].from:m.parts[end].from]); ok {
		return pair{id, id}
	}
	return pair{rank: none}
}

// cachedPiece keeps the tokens of a short piece.
type cachedPiece struct {
	ids   [10]uint32
	text  [30]byte
	size  uint8
	count uint8
}

const cachedPieces = 1 << 13

// cached returns the place of a piece in the cache; nil: it is too long for it. Another piece may be in its place.
func (m *merger) cached(piece string) *cachedPiece {
	if len(piece) > len(cachedPiece{}.text) {
		return nil
	}
	if m.cache == nil {
		m.cache = make([]cachedPiece, cachedPieces)
	}
	hash := uint32(2166136261)
	for i := range len(piece) {
		hash = (hash ^ uint32(piece[i])) * 16777619
	}
	return &m.cache[(hash^hash>>15)%cachedPieces]
}

func (c *cachedPiece) piece() string { return string(c.text[:c.size]) }

// set keeps a piece, if its tokens fit.
func (c *cachedPiece) set(piece string, ids []uint32) {
	if len(ids) > len(c.ids) {
		return
	}
	c.size, c.count = uint8(copy(c.text[:], piece)), uint8(copy(c.ids[:], ids))
}
