package hfsource

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

// detect sets the format of a file by its content. A file that is damaged keeps the format of its name, and Rows reports the
// damage.
func (f *File) detect(ctx context.Context) error {
	if f.Format.Parquet { // the reader of Parquet names other content
		return nil
	}
	raw, err := f.open()
	if err != nil {
		return fmt.Errorf("input %s: %w", f.Path, err)
	}
	defer raw.Close()
	buffers := textBuffers.Get().(*readBuffers)
	defer buffers.release()
	buffers.packed.Reset(progressReader{ctx, raw, func(int64) {}})
	head, _ := buffers.packed.Peek(len(parquetMagic))
	if string(head) == parquetMagic {
		f.Format = FileFormat{Parquet: true}
		return nil
	}
	compression, _ := compressionOf(head)
	done, err := f.unpack(buffers, false, zstd.WithDecoderConcurrency(1)) // nothing is read ahead
	if err != nil {
		return ctx.Err()
	}
	defer done()
	switch {
	case f.isText(buffers.text):
		f.Format.Lines = true
	case f.Format.Lines:
		f.Format.Lines = !isOneValue(buffers.text)
	case f.SHA256 == "" && compression == "":
		f.lines = &lineFinder{} // hash reads the file anyway
	default:
		find := &lineFinder{}
		_, _ = io.Copy(find, buffers.text) // what is wrong with the file, Rows reports
		f.Format.Lines = find.found
	}
	return ctx.Err()
}

// lineFinder is written a text, and finds whether it has a value on its first line and another behind it. No value has a bracket
// that closes on one line and a bracket that opens on the next, with nothing between them. It returns an error when it knows.
type lineFinder struct {
	last         byte // of the first line that is not blank
	ended, found bool // that line; a second value
}

func (l *lineFinder) Write(text []byte) (int, error) {
	rest := text
	for !l.ended && len(rest) > 0 {
		line, behind, ends := bytes.Cut(rest, []byte("\n"))
		if line = bytes.TrimRight(line, blanks); len(line) > 0 {
			l.last = line[len(line)-1]
		}
		l.ended, rest = ends && l.last != 0, behind
	}
	if rest = bytes.TrimLeft(rest, blanks); len(rest) == 0 {
		return len(text), nil
	}
	l.found = (l.last == '}' || l.last == ']') && (rest[0] == '{' || rest[0] == '[')
	return len(text), errEnough
}

const blanks = " \t\r\n"

// maxFirst is the longest line that isOneValue looks at. The first line of a value on many lines is short.
const maxFirst = 64 << 10

// isOneValue reports whether the first line of a text is the beginning of a value that the next line continues. A damaged line
// is not continued like that.
func isOneValue(text *bufio.Reader) bool {
	head, err := text.Peek(2 * maxFirst)
	line, rest, found := bytes.Cut(bytes.TrimLeft(head, blanks), []byte("\n"))
	if !found || len(line) > maxFirst || !isValuePrefix(line) {
		return false
	}
	next, _, found := bytes.Cut(bytes.TrimLeft(rest, blanks), []byte("\n"))
	if len(next) == 0 || !found && err == nil {
		return false
	}
	both := append(append(bytes.Clone(line), '\n'), next...)
	return isValuePrefix(both) || json.Valid(both)
}

// section is a file that is held open, from its beginning.
type section struct{ *io.SectionReader }

func (section) Close() error { return nil }
