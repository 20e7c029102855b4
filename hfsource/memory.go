package hfsource

import (
	"context"
	"fmt"
	"sync"
)

// Bounds of memory, in bytes. A file of some kilobytes can hold rows of gigabytes.
const (
	rowMemory  = 512 << 20 // of one row and what is made of it
	sideMemory = 256 << 20 // of all rows in flight but the oldest

	// What stays of rows that are done may take this, and some bytes for each that the input has.
	keptMemory  = 512 << 20
	keptPerByte = 64
)

// MemoryBudget is what rows in flight take, all workers together. Every row has a share, in the order of the rows. A share waits
// until there is room for more. The oldest never waits, so there is always one that ends, and what a row may take at most
// depends on nothing but the row.
type MemoryBudget struct {
	ctx             context.Context
	row, side, stay int64 // bounds: of one share, of all but the oldest, of what is kept
	mu              sync.Mutex
	freed           *sync.Cond
	used            int64          // by all shares
	open            []*Reservation // in order; the first of them is not closed
	kept            int64
}

// NewMemoryBudget returns the memory of the rows of some bytes of input. Who waits for it stops with its context.
func NewMemoryBudget(ctx context.Context, input int64) *MemoryBudget {
	m := &MemoryBudget{ctx: ctx, row: rowMemory, side: sideMemory, stay: keptMemory + keptPerByte*min(input, 1<<50)}
	m.freed = sync.NewCond(&m.mu)
	context.AfterFunc(ctx, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.freed.Broadcast()
	})
	return m
}

// MemoryLimitError says that a row, or what stays of all, takes more memory than it may.
type MemoryLimitError struct{ text, Hint string }

func (e *MemoryLimitError) Error() string { return e.text }

// Retain counts bytes that stay for good.
func (m *MemoryBudget) Retain(n int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.kept += n; m.kept > m.stay {
		return &MemoryLimitError{fmt.Sprintf("the structure of all traces takes more than %d MiB of memory, which is %d for any input and %d times this one",
			m.stay>>20, keptMemory>>20, keptPerByte), "convert fewer files at a time; a small file that takes so much is damaged, or an attack on memory"}
	}
	return nil
}

// Reservation is what one row and what is made of it take. The nil Reservation takes nothing.
type Reservation struct {
	of     *MemoryBudget
	taken  int64
	closed bool
}

// Reserve opens the share of the next row.
func (m *MemoryBudget) Reserve() *Reservation {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := &Reservation{of: m}
	m.open = append(m.open, s)
	return s
}

// Grow takes n bytes more, and waits for them. It fails where the row takes more than it may, or the context is done.
func (s *Reservation) Grow(n int64) error {
	if s == nil {
		return nil
	}
	m := s.of
	m.mu.Lock()
	defer m.mu.Unlock()
	if s.taken+n > m.row {
		return &MemoryLimitError{fmt.Sprintf("the row takes more than %d MiB of memory, and all rows in flight have %d MiB together", m.row>>20, (m.row+m.side)>>20),
			"split the trace into several of fewer requests"}
	}
	for m.open[0] != s && m.used+n > m.side {
		if m.ctx.Err() != nil {
			return m.ctx.Err()
		}
		m.freed.Wait()
	}
	s.taken += n
	m.used += n
	return nil
}

// Shrink gives n bytes back.
func (s *Reservation) Shrink(n int64) {
	if s == nil {
		return
	}
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.taken -= n
	s.of.used -= n
	s.of.freed.Broadcast()
}

// Size returns how many bytes are taken.
func (s *Reservation) Size() int64 {
	if s == nil {
		return 0
	}
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	return s.taken
}

// Release gives all of it back, once.
func (s *Reservation) Release() {
	if s == nil {
		return
	}
	m := s.of
	m.mu.Lock()
	defer m.mu.Unlock()
	m.used -= s.taken
	s.taken, s.closed = 0, true
	for len(m.open) > 0 && m.open[0].closed {
		m.open = m.open[1:]
	}
	m.freed.Broadcast()
}
