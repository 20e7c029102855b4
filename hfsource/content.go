package hfsource

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"

	"github.com/agentx/agentx/internal/foreign"
)

// This file recognizes what the content of a file is, and truncated text. Without it, the error would only say that a line is
// not JSON.

// contentError says what the content of a file is.
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
