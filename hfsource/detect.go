package hfsource

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
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
	if head, _ := buffers.packed.Peek(len(parquetMagic)); string(head) == parquetMagic {
		f.Format = FileFormat{Parquet: true}
		return nil
	}
	done, err := f.unpack(buffers)
	if err == nil {
		defer done()
		if f.Format.Lines {
			f.Format.Lines = !isOneValue(buffers.text)
		} else {
			f.Format.Lines = isLines(buffers.text)
		}
	}
	return ctx.Err()
}

// isLines reports whether a text has a value on its first line and another behind it. No value has a bracket that closes
// on one line and a bracket that opens on the next, with nothing between them.
func isLines(text *bufio.Reader) bool {
	var last byte // of the first line that is not blank
	for ended := false; !ended || last == 0; {
		part, err := text.ReadSlice('\n')
		if err != nil && err != bufio.ErrBufferFull {
			return false
		}
		ended = err == nil
		if part = bytes.TrimRight(part, blanks); len(part) > 0 {
			last = part[len(part)-1]
		}
	}
	for {
		next, err := text.ReadByte()
		if err != nil || !bytes.ContainsRune([]byte(blanks), rune(next)) {
			return err == nil && (last == '}' || last == ']') && (next == '{' || next == '[')
		}
	}
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
