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

// newText returns an empty buffer for a text, whose capacity is less than twice its size.
func newText(size int) []byte {
	power := bits.Len(uint(max(1, size) - 1)) // 1<<power is the capacity
	if power < leastText || power > mostText {
		return make([]byte, 0, size)
	}
	if b, _ := texts[power-leastText].Get().(*[]byte); b != nil {
		return *b
	}
	return make([]byte, 0, 1<<power)
}

// dropText overwrites a text, whose buffer another one then takes.
func dropText(text []byte) {
	clear(text)
	if power := bits.Len(uint(cap(text))) - 1; power >= leastText && power <= mostText && cap(text) == 1<<power {
		text = text[:0]
		texts[power-leastText].Put(&text)
	}
}
