package hfsource

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/agentx/agentx/hfsource/parquet"
)

// maxRow limits one row, in bytes. It is checked before the memory is allocated.
const maxRow = parquet.MaxRow

// maxWindow limits the window of a zstd file, in bytes: the default of `zstd --long`.
const maxWindow = 1 << 27

// readText yields the rows of a file of JSON.
func (r *fileReader) readText(raw io.Reader) error {
	sum := sha256.New()
	hashed := io.TeeReader(progressReader{r.ctx, raw, r.progress}, sum)
	line, damage := r.split(hashed)
	var stop yieldError
	if errors.As(damage, &stop) {
		return stop.error
	}
	if r.ctx.Err() != nil {
		return r.ctx.Err()
	}
	if err := r.readAll(hashed, io.Discard); err != nil {
		return err
	}
	unit := ""
	if r.Format.Lines {
		unit = "line"
	}
	return r.finish(sum, damage, max(0, line-1), unit)
}

// yieldError marks an error of the caller, as opposed to one of the file.
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
		return d, func() { _ = d.Close() }, nil // a reader has no data that Close could lose
	}
	return r, func() {}, nil
}

// readBuffers are what the reading of one file takes, for the next file: an input may have thousands of small ones.
type readBuffers struct{ packed, text *bufio.Reader }

var textBuffers = sync.Pool{New: func() any { return &readBuffers{bufio.NewReaderSize(nil, 64<<10), bufio.NewReaderSize(nil, 1<<20)} }}

// release gives the buffers back, without the file that they read.
func (b *readBuffers) release() {
	b.packed.Reset(nil)
	b.text.Reset(nil)
	textBuffers.Put(b)
}

// split yields the rows. It returns the line at which it stopped, 0 for a file that is one value, and what is wrong with
// that line. It does not read from raw after it has returned.
func (r *fileReader) split(raw io.Reader) (line int, err error) {
	buffers := textBuffers.Get().(*readBuffers)
	defer buffers.release()
	packed, text := buffers.packed, buffers.text
	packed.Reset(raw)
	if err := checkStart(packed, r.File); err != nil {
		return 0, err
	}
	unpacked, done, err := decompress(packed, r.Format.Compression)
	if err != nil {
		return 0, err
	}
	defer done()
	text.Reset(unpacked)
	if err := checkText(text, r.Path); err != nil {
		return 0, err
	}
	for first := r.Format.Lines; ; {
		if r.Format.Lines {
			line++
		}
		row := Row{File: r.Path, FileIndex: r.number, Line: line, buffers: r.buffers, reservation: r.memory.Reserve()}
		row.Data, err = readRow(text, r.buffers.get(), r.Format.Lines, row.reservation)
		row.own = int64(len(row.Data)) // without the newline, which Release gives back
		blank := r.Format.Lines && len(bytes.TrimSpace(row.Data)) == 0
		damage := damageOf(row.Data, err, r.Format.Lines)
		if damage == nil && err == nil && first && !blank {
			first = false
			if damage = checkFirst(row.Data, text); damage != nil {
				line = 0 // the error is about the whole file
			}
		}
		if damage != nil {
			row.Free()
			return line, damage
		}
		if blank {
			row.Free()
		} else if yieldErr := r.yield(row); yieldErr != nil {
			return line, yieldError{yieldErr}
		}
		if err == io.EOF {
			return line, nil
		}
	}
}

// damageOf returns what is wrong with a row that readRow returned with err.
func damageOf(data []byte, err error, lines bool) error {
	switch {
	case err == errLongRow && data[len(data)-1] == 0:
		return errZeros
	case err == io.EOF:
		return checkEnd(data, lines)
	}
	return err
}

// grow returns buf with room for n more bytes. A long buffer is enlarged once, to maxRow: memory that is not written to
// costs nothing, but every copy would.
func grow(buf []byte, n int) []byte {
	if n += len(buf); n <= cap(buf) {
		return buf
	}
	if n = max(n, 2*cap(buf)); n > 4*maxBuffer {
		n = maxRow
	}
	return append(make([]byte, 0, n), buf...)
}

// readRow appends the next line without its newline, or with lines unset all that is left, to buf. It grows the reservation
// before it reads. The last row comes with io.EOF.
func readRow(r *bufio.Reader, buf []byte, lines bool, reservation *Reservation) ([]byte, error) {
	for {
		var part []byte
		var err error
		if lines {
			part, err = r.ReadSlice('\n')
		} else {
			if part, err = r.Peek(1); err == nil {
				part, err = r.Peek(r.Buffered())
				_, _ = r.Discard(len(part)) // it is buffered
				if err == nil {
					err = bufio.ErrBufferFull
				}
			}
		}
		if len(buf)+len(part) > maxRow {
			return buf, errLongRow
		}
		if err := reservation.Grow(int64(len(part))); err != nil {
			return buf, err
		}
		buf = append(grow(buf, len(part)), part...)
		switch {
		case err == nil:
			return buf[:len(buf)-1], nil
		case err != bufio.ErrBufferFull:
			return buf, err
		}
	}
}
