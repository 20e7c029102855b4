package hfsource

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// narrow returns a budget of ten bytes for a row, and five for all rows but the oldest.
func narrow(ctx context.Context) *MemoryBudget {
	m := NewMemoryBudget(ctx, 0)
	m.maxRow, m.maxOthers = 10, 5
	return m
}

// The oldest reservation never waits. Others wait until there is room, or the context is done.
func TestReservations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		m := narrow(ctx)
		a, b, c := m.Reserve(), m.Reserve(), m.Reserve()
		require.NoError(t, b.Grow(4))
		require.NoError(t, a.Grow(10))
		done := make(chan error, 2)
		go func() { done <- b.Grow(3) }()
		synctest.Wait()
		require.Empty(t, done)
		a.Release() // b is the oldest now
		synctest.Wait()
		require.NoError(t, <-done)
		require.ErrorContains(t, b.Grow(4), "the row takes more than 0 MiB of memory, and all rows in flight have 0 MiB together")
		go func() { done <- c.Grow(1) }()
		synctest.Wait()
		require.Empty(t, done)
		b.shrink(3)
		synctest.Wait()
		require.NoError(t, <-done)
		go func() { done <- c.Grow(5) }()
		synctest.Wait()
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
	})
}

// Workers that grow their reservations step by step all complete, and never exceed the limits together.
func TestReservationsNeverDeadlock(t *testing.T) {
	for seed := range uint64(50) {
		synctest.Test(t, func(t *testing.T) {
			m := narrow(t.Context())
			random := rand.New(rand.NewPCG(seed, 1))
			queue := make(chan func(), 4)
			var workers sync.WaitGroup
			for range 4 {
				workers.Go(func() {
					for work := range queue {
						work()
					}
				})
			}
			for range 100 {
				s, amounts := m.Reserve(), random.Perm(5) // 10 in all
				assert.NoError(t, s.Grow(int64(amounts[0])))
				queue <- func() {
					for _, n := range amounts[1:] {
						assert.NoError(t, s.Grow(int64(n)))
						m.mu.Lock()
						assert.LessOrEqual(t, m.used, m.maxRow+m.maxOthers)
						m.mu.Unlock()
					}
					s.Release()
				}
			}
			close(queue)
			workers.Wait()
			require.Zero(t, m.used)
			require.Empty(t, m.open)
		})
	}
}

func TestRetainedMemoryLimit(t *testing.T) {
	m := NewMemoryBudget(t.Context(), 1<<20)
	retain := func(n int64) error {
		_, err := m.Retain(n)
		return err
	}
	require.NoError(t, retain(576<<20))
	require.EqualError(t, retain(1), "the structure of all traces takes more than 576 MiB of memory, which is 512 MiB for any input and 64 times this one")
}

// Rows are read as far as the budget allows. A reservation that was taken outlives its row.
func TestRowsWaitForMemory(t *testing.T) {
	for name, c := range map[string]struct {
		data []byte
		side int64
	}{
		"in.jsonl":   {[]byte(strings.Repeat(`"`+strings.Repeat("x", 1000)+`"`+"\n", 10)), 3500},
		"in.parquet": {packed(t, 10), 90},
	} {
		s := resolve(t, Options{}, write(t, name, c.data))
		synctest.Test(t, func(t *testing.T) {
			s.Memory = NewMemoryBudget(t.Context(), 0)
			var rows []Row
			s.Memory.maxOthers = c.side
			go func() {
				assert.NoError(t, s.Rows(t.Context(), []string{"n", "list[]"}, nil, func(r Row) error {
					rows = append(rows, r)
					return nil
				}))
			}()
			synctest.Wait()
			first := len(rows)
			require.Less(t, first, 10, name)
			require.Positive(t, first, name)
			row := rows[0] // a copy: the list grows while others are freed
			kept := row.TakeReservation()
			row.Free()
			synctest.Wait()
			require.GreaterOrEqual(t, len(rows), first, name)
			require.NoError(t, kept.Grow(1<<20))
			kept.Release()
			for k := 1; k < len(rows); k++ {
				row = rows[k]
				row.Free()
				synctest.Wait()
			}
			require.Len(t, rows, 10, name)
			require.Zero(t, s.Memory.used, name)
		})
	}
}

// letters is a text of one row without an end.
type letters struct{}

func (letters) Read(p []byte) (int, error) {
	for k := range p {
		p[k] = 'x'
	}
	return len(p), nil
}

// A long row is not copied repeatedly.
func TestLongRowsAreBufferedOnce(t *testing.T) {
	r, copied := newRowReader(letters{}, &rowMemory{}, true), 0
	for r.to < 80<<20 {
		before, n := r.at, r.to
		if r.read(); r.at != before {
			copied += n
		}
	}
	require.Len(t, r.at.room, maxRow+readStep)
	require.Less(t, copied, 128<<20)
}

// Slabs are used again once all rows in them are freed, and not before. Many rows lie in few.
func TestRowsShareSlabs(t *testing.T) {
	const rows, length, inFlight = 1000, 100_000, 4
	text := func(k int) string { return strings.Repeat(string(rune('a'+k%26)), length) }
	var all strings.Builder
	for k := range rows {
		all.WriteString(text(k) + "\n")
	}
	m := &rowMemory{}
	r := newRowReader(strings.NewReader(all.String()), m, true)
	seen, slabs, data := map[*slab]bool{}, []*slab(nil), [][]byte(nil)
	for k := range rows {
		row, err := r.next(nil)
		require.NoError(t, err)
		slabs, data = append(slabs, r.hold()), append(data, row)
		seen[slabs[k]] = true
		if first := k - inFlight; first >= 0 {
			require.True(t, text(first) == string(data[first]))
			slabs[first].release()
		}
	}
	r.close()
	for _, s := range slabs[rows-inFlight:] {
		s.release()
	}
	require.Less(t, len(seen), 2*inFlight)
	require.Len(t, m.free, len(seen))
}
