package hfsource

import (
	"bufio"
	"bytes"
	"cmp"
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
	slabs        rowMemory     // of first rows
}

var textBuffers = sync.Pool{New: func() any {
	return &readBuffers{packed: bufio.NewReaderSize(nil, 64<<10), text: bufio.NewReaderSize(nil, readStep)}
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
	json, rows := !r.isText(buffers.text), newRowReader(buffers.text, cmp.Or(r.slabs, &buffers.slabs), r.Format.Lines)
	defer rows.close()
	for {
		if r.Format.Lines {
			line++
		}
		row := Row{File: r.Path, FileIndex: r.number, Line: line, reservation: r.memory.Reserve()}
		row.Data, err = rows.next(row.reservation)
		row.slab = rows.hold()
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

// damageOf returns what is wrong with a row that rowReader.next returned with err.
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

// readStep is how many bytes of a text are read at a time. The buffer before them is as large, and so never between them and long rows.
const readStep = 2 * maxFirst

// rowReader cuts a text into rows, in the slabs into which it reads the text.
type rowReader struct {
	text     io.Reader
	lines    bool // unset: the text is one row
	at       *slab
	from, to int   // the bytes of at that were read and are in no row yet
	err      error // of text, behind them
}

func newRowReader(text io.Reader, memory *rowMemory, lines bool) *rowReader {
	return &rowReader{text: text, lines: lines, at: memory.get(readStep)}
}

// close gives up the slab of the next row.
func (r *rowReader) close() { r.at.release() }

// hold returns the slab with the last row, which has it until its release.
func (r *rowReader) hold() *slab {
	r.at.hold()
	return r.at
}

// next returns the next row without its newline. It grows the reservation by the newline too, at most readStep bytes after they were read.
// The last row comes with io.EOF.
func (r *rowReader) next(reservation *Reservation) ([]byte, error) {
	for n := 0; ; {
		rest := r.at.room[r.from+n : r.to]
		newline := -1
		if r.lines {
			newline = bytes.IndexByte(rest, '\n')
		}
		if newline >= 0 {
			rest = rest[:newline+1]
		}
		row := r.at.room[r.from : r.from+n]
		if n += len(rest); n > maxRow {
			return row, errLongRow
		}
		if err := reservation.Grow(int64(len(rest))); err != nil {
			return row, err
		}
		if row = row[:n]; newline < 0 && r.err == nil {
			r.read()
			continue
		}
		if r.from += n; newline < 0 {
			return row, r.err
		}
		return row[:n-1], nil
	}
}

// read reads the next bytes of the text behind those of the row, which it moves where they need more room.
func (r *rowReader) read() {
	if n := r.to - r.from; len(r.at.room)-r.to < readStep {
		was := r.at
		if len(was.room)-n < readStep || !was.isFreed() {
			r.at = was.memory.get(n + readStep)
			defer was.release()
		}
		copy(r.at.room, was.room[r.from:r.to])
		r.from, r.to = 0, n
	}
	n, err := r.text.Read(r.at.room[r.to : r.to+readStep])
	r.to, r.err = r.to+n, err
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
