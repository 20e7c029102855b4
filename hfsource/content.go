package hfsource

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
)

// This file recognizes files whose content differs from their name, and truncated text. Without it, the error would only
// say that a line is not JSON.

// contentError says what the content of a file is.
type contentError struct {
	what string
	hint func(path string) string // what the user can do
}

func (e *contentError) Error() string { return e.what }

// signatures are byte sequences with which no JSON text begins. Those without a suffix are text in another encoding.
var signatures = []struct{ magic, what, suffix string }{
	{"PAR1", "Parquet", ".parquet"},
	{"\x28\xb5\x2f\xfd", "zstd", ".zst"},
	{"\x1f\x8b", "gzip", ".gz"},
	{"\xff\xfe", "text in UTF-16, or UTF-32", ""},
	{"\xfe\xff", "text in UTF-16", ""},
}

const byteOrderMark = "\xef\xbb\xbf"

// checkStart checks the beginning of a file that should be text, perhaps compressed.
func checkStart(r *bufio.Reader, f *File) error {
	first, _ := r.Peek(startBytes) // the next read returns the error again
	compression := f.Format.Compression
	if m := detectForeign(first, f.Path); m != nil {
		return m
	}
	if len(first) == 0 && compression == "gz" {
		return errEmpty
	}
	for _, s := range signatures {
		switch {
		case !strings.HasPrefix(string(first), s.magic) || s.suffix != "" && s.suffix == "."+compression:
		case s.suffix == "":
			return notUTF8(s.what)
		default:
			return &contentError{"its content is " + s.what + ", not what its name says", func(path string) string {
				if path == "-" {
					return "unpack it before, or give the path of a file whose name ends in " + s.suffix + ": standard input is JSON lines"
				}
				return "rename it to " + fittingName(path, s.suffix, compression)
			}}
		}
	}
	return nil
}

// startBytes is how many bytes of a file are checked for signatures. The signature of tar is at byte 257.
const startBytes = 512

// detectForeign recognizes formats that are never read: Git LFS pointers, HTML, XML, tar and zip. It returns nil for others.
func detectForeign(first []byte, path string) *contentError {
	text := strings.ToLower(strings.TrimSpace(strings.TrimPrefix(string(first), byteOrderMark)))
	packed := strings.HasPrefix(string(first), "\x1f\x8b") || strings.HasPrefix(string(first), "\x28\xb5\x2f\xfd")
	name := strings.ToLower(filepath.Base(path))
	switch {
	case strings.HasPrefix(text, "version https://git-lfs.github.com/"):
		return &contentError{"it is a pointer of Git LFS, not the file itself", func(string) string {
			return "git lfs pull in the clone, or hf://datasets/OWNER/NAME, from which agentx downloads the files themselves"
		}}
	case strings.HasPrefix(text, "<!doctype") || strings.HasPrefix(text, "<html") || strings.HasPrefix(text, "<?xml"):
		return &contentError{"it is a page of HTML or XML, such as a login or an error, saved in place of the file", func(string) string {
			return "download the file again; from the hub, by .../resolve/... instead of .../blob/..."
		}}
	case len(first) >= 262 && string(first[257:262]) == "ustar", packed && (strings.Contains(name, ".tar.") || strings.HasSuffix(name, ".tgz")):
		return archive("tar", "tar -xf ")
	case strings.HasPrefix(string(first), "PK\x03\x04"), strings.HasPrefix(string(first), "PK\x05\x06"):
		return archive("zip", "unzip ")
	}
	return nil
}

func archive(what, unpack string) *contentError {
	return &contentError{"it is a " + what + " archive", func(path string) string {
		return "unpack it, and give the files or their directory: " + unpack + path
	}}
}

// checkText checks the beginning of a text after decompression.
func checkText(r *bufio.Reader, path string) error {
	first, _ := r.Peek(startBytes) // an error comes again with the next read
	if m := detectForeign(first, path); m != nil {
		return m
	}
	for _, s := range signatures {
		switch {
		case !strings.HasPrefix(string(first), s.magic):
		case s.suffix == "":
			return notUTF8(s.what)
		default:
			return &contentError{"what is compressed in it is " + s.what + ", not text", func(string) string {
				return "unpack it once, to a name that ends in " + s.suffix
			}}
		}
	}
	if strings.HasPrefix(string(first), byteOrderMark) {
		return &contentError{"it begins with a byte-order mark, which JSON does not have", func(string) string {
			return "remove its first three bytes: tail -c +4"
		}}
	}
	return nil
}

func notUTF8(what string) error {
	return &contentError{"its content is " + what + ", not UTF-8", func(string) string {
		return "convert it to UTF-8: iconv -f UTF-16 -t UTF-8"
	}}
}

// fittingName returns the name of a file with the suffix of its content, in place of that of compression.
func fittingName(path, suffix, compression string) string {
	name := filepath.Base(path)
	name = strings.TrimSuffix(name, "."+compression)
	_, known := formatOf(name)
	switch {
	case suffix == ".parquet" && known:
		name = strings.TrimSuffix(name, filepath.Ext(name))
	case suffix != ".parquet" && !known:
		name += ".jsonl"
	}
	return name + suffix
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

// maxFirst is the longest line that checkFirst checks. The first line of a value on many lines is short.
const maxFirst = 64 << 10

// checkFirst checks the first line of JSON lines. If it is the beginning of a value that the next line continues, the file
// has values on many lines. A damaged line is not continued like that.
func checkFirst(line []byte, r *bufio.Reader) error {
	if len(line) > maxFirst || !isValuePrefix(line) {
		return nil
	}
	next, _ := r.Peek(64 << 10) // an error comes again with the next read
	next = bytes.TrimLeft(next, " \t\r\n")
	if k := bytes.IndexByte(next, '\n'); k >= 0 {
		next = next[:k]
	}
	both := append(append(bytes.Clone(line), '\n'), next...)
	if len(next) == 0 || !isValuePrefix(both) && !json.Valid(both) {
		return nil
	}
	array := bytes.TrimSpace(line)[0] == '['
	return &contentError{"it has a JSON value on many lines, not one per line", func(path string) string {
		if array {
			return "write each element on a line: jq -c '.[]'"
		}
		if path == "-" {
			return "write each value on a line: jq -c ."
		}
		return fmt.Sprintf("if it is one value, rename it to %s; else write each on a line: jq -c .", singleValueName(path))
	}}
}

// singleValueName returns the name of a file of lines with the suffix of a single value.
func singleValueName(path string) string {
	stem, tail, _ := strings.Cut(filepath.Base(path), ".jsonl")
	return stem + ".json" + tail
}

// isValuePrefix reports whether a text is the beginning of a JSON value, without its end.
func isValuePrefix(text []byte) bool {
	var v ignored
	return errors.Is(json.NewDecoder(bytes.NewReader(text)).Decode(&v), io.ErrUnexpectedEOF)
}

// ignored is a JSON value that is not decoded.
type ignored struct{}

func (*ignored) UnmarshalJSON([]byte) error { return nil }
