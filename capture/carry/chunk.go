package carry

import (
	"sync"
	"sync/atomic"
)

// sizes are the lengths of pooled buffers: an event of a stream, a packet, a read.
var sizes = [...]int{512, 4 << 10, 32 << 10}

// Budget bounds the bytes of all copies that are alive.
type Budget struct {
	limit int64
	used  atomic.Int64
	pools [len(sizes)]sync.Pool
}

// NewBudget returns a budget of limit bytes.
func NewBudget(limit int64) *Budget { return &Budget{limit: limit} }

// Used returns the bytes of the buffers of all chunks that are not released.
func (b *Budget) Used() int64 { return b.used.Load() }

// ample reports whether a new exchange may begin to copy: at most nine tenths are used.
func (b *Budget) ample() bool { return b.used.Load() <= b.limit-b.limit/10 }

// copy returns a chunk with the bytes of p, at most the longest buffer; nil when the budget has no room.
func (b *Budget) copy(p []byte, at int64) *Chunk {
	size := 0
	for size < len(sizes)-1 && len(p) > sizes[size] {
		size++
	}
	if b.used.Add(int64(sizes[size])) > b.limit {
		b.used.Add(-int64(sizes[size]))
		return nil
	}
	c, _ := b.pools[size].Get().(*Chunk)
	if c == nil {
		c = &Chunk{budget: b, size: size, buffer: make([]byte, sizes[size])}
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
	size   int // its place in sizes
	budget *Budget
	alive  atomic.Bool
}

// Bytes returns the bytes, which are valid until Release.
func (c *Chunk) Bytes() []byte { return c.buffer[:c.n] }

// Release overwrites the bytes and gives the buffer back. Its owner calls it once.
func (c *Chunk) Release() {
	if c.alive.Swap(false) {
		clear(c.buffer[:c.n])
		c.budget.used.Add(-int64(len(c.buffer)))
		c.budget.pools[c.size].Put(c)
	}
}

// abandon gives the bytes back to the budget and leaves the buffer to the garbage collector, for an owner that panicked
// and may still read it.
func (c *Chunk) abandon() {
	if c.alive.Swap(false) {
		c.budget.used.Add(-int64(len(c.buffer)))
	}
}
