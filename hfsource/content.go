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

// This file tells what a file holds when that is not what its name says, and where a text was cut off: what would
// otherwise be read as so many lines that are not JSON.

// mistaken is content that is another than the name says.
type mistaken struct {
	what string
	try  func(path string) string
}

func (m *mistaken) Error() string { return m.what }

// signatures are beginnings of content that no JSON text has. Those without a suffix are text in another encoding.
var signatures = []struct{ magic, what, packing string }{
	{"PAR1", "Parquet", ".parquet"},
	{"\x28\xb5\x2f\xfd", "zstd", ".zst"},
	{"\x1f\x8b", "gzip", ".gz"},
	{"\xff\xfe", "text in UTF-16, or UTF-32", ""},
	{"\xfe\xff", "text in UTF-16", ""},
}

const byteOrderMark = "\xef\xbb\xbf"

// checkStart looks at how a file begins that is to be text under some compression.
func checkStart(r *bufio.Reader, f *File) error {
	first, _ := r.Peek(startBytes) // what fails here fails again
	compression := f.Format.Compression
	if m := foreign(first, f.Path); m != nil {
		return m
	}
	if len(first) == 0 && compression == "gz" {
		return errEmpty
	}
	for _, s := range signatures {
		switch {
		case !strings.HasPrefix(string(first), s.magic) || s.packing != "" && s.packing == "."+compression:
		case s.packing == "":
			return notUTF8(s.what)
		default:
			return &mistaken{"its content is " + s.what + ", not what its name says", func(path string) string {
				if path == "-" {
					return "unpack it before, or give the path of a file whose name ends in " + s.packing + ": standard input is JSON lines"
				}
				return "rename it to " + renamed(path, s.packing, compression)
			}}
		}
	}
	return nil
}

// startBytes is how much of a file is looked at for what it is: tar has its mark behind byte 257.
const startBytes = 512

var errEmpty = &mistaken{"it is empty", func(string) string { return "fetch or copy it again" }}

// foreign says what a file is that no suffix stands for, nil where it is not known to be any of these.
func foreign(first []byte, path string) *mistaken {
	text := strings.ToLower(strings.TrimSpace(strings.TrimPrefix(string(first), byteOrderMark)))
	packed := strings.HasPrefix(string(first), "\x1f\x8b") || strings.HasPrefix(string(first), "\x28\xb5\x2f\xfd")
	name := strings.ToLower(filepath.Base(path))
	switch {
	case strings.HasPrefix(text, "version https://git-lfs.github.com/"):
		return &mistaken{"it is a pointer of Git LFS, not the file that it stands for", func(string) string {
			return "git lfs pull where it was cloned, or hf://datasets/OWNER/NAME, of which agentx fetches the files themselves"
		}}
	case strings.HasPrefix(text, "<!doctype") || strings.HasPrefix(text, "<html") || strings.HasPrefix(text, "<?xml"):
		return &mistaken{"it is a page of HTML or XML, such as a login or an error, saved in the place of a file", func(string) string {
			return "download the file again; of the hub, from .../resolve/... rather than .../blob/..."
		}}
	case len(first) >= 262 && string(first[257:262]) == "ustar", packed && (strings.Contains(name, ".tar.") || strings.HasSuffix(name, ".tgz")):
		return archive("tar", "tar -xf ")
	case strings.HasPrefix(string(first), "PK\x03\x04"), strings.HasPrefix(string(first), "PK\x05\x06"):
		return archive("zip", "unzip ")
	}
	return nil
}

func archive(what, unpack string) *mistaken {
	return &mistaken{"it is a " + what + " archive", func(path string) string {
		return "unpack it, and give the files or their directory: " + unpack + path
	}}
}

// checkText looks at how a text begins, once it is unpacked.
func checkText(r *bufio.Reader, path string) error {
	first, _ := r.Peek(startBytes) // what fails here fails again
	if m := foreign(first, path); m != nil {
		return m
	}
	for _, s := range signatures {
		switch {
		case !strings.HasPrefix(string(first), s.magic):
		case s.packing == "":
			return notUTF8(s.what)
		default:
			return &mistaken{"what is packed in it is " + s.what + ", not text", func(string) string {
				return "unpack it once, to a name that ends in " + s.packing
			}}
		}
	}
	if strings.HasPrefix(string(first), byteOrderMark) {
		return &mistaken{"it begins with a byte-order mark, which JSON does not have", func(string) string {
			return "take its first three bytes off: tail -c +4"
		}}
	}
	return nil
}

func notUTF8(what string) error {
	return &mistaken{"its content is " + what + ", and not in UTF-8", func(string) string {
		return "write it in UTF-8: iconv -f UTF-16 -t UTF-8"
	}}
}

// renamed is the name that fits the packing of a file, which is called as if it had another.
func renamed(path, packing, compression string) string {
	name := filepath.Base(path)
	name = strings.TrimSuffix(name, "."+compression)
	_, known := formatOf(name)
	switch {
	case packing == ".parquet" && known:
		name = strings.TrimSuffix(name, filepath.Ext(name))
	case packing != ".parquet" && !known:
		name += ".jsonl"
	}
	return name + packing
}

// errCut and errZeros are texts whose last line ends where no line does.
var (
	errCut   = errors.New("cut off: the last line ends inside a JSON value")
	errZeros = errors.New("cut off: it ends in bytes of zero, which were never written")
)

// checkEnd looks at the last line of a text, which has no newline, or at a text that is one value.
func checkEnd(data []byte, lines bool) error {
	switch {
	case len(data) > 0 && data[len(data)-1] == 0:
		return errZeros
	case lines && unfinished(data):
		return errCut
	}
	return nil
}

// maxFirst is the longest first line that is looked at: one of many that make a value is short.
const maxFirst = 64 << 10

// checkFirst looks at the first line of a text that is to have a JSON value a line, and at what follows it: a value that
// goes on in the next line means that the file is written in another way. A line that is merely damaged is not continued.
func checkFirst(line []byte, r *bufio.Reader) error {
	if len(line) > maxFirst || !unfinished(line) {
		return nil
	}
	next, _ := r.Peek(64 << 10) // what fails here fails again
	next = bytes.TrimLeft(next, " \t\r\n")
	if k := bytes.IndexByte(next, '\n'); k >= 0 {
		next = next[:k]
	}
	both := append(append(bytes.Clone(line), '\n'), next...)
	if len(next) == 0 || !unfinished(both) && !json.Valid(both) {
		return nil
	}
	array := bytes.TrimSpace(line)[0] == '['
	return &mistaken{"it holds a JSON value over many lines, not one a line", func(path string) string {
		if array {
			return "write each element on a line: jq -c '.[]'"
		}
		if path == "-" {
			return "write each value on a line: jq -c ."
		}
		return fmt.Sprintf("if it is one value, rename it to %s; else write each on a line: jq -c .", asValue(path))
	}}
}

// asValue is the name of a file of lines as one of a single value.
func asValue(path string) string {
	stem, tail, _ := strings.Cut(filepath.Base(path), ".jsonl")
	return stem + ".json" + tail
}

// unfinished reports whether a text is the beginning of a JSON value.
func unfinished(text []byte) bool {
	var v ignored
	return errors.Is(json.NewDecoder(bytes.NewReader(text)).Decode(&v), io.ErrUnexpectedEOF)
}

// ignored is a JSON value that nobody looks at.
type ignored struct{}

func (*ignored) UnmarshalJSON([]byte) error { return nil }
