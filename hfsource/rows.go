package hfsource

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"slices"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/agentx/agentx/hfsource/column"
	"github.com/agentx/agentx/hfsource/parquet"
	"github.com/agentx/agentx/internal/foreign"
)

// Row is one row of a file: a JSON value, or columns.
type Row struct {
	File      string
	FileIndex int         // of the file in Snapshot.Files
	Line      int         // line, or row of a Parquet file, from 1; 0 where the file is one value
	Data      []byte      // JSON; valid until Free
	Columns   *column.Row // of a Parquet file, in place of Data; valid until Free
	Err       error       // *UnreadableError: the rest of the file cannot be read, and there is no data
	Unended   bool        // of LogRows: the last line of a file, which has no line end
	Marked    bool        // of LogRows: a byte order mark stood before the row, and is left out

	slab        *slab // that has Data
	free        func()
	reservation *Reservation
	own         int64 // bytes of the reservation for the row itself
	taken       bool  // the caller releases the reservation
}

// Location returns FILE, or FILE:LINE, for messages.
func (r *Row) Location() string {
	if r.Line == 0 {
		return r.File
	}
	return fmt.Sprintf("%s:%d", r.File, r.Line)
}

// Free releases the memory of the row.
func (r *Row) Free() {
	if r.slab != nil {
		r.slab.release()
		r.slab, r.Data = nil, nil
	}
	if r.free != nil {
		r.free()
		r.free, r.Columns = nil, nil
	}
	if r.reservation.shrink(r.own); !r.taken {
		r.reservation.Release()
	}
	r.own = 0
}

// TakeReservation returns the reservation of the row, for what the caller builds from it. The caller releases it.
func (r *Row) TakeReservation() *Reservation {
	r.taken = true
	return r.reservation
}

// maxSlab is the largest slab that is used again, in bytes.
const maxSlab = 16 << 20

// slab is memory for rows of text, which lie in it as they are read.
type slab struct {
	room   []byte
	held   int // rows in it that are not freed; one more while rows are read into it
	memory *rowMemory
}

// rowMemory are the slabs whose rows were freed, for the next rows. A sync.Pool would give them up at every collection, and the next rows
// would pay for new pages.
type rowMemory struct {
	mu   sync.Mutex
	free []*slab
}

// get returns a slab with room for n bytes, the last that was freed or a new one, into which rows are read.
func (m *rowMemory) get(n int) *slab {
	m.mu.Lock()
	defer m.mu.Unlock()
	for k := len(m.free) - 1; k >= 0; k-- {
		if s := m.free[k]; len(s.room) >= n {
			m.free = slices.Delete(m.free, k, k+1)
			s.held = 1
			return s
		}
	}
	if n *= 2; n > 4*maxSlab {
		n = maxRow + readStep // memory that is not written to costs nothing, but every copy would
	}
	return &slab{make([]byte, n), 1, m}
}

// hold keeps the slab for one more row.
func (s *slab) hold() {
	s.memory.mu.Lock()
	defer s.memory.mu.Unlock()
	s.held++
}

// release ends one hold.
func (s *slab) release() {
	s.memory.mu.Lock()
	defer s.memory.mu.Unlock()
	if s.held--; s.held == 0 && len(s.room) <= maxSlab {
		s.memory.free = append(s.memory.free, s)
	}
}

// isFreed reports whether all rows of a slab are freed into which rows are read.
func (s *slab) isFreed() bool {
	s.memory.mu.Lock()
	defer s.memory.mu.Unlock()
	return s.held == 1
}

// Rows calls yield for every row of every file, in order. yield owns the row and calls its Free. Blank lines are skipped.
// columns are the columns to read from Parquet files, as paths of package column; Row.Columns.Wanted is in their order.
// progress is called with the bytes of the files that were read since the last call; it may be nil.
//
// For a damaged file, Rows yields the rows before the damage and then one with Err, and continues with the next file. If a
// file cannot be opened or read, or differs from its digest, Rows returns an error, and the caller must not use its rows.
//
// Rows reserves the memory of every row in s.Memory, and waits while rows in flight take all of it.
func (s *Snapshot) Rows(ctx context.Context, columns []string, progress func(int64), yield func(Row) error) error {
	return s.rows(ctx, columns, progress, yield, false)
}

// LogRows is Rows for logs, which other programs write while they run: a last line that is cut off is a row like another, and so is one
// behind a byte order mark.
func (s *Snapshot) LogRows(ctx context.Context, progress func(int64), yield func(Row) error) error {
	return s.rows(ctx, nil, progress, yield, true)
}

func (s *Snapshot) rows(ctx context.Context, columns []string, progress func(int64), yield func(Row) error, logs bool) error {
	memory := s.Memory
	if memory == nil {
		inner, cancel := context.WithCancel(ctx)
		defer cancel()
		memory = NewMemoryBudget(inner, s.Bytes())
	}
	if progress == nil {
		progress = func(int64) {}
	}
	slabs := &rowMemory{}
	for k := range s.Files {
		r := &fileReader{File: &s.Files[k], ctx: ctx, number: k, columns: columns, memory: memory, slabs: slabs, progress: progress, yield: yield, logs: logs || s.Files[k].Lenient}
		if err := r.read(); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// errEnough stops the reading of a file after its first rows.
var errEnough = errors.New("these rows are enough")

// FirstRow returns the first row of file k of a snapshot, as it stands: a JSON value. It returns nil for a Parquet file, and
// for one that is empty or damaged before its first row, which Rows reports.
func (s *Snapshot) FirstRow(ctx context.Context, k int) (data []byte, err error) {
	if s.Files[k].Format.Parquet {
		return nil, nil
	}
	err = s.someRows(ctx, k, func(row Row) error {
		data = bytes.Clone(row.Data)
		return errEnough
	})
	return data, err
}

// Beginning returns the first bytes of file k, unpacked, at most n, without a byte order mark; nil of a Parquet file.
func (s *Snapshot) Beginning(k, n int) ([]byte, error) {
	if s.Files[k].Format.Parquet {
		return nil, nil
	}
	head, err := s.Files[k].head(n)
	return bytes.TrimPrefix(head, []byte(byteOrderMark)), err
}

// BeginningOf returns the first bytes of a file on disk, unpacked, at most n, without a byte order mark; nil of one that cannot be read.
// Of texts are the files that hold no JSON.
func BeginningOf(path string, n int, texts ...TextFormat) []byte {
	f := File{Path: path, texts: texts, found: &findings{}, open: func() (io.ReadCloser, error) { return os.Open(path) }}
	head, _ := f.head(n)
	return bytes.TrimPrefix(head, []byte(byteOrderMark))
}

// HasSeveralRows reports whether file k of a snapshot may have more than one row: any Parquet file may, and so may a file that
// cannot be read behind its first row.
func (s *Snapshot) HasSeveralRows(ctx context.Context, k int) (bool, error) {
	if f := s.Files[k].Format; f.Parquet || !f.Lines {
		return f.Parquet, nil
	}
	rows := 0
	err := s.someRows(ctx, k, func(Row) error {
		if rows++; rows == 2 {
			return errEnough
		}
		return nil
	})
	return rows > 1, err
}

// someRows calls yield for the first rows of a file of text, until it returns errEnough. It frees them.
func (s *Snapshot) someRows(ctx context.Context, k int, yield func(Row) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := &fileReader{File: &s.Files[k], ctx: ctx, number: k, memory: NewMemoryBudget(ctx, s.Files[k].Size), progress: func(int64) {}, logs: true, some: true}
	r.yield = func(row Row) error {
		defer row.Free()
		return yield(row)
	}
	err := r.read()
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// fileReader yields the rows of one file.
type fileReader struct {
	*File
	ctx      context.Context
	number   int
	columns  []string
	memory   *MemoryBudget
	slabs    *rowMemory // nil: those of the buffers
	progress func(int64)
	yield    func(Row) error
	logs     bool // see LogRows
	some     bool // its first rows alone
}

// read yields the rows of the file.
func (r *fileReader) read() error {
	raw, err := r.open()
	if err != nil {
		return fmt.Errorf("input %s: %w", r.Path, err)
	}
	defer raw.Close()
	if r.Format.Parquet {
		return r.readParquet(raw)
	}
	return r.readText(raw)
}

// finish compares the digest of a file that was read, and then yields its damage, if any, as the row after the last one. For
// a file that has changed, it reports the change and not the damage.
func (r *fileReader) finish(sum hash.Hash, damage error, last int, unit string) error {
	if !r.unchanged(sum) {
		return r.changedError()
	}
	if damage == nil {
		return nil
	}
	return r.yield(r.unreadable(r.number, last, unit, damage))
}

// unreadable returns the row about a file that cannot be read beyond the row last; 0 is none.
func (f *File) unreadable(number, last int, unit string, err error) Row {
	if errors.Is(err, zstd.ErrUnknownDictionary) {
		err = errDictionary
	}
	e := &UnreadableError{File: f.Path, Unit: unit, Err: err, fromHub: f.FromHub()}
	if last > 0 {
		e.From = last + 1
	}
	return Row{File: f.Path, FileIndex: number, Line: e.From, Err: e}
}

// readAll reads the rest of a file, for its digest.
func (r *fileReader) readAll(from io.Reader, to io.Writer) error {
	if _, err := io.Copy(to, from); err != nil {
		return fmt.Errorf("input %s: %w", r.Path, err)
	}
	return nil
}

// readParquet yields the rows of a Parquet file, which it reads out of order. Afterwards it hashes the file through the same
// descriptor, to notice a change during the read.
func (r *fileReader) readParquet(raw io.Reader) error {
	at, ok := raw.(io.ReaderAt)
	if !ok {
		return fmt.Errorf("input %s: Parquet is read out of order, which this input does not allow: give the path of a file", r.Path)
	}
	reported := int64(0)
	progress := func(n int64) {
		if n = min(n, r.Size-reported); n > 0 {
			reported += n
			r.progress(n)
		}
	}
	last, damage := r.parquetRows(at, progress)
	var stop *parquet.YieldError
	if errors.As(damage, &stop) {
		return stop.Err
	}
	if r.ctx.Err() != nil {
		return r.ctx.Err()
	}
	sum := r.newSum()
	if err := r.readAll(progressReader{r.ctx, io.NewSectionReader(at, 0, 1<<62), func(int64) {}}, sum); err != nil {
		return err
	}
	progress(r.Size)
	return r.finish(sum, damage, last, "row")
}

// parquetRows yields the rows. It returns how many it yielded, and what is wrong with the file.
func (r *fileReader) parquetRows(at io.ReaderAt, progress func(int64)) (last int, damage error) {
	first := make([]byte, min(foreign.HeadBytes, r.Size))
	if _, err := at.ReadAt(first, 0); err == nil && len(first) == 0 {
		return 0, errEmpty
	} else if f := foreign.OfBytes(first, r.Path); f != nil {
		return 0, f
	}
	p, err := parquet.Open(at, r.Size)
	if err != nil {
		return 0, err
	}
	next := Row{File: r.Path, FileIndex: r.number, reservation: r.memory.Reserve()}
	defer func() { next.reservation.Release() }()
	p.Progress = progress
	p.Reserve = func(n int64) error {
		next.own += n
		return next.reservation.Grow(n)
	}
	_, err = p.Rows(r.ctx, r.columns, func(c *column.Row, free func()) error {
		next.Line++
		row := next
		row.Columns, row.free = c, free
		next.reservation, next.own = r.memory.Reserve(), 0
		return r.yield(row)
	})
	r.found.unchecked.Store(p.LacksChecksums())
	return next.Line, err
}
