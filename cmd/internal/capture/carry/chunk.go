package carry

import (
	"sync"
	"sync/atomic"
)

// sizes are the lengths of pooled buffers, from that of an event of a stream to that of a read.
var sizes = [...]int{512, 1 << 10, 2 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10}

// budget bounds the bytes of all copies that are alive.
type budget struct {
	limit int64
	used  atomic.Int64 // of the buffers of all chunks that are not released
	pools [len(sizes)]sync.Pool
}

// ample reports whether a new exchange may begin to copy: at most nine tenths are used.
func (b *budget) ample() bool { return b.used.Load() <= b.limit-b.limit/10 }

// copy returns a chunk with the bytes of p, at most the longest buffer; nil when the budget has no room.
func (b *budget) copy(p []byte, at int64) *Chunk {
	class := 0
	for class < len(sizes)-1 && len(p) > sizes[class] {
		class++
	}
	if b.used.Add(int64(sizes[class])) > b.limit {
		b.used.Add(-int64(sizes[class]))
		return nil
	}
	c, _ := b.pools[class].Get().(*Chunk)
	if c == nil {
		c = &Chunk{budget: b, class: class, buffer: make([]byte, sizes[class])}
	}
	c.At, c.n = at, copy(c.buffer, p)
	c.alive.Store(true)
	return c
}

// Chunk is a copy of bytes of a body in a pooled buffer.
type Chunk struct {
	At     int64 // nanoseconds of Options.Now: when the bytes were read
	n      int
	buffer []byte
	class  int // of its size, in sizes
	budget *budget
	alive  atomic.Bool
}

// Bytes returns the bytes, which are valid until Release.
func (c *Chunk) Bytes() []byte { return c.buffer[:c.n] }

// Size returns the bytes of memory that the chunk takes until Release.
func (c *Chunk) Size() int { return len(c.buffer) }

// Release overwrites the bytes and gives the buffer back. Its owner calls it once.
func (c *Chunk) Release() {
	if c.alive.Swap(false) {
		clear(c.buffer[:c.n])
		c.budget.used.Add(-int64(len(c.buffer)))
		c.budget.pools[c.class].Put(c)
	}
}

// abandon gives the bytes back to the budget and leaves the buffer to the garbage collector, for an owner that panicked
// and may still read it.
func (c *Chunk) abandon() {
	if c.alive.Swap(false) {
		c.budget.used.Add(-int64(len(c.buffer)))
	}
}
