package hfsource

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/agentx/agentx/hfsource/parquet"
	"github.com/agentx/agentx/internal/foreign"
)

// maxRow limits one row, in bytes. It is checked before the memory is allocated.
const maxRow = parquet.MaxRow

// maxWindow limits the window of a zstd file, in bytes: the default of `zstd --long`.
const maxWindow = 1 << 27

// readText yields the rows of a file of JSON.
func (r *fileReader) readText(raw io.Reader) error {
	sum := r.newSum()
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

// unpack lets buffers.text read the text of the file from buffers.packed, and checks its beginning, which may be a byte order mark in logs.
// ahead: other goroutines unpack what comes next, for files that are read to their end. Call done at the end.
func (f *File) unpack(buffers *readBuffers, logs, ahead bool) (done func(), err error) {
	packed, done := buffers.packed, func() {}
	head, _ := packed.Peek(foreign.HeadBytes) // the next read returns the error again
	if len(head) == 0 && strings.EqualFold(filepath.Ext(f.Path), ".gz") {
		return nil, errEmpty
	}
	var text io.Reader = packed
	switch name, _ := compressionOf(head); name {
	case "zstd":
		if text, done, err = buffers.zstd(ahead); err != nil {
			return nil, err
		}
	case "gzip":
		d, err := gzip.NewReader(packed)
		if err != nil {
			return nil, err
		}
		d.Multistream(false)
		text = &members{d, packed, f}
	}
	buffers.text.Reset(text)
	if err := f.checkText(buffers.text, logs); err != nil {
		done()
		return nil, err
	}
	return done, nil
}

// head returns the first n bytes of the text of a file, nil for a damaged one, which Rows reports.
func (f *File) head(n int) ([]byte, error) {
	raw, err := f.open()
	if err != nil {
		return nil, fmt.Errorf("input %s: %w", f.Path, err)
	}
	defer raw.Close()
	buffers := textBuffers.Get().(*readBuffers)
	defer buffers.release()
	buffers.packed.Reset(raw)
	done, err := f.unpack(buffers, true, false)
	if err != nil {
		return nil, nil
	}
	defer done()
	head := make([]byte, n)
	k, _ := io.ReadFull(buffers.text, head)
	return head[:k], nil
}

// members reads the members of a gzip file. As gzip(1), it leaves out what stands behind the last one: zeros, or garbage, which
// it notes.
type members struct {
	*gzip.Reader
	packed *bufio.Reader
	file   *File
}

func (m *members) Read(p []byte) (n int, err error) {
	for n == 0 && err == nil && len(p) > 0 {
		if n, err = m.Reader.Read(p); err != io.EOF {
			continue
		}
		head, readErr := m.packed.Peek(2)
		if name, _ := compressionOf(head); name != "gzip" {
			return n, m.leaveOut(head, readErr)
		}
		if err = m.Reset(m.packed); err == nil {
			m.Multistream(false)
		}
	}
	return n, err
}

// leaveOut reads what stands behind the last member to its end.
func (m *members) leaveOut(head []byte, err error) error {
	for ; err == nil || len(head) > 0; head, err = m.packed.Peek(1) {
		if len(bytes.Trim(head, "\x00")) > 0 {
			m.file.found.garbage.Store(true)
		}
		_, _ = m.packed.Discard(len(head)) // it is buffered
	}
	return err
}

// readBuffers are what the reading of one file takes, for the next file: an input may have thousands of small ones.
type readBuffers struct {
	packed, text *bufio.Reader
	window       *zstd.Decoder // of files that are not read ahead; nil before the first
}

var textBuffers = sync.Pool{New: func() any {
	return &readBuffers{packed: bufio.NewReaderSize(nil, 64<<10), text: bufio.NewReaderSize(nil, 1<<20)}
}}

// zstd returns a reader of what packed has. Without ahead, its window of up to maxWindow bytes stays for the next file.
func (b *readBuffers) zstd(ahead bool) (text io.Reader, done func(), err error) {
	o := []zstd.DOption{zstd.WithDecoderMaxWindow(maxWindow)}
	if ahead {
		d, err := zstd.NewReader(b.packed, o...)
		if err != nil {
			return nil, nil, err
		}
		return d, d.Close, nil
	}
	if b.window == nil {
		if b.window, err = zstd.NewReader(nil, append(o, zstd.WithDecoderConcurrency(1))...); err != nil {
			return nil, nil, err
		}
	}
	return b.window, func() { _ = b.window.Reset(nil) }, b.window.Reset(b.packed)
}

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
	buffers.packed.Reset(raw)
	done, err := r.unpack(buffers, r.logs, !r.some)
	if err != nil {
		return 0, err
	}
	defer done()
	text, json := buffers.text, !r.isText(buffers.text)
	for {
		if r.Format.Lines {
			line++
		}
		row := Row{File: r.Path, FileIndex: r.number, Line: line, buffers: r.buffers, reservation: r.memory.Reserve()}
		row.Data, err = readRow(text, r.buffers.get(), r.Format.Lines, row.reservation)
		row.own = int64(len(row.Data)) // without the newline, which Release gives back
		if r.logs && line <= 1 {
			row.Data, row.Marked = bytes.CutPrefix(row.Data, []byte(byteOrderMark))
		}
		row.Unended = r.logs && r.Format.Lines && err == io.EOF
		blank := r.Format.Lines && len(bytes.TrimSpace(row.Data)) == 0
		damage := damageOf(row.Data, err, r.Format.Lines && json && !r.logs)
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
	case err == errLongRow && foreign.OfText(data) != nil:
		return foreign.OfText(data)
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

// contentError says what the content of a file is. Without it, the error would only say that a line is not JSON.
type contentError struct {
	what string
	hint func(path string) string // what the user can do
}

func (e *contentError) Error() string { return e.what }

const (
	parquetMagic  = "PAR1"
	byteOrderMark = "\xef\xbb\xbf"
)

// compressionOf returns the name of the compression of a file, "" for none. A file may be cut off within its first bytes.
func compressionOf(head []byte) (name, suffix string) {
	begins := func(magic string) bool {
		n := min(len(head), len(magic))
		return n > 1 && string(head[:n]) == magic[:n]
	}
	switch {
	case begins("\x1f\x8b"):
		return "gzip", ".gz"
	case begins("\x28\xb5\x2f\xfd"), len(head) >= 4 && head[0]&0xf0 == 0x50 && string(head[1:4]) == "\x2a\x4d\x18":
		return "zstd", ".zst" // the second is a frame that is skipped
	}
	return "", ""
}

// isText reports whether a text begins as one of a format that is not JSON.
func (f *File) isText(r *bufio.Reader) bool {
	head, _ := r.Peek(foreign.HeadBytes) // an error comes again with the next read
	first, _, _ := bytes.Cut(head, []byte("\n"))
	return slices.ContainsFunc(f.texts, func(t TextFormat) bool { return t.Is(first) })
}

// checkText checks the beginning of a text after decompression.
func (f *File) checkText(r *bufio.Reader, logs bool) error {
	if f.isText(r) {
		return nil
	}
	head, _ := r.Peek(foreign.HeadBytes)
	if f := foreign.OfBytes(head, f.Path); f != nil {
		return f
	}
	what, suffix := compressionOf(head)
	if bytes.HasPrefix(head, []byte(parquetMagic)) {
		what, suffix = "Parquet", ".parquet"
	}
	switch {
	case what != "":
		return &contentError{"what is compressed in it is " + what + ", not text", func(string) string {
			return "unpack it once, to a name that ends in " + suffix
		}}
	case bytes.HasPrefix(head, []byte(byteOrderMark)) && !logs:
		return &contentError{"it begins with a byte-order mark, which JSON does not have", func(string) string {
			return "remove its first three bytes: tail -c +4"
		}}
	}
	return nil
}

// checkEnd checks the last line of a text, which has no newline, or a text that is one value.
func checkEnd(data []byte, lines bool) error {
	switch {
	case len(data) > 0 && data[len(data)-1] == 0:
		return errZeros
	case lines && isValuePrefix(data):
		return errTruncated
	}
	return nil
}

// isValuePrefix reports whether a text is the beginning of a JSON value, without its end.
func isValuePrefix(text []byte) bool {
	var v ignored
	return errors.Is(json.NewDecoder(bytes.NewReader(text)).Decode(&v), io.ErrUnexpectedEOF)
}

// ignored is a JSON value that is not decoded.
type ignored struct{}

func (*ignored) UnmarshalJSON([]byte) error { return nil }
