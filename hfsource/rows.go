package hfsource

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/agentx/agentx/hfsource/column"
	"github.com/agentx/agentx/hfsource/parquet"
)

// maxRow bounds one row, in bytes, be it text or columns: a larger one is an error before it is memory.
const maxRow = parquet.MaxRow

// maxWindow bounds the memory that a zstd file may ask for, in bytes: what `zstd --long` writes by default.
const maxWindow = 1 << 27

// Row is one value and where it stands: the bytes of a JSON value, or columns.
type Row struct {
	File    string
	Number  int         // of the file in the snapshot, from 0
	Line    int         // or number of the row, from 1; 0 where the file is one value
	Data    []byte      // JSON; valid until Free
	Columns *column.Row // of a row of a Parquet file, which has no Data; valid until Free
	Err     error       // an *UnreadableError: the file cannot be read from here on; there is no data
	buf     *[]byte
	free    func()
	share   *Reservation
	own     int64 // bytes of the share that are the row itself
	kept    bool  // the share is closed by another
}

// Location names the row for an error: the file, and the line or row if it has such.
func (r *Row) Location() string {
	if r.Line == 0 {
		return r.File
	}
	return fmt.Sprintf("%s:%d", r.File, r.Line)
}

// Free gives the row's memory back.
func (r *Row) Free() {
	if r.buf != nil {
		if *r.buf = r.Data[:0]; cap(r.Data) <= maxBuffer {
			buffers.Put(r.buf)
		}
		r.buf, r.Data = nil, nil
	}
	if r.free != nil {
		r.free()
		r.free, r.Columns = nil, nil
	}
	if r.share.Shrink(r.own); !r.kept {
		r.share.Release()
	}
	r.own = 0
}

// TakeReservation returns the share of the row, for what is made of it. The caller closes it, when nothing of that is left.
func (r *Row) TakeReservation() *Reservation {
	r.kept = true
	return r.share
}

// maxBuffer is the longest buffer that is kept for another row, in bytes.
const maxBuffer = 16 << 20

var buffers = sync.Pool{New: func() any { return new([]byte) }}

// UnreadableError says that a file cannot be read, or no further than to some row: it is damaged, cut off, or in a form
// that is not read. How many rows it would have had is not known. It is a pure function of the file's bytes and name.
type UnreadableError struct {
	File string
	From int    // the first row or line that cannot be read; 0: there was none before it
	Unit string // "row" or "line"; "" where the file is one value
	Err  error

	published bool // the file is as the hub has it
}

func (e *UnreadableError) Error() string {
	if e.From == 0 {
		return fmt.Sprintf("%s: it cannot be read: %v", e.File, e.Err)
	}
	return fmt.Sprintf("%s: from %s %d on it cannot be read: %v", e.File, e.Unit, e.From, e.Err)
}

func (e *UnreadableError) Unwrap() error { return e.Err }

// Hint says what to do about it.
func (e *UnreadableError) Hint() string {
	var form *parquet.UnsupportedError
	var other *mistaken
	switch {
	case errors.As(e.Err, &form):
		return form.Hint
	case errors.As(e.Err, &other) && e.published:
		return "agentx fetch with --dest DIR, and there " + other.try(e.File)
	case errors.As(e.Err, &other):
		return other.try(e.File)
	case errors.Is(e.Err, errLongRow) && e.Unit == "":
		return "write it as JSON lines, a trace a line"
	case errors.Is(e.Err, errLongRow):
		return "look for a newline that is missing: a row has one JSON value"
	case errors.Is(e.Err, zstd.ErrWindowSizeExceeded), errors.Is(e.Err, zstd.ErrDecoderSizeExceeded):
		return "pack the file again with zstd --long=27 or less"
	case e.published:
		return "another revision or file of the dataset: this one lies on the hub as it is"
	}
	if e.From > 0 && (errors.Is(e.Err, errCut) || errors.Is(e.Err, errZeros)) {
		return fmt.Sprintf("fetch or copy the file again; head -n %d is what is whole of it", e.From-1)
	}
	return "fetch or copy the file again: it is damaged or cut off, or not what its name says"
}

// unreadable is the row about a file that cannot be read behind the row or line before, which is 0 where there was none.
func (f *File) unreadable(number, before int, unit string, err error) Row {
	e := &UnreadableError{File: f.Path, Unit: unit, Err: err, published: f.FromHub()}
	if before > 0 {
		e.From = before + 1
	}
	return Row{File: f.Path, Number: number, Line: e.From, Err: e}
}

// ErrChanged is wrapped by the error about a file that is no longer what was resolved: rows that it gave are not those
// of the digest.
var ErrChanged = errors.New("the file has changed while it was being read: convert it again")

// Rows calls yield for every row of every file, in order; yield owns the row and frees it. Blank lines are passed over.
// columns are those that rows of Parquet files are to have, as paths of package column: Row.Columns.Wanted is in their
// order. progress is called with bytes of the files as they lie; it may be nil.
//
// A file whose bytes are not what its form wants gives, behind the rows before the damage, one with Err, and the next file
// follows. A file that the system does not let us read, or that has changed since it was resolved, ends it all with an
// error: what it gave is not to be used.
//
// Every row has a share of s.Memory, or of one that Rows makes, and Rows waits where rows in flight take all of it.
func (s *Snapshot) Rows(ctx context.Context, columns []string, progress func(int64), yield func(Row) error) error {
	memory := s.Memory
	if memory == nil {
		inner, cancel := context.WithCancel(ctx)
		defer cancel()
		memory = NewMemoryBudget(inner, s.Bytes())
	}
	for k := range s.Files {
		f := &s.Files[k]
		var err error
		if f.Format.Parquet {
			err = f.parquetRows(ctx, k, columns, memory, progress, yield)
		} else {
			err = f.rows(ctx, k, memory, progress, yield)
		}
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (f *File) rows(ctx context.Context, number int, memory *MemoryBudget, progress func(int64), yield func(Row) error) error {
	raw, err := f.open()
	if err != nil {
		return fmt.Errorf("input %s: %w", f.Path, err)
	}
	defer raw.Close()
	sum := sha256.New()
	counted := io.TeeReader(meter{ctx, raw, progress}, sum)
	line, damage := split(f, number, counted, memory, yield)
	var stop yieldError
	if errors.As(damage, &stop) {
		return stop.error
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if _, err := io.Copy(io.Discard, counted); err != nil {
		return fmt.Errorf("input %s: %w", f.Path, err)
	}
	if hex.EncodeToString(sum.Sum(nil)) != f.SHA256 { // before damage: what changed under the reader is not damaged
		return f.changedError()
	}
	if damage != nil {
		unit := ""
		if f.Format.Lines {
			unit = "line"
		}
		return yield(f.unreadable(number, max(0, line-1), unit, damage))
	}
	return nil
}

// yieldError is an error of the caller, to be told from one of the file.
type yieldError struct{ error }

func decompress(r io.Reader, compression string) (text io.Reader, done func(), err error) {
	switch compression {
	case "zst":
		d, err := zstd.NewReader(r, zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, nil, err
		}
		return d, d.Close, nil
	case "gz":
		d, err := gzip.NewReader(r)
		if err != nil {
			return nil, nil, err
		}
		return d, func() { _ = d.Close() }, nil // it holds nothing that could fail
	}
	return r, func() {}, nil
}

// split yields the rows of one file. It returns the line at which it stopped, 0 for a text that is one value. Nothing
// reads from raw afterwards.
func split(f *File, number int, raw io.Reader, memory *MemoryBudget, yield func(Row) error) (line int, err error) {
	packed := bufio.NewReaderSize(raw, 64<<10)
	if err := checkStart(packed, f); err != nil {
		return 0, err
	}
	text, done, err := decompress(packed, f.Format.Compression)
	if err != nil {
		return 0, err
	}
	defer done()
	r := bufio.NewReaderSize(text, 1<<20)
	if err := checkText(r, f.Path); err != nil {
		return 0, err
	}
	first := f.Format.Lines
	for {
		if f.Format.Lines {
			line++
		}
		row := Row{File: f.Path, Number: number, Line: line, buf: buffers.Get().(*[]byte), share: memory.Reserve()}
		row.Data, err = readRow(r, (*row.buf)[:0], f.Format.Lines, row.share)
		row.own = int64(len(row.Data)) // without the newline, which Close gives back
		blank := f.Format.Lines && len(bytes.TrimSpace(row.Data)) == 0
		var bad error
		switch {
		case err == errLongRow && row.Data[len(row.Data)-1] == 0:
			bad = errZeros
		case err != nil && err != io.EOF:
			bad = err
		case err == io.EOF:
			bad = checkEnd(row.Data, f.Format.Lines)
		case first && !blank:
			first = false
			if bad = checkFirst(row.Data, r); bad != nil {
				row.Free()
				return 0, bad
			}
		}
		if bad != nil {
			row.Free()
			return line, bad
		}
		if blank {
			row.Free()
		} else if yieldErr := yield(row); yieldErr != nil {
			return line, yieldError{yieldErr}
		}
		if err == io.EOF {
			return line, nil
		}
	}
}

var errLongRow = fmt.Errorf("a row of more than %d bytes", maxRow)

// enlarged returns buf with room for n bytes more. A long one is enlarged once, to all that a row may have: what is not
// written to takes no memory, and what was copied from would.
func enlarged(buf []byte, n int) []byte {
	if n += len(buf); n <= cap(buf) {
		return buf
	}
	if n = max(n, 2*cap(buf)); n > 4*maxBuffer {
		n = maxRow
	}
	return append(make([]byte, 0, n), buf...)
}

// readRow appends the next line, without its newline, or all that is left, to buf, which takes its bytes of a share. The
// last row comes with io.EOF.
func readRow(r *bufio.Reader, buf []byte, lines bool, share *Reservation) ([]byte, error) {
	for {
		var part []byte
		var err error
		if lines {
			part, err = r.ReadSlice('\n')
		} else {
			if part, err = r.Peek(1); err == nil {
				part, err = r.Peek(r.Buffered())
				_, _ = r.Discard(len(part)) // what is buffered can be discarded
				if err == nil {
					err = bufio.ErrBufferFull
				}
			}
		}
		if len(buf)+len(part) > maxRow {
			return buf, errLongRow
		}
		if err := share.Grow(int64(len(part))); err != nil {
			return buf, err
		}
		buf = append(enlarged(buf, len(part)), part...)
		switch {
		case err == nil:
			return buf[:len(buf)-1], nil
		case err != bufio.ErrBufferFull:
			return buf, err
		}
	}
}
