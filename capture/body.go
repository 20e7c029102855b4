package capture

import (
	"math/bits"
	"sync"

	"github.com/agentx/agentx/capture/carry"
)

// body is the copy of a request's body: the chunks in which it came, or what they say once they are decoded.
type body struct {
	chunks []*carry.Chunk
	whole  []byte
	size   int
}

// bodyOf returns a body in one piece.
func bodyOf(whole []byte) body { return body{whole: whole, size: len(whole)} }

// pieces returns the body as it stands, until it is dropped.
func (b *body) pieces() [][]byte {
	if b.whole != nil {
		return [][]byte{b.whole}
	}
	list := make([][]byte, len(b.chunks))
	for k, c := range b.chunks {
		list[k] = c.Bytes()
	}
	return list
}

// room returns the memory that the body takes.
func (b *body) room() int {
	room := cap(b.whole)
	for _, c := range b.chunks {
		room += c.Size()
	}
	return room
}

// append appends the body without the bytes between two places to a text.
func (b *body) append(text []byte, from, to int) []byte {
	for _, piece := range b.pieces() {
		n := len(piece)
		text = append(text, piece[:min(max(from, 0), n)]...)
		text = append(text, piece[min(max(to, 0), n):]...)
		from, to = from-n, to-n
	}
	return text
}

// drop overwrites the body.
func (b *body) drop() {
	for _, c := range b.chunks {
		c.Release()
	}
	dropText(b.whole)
	*b = body{}
}

// texts are the buffers in which bodies stand in one piece, by the power of two that is their length. A body comes with each turn of a
// session, and making room for it anew would cost more than reading it.
var texts [mostText - leastText + 1]sync.Pool

const leastText, mostText = 16, 23 // powers of two: 64 KiB to 8 MiB

// textPool returns the pool of the buffers of a capacity, nil if there is none.
func textPool(room int) *sync.Pool {
	if power := bits.Len(uint(room)) - 1; power >= leastText && power <= mostText && room == 1<<power {
		return &texts[power-leastText]
	}
	return nil
}

// textRoom returns the capacity of the buffer for a text of a size: less than twice that.
func textRoom(size int) int {
	if power := bits.Len(uint(max(1, size) - 1)); power >= leastText && power <= mostText {
		return 1 << power
	}
	return size
}

// newText returns an empty buffer for a text of a size.
func newText(size int) []byte {
	room := textRoom(size)
	if pool := textPool(room); pool != nil {
		if b, _ := pool.Get().(*[]byte); b != nil {
			return *b
		}
	}
	return make([]byte, 0, room)
}

// dropText overwrites a text, whose buffer another one then takes.
func dropText(text []byte) {
	clear(text)
	if pool := textPool(cap(text)); pool != nil {
		text = text[:0]
		pool.Put(&text)
	}
}
