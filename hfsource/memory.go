package hfsource

import (
	"context"
	"fmt"
	"sync"
)

// Limits of memory, in bytes. A file of some kilobytes can hold rows of gigabytes.
const (
	maxRowMemory   = 512 << 20 // for one row and what is built from it
	maxOtherMemory = 256 << 20 // for all rows in flight except the oldest

	// Data that is retained after its row may take retainedBase, and retainedPerByte for each byte of input.
	retainedBase    = 512 << 20
	retainedPerByte = 64
)

// MemoryBudget limits the memory of the rows in flight, over all workers. Every row has a Reservation, in the order of the
// rows. A reservation that grows waits until there is room. The oldest one never waits, so that it always completes. The
// limit of one row does not depend on other rows.
type MemoryBudget struct {
	ctx               context.Context
	maxRow, maxOthers int64 // for one reservation; for all but the oldest
	maxRetained       int64

	mu       sync.Mutex
	freed    *sync.Cond
	used     int64          // by all reservations
	open     []*Reservation // in order; the first is not released
	retained int64
}

// NewMemoryBudget returns the budget for the rows of an input of the given size, in bytes. Waits end with the context.
func NewMemoryBudget(ctx context.Context, input int64) *MemoryBudget {
	m := &MemoryBudget{ctx: ctx, maxRow: maxRowMemory, maxOthers: maxOtherMemory, maxRetained: retainedBase + retainedPerByte*min(input, 1<<50)}
	m.freed = sync.NewCond(&m.mu)
	context.AfterFunc(ctx, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.freed.Broadcast()
	})
	return m
}

// Retain counts n bytes that stay in memory after their row was released, below 0 for those that no longer stay, and returns how many do.
// Its error is a *MemoryLimitError.
func (m *MemoryBudget) Retain(n int64) (retained int64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.retained += n; m.retained > m.maxRetained {
		return m.retained, &MemoryLimitError{fmt.Sprintf("the structure of all traces takes more than %d MiB of memory, which is %d MiB for any input and %d times this one",
			m.maxRetained>>20, retainedBase>>20, retainedPerByte), "convert fewer files at a time; a small file that needs this much is damaged, or an attack on memory"}
	}
	return m.retained, nil
}

// Reservation is the memory of one row and of what is built from it. All methods of a nil Reservation do nothing.
type Reservation struct {
	budget   *MemoryBudget
	size     int64 // bytes
	released bool
}

// Reserve opens the reservation of the next row, with no bytes.
func (m *MemoryBudget) Reserve() *Reservation {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := &Reservation{budget: m}
	m.open = append(m.open, r)
	return r
}

// Grow adds n bytes, and waits until there is room for them. It fails with a *MemoryLimitError if the row takes too much,
// or with the error of the context.
func (r *Reservation) Grow(n int64) error {
	if r == nil {
		return nil
	}
	m := r.budget
	m.mu.Lock()
	defer m.mu.Unlock()
	if r.size+n > m.maxRow {
		return &MemoryLimitError{fmt.Sprintf("the row takes more than %d MiB of memory, and all rows in flight have %d MiB together", m.maxRow>>20, (m.maxRow+m.maxOthers)>>20),
			"split the trace into several of fewer requests"}
	}
	for m.open[0] != r && m.used+n > m.maxOthers {
		if m.ctx.Err() != nil {
			return m.ctx.Err()
		}
		m.freed.Wait()
	}
	r.size += n
	m.used += n
	return nil
}

// shrink gives n bytes back.
func (r *Reservation) shrink(n int64) {
	if r == nil {
		return
	}
	r.budget.mu.Lock()
	defer r.budget.mu.Unlock()
	r.size -= n
	r.budget.used -= n
	r.budget.freed.Broadcast()
}

// Size returns the bytes that are reserved.
func (r *Reservation) Size() int64 {
	if r == nil {
		return 0
	}
	r.budget.mu.Lock()
	defer r.budget.mu.Unlock()
	return r.size
}

// Release gives all bytes back, and makes the next row the oldest. Further calls have no effect.
func (r *Reservation) Release() {
	if r == nil {
		return
	}
	m := r.budget
	m.mu.Lock()
	defer m.mu.Unlock()
	m.used -= r.size
	r.size, r.released = 0, true
	for len(m.open) > 0 && m.open[0].released {
		m.open = m.open[1:]
	}
	m.freed.Broadcast()
}
