package hfsource

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/zeebo/xxh3"

	"github.com/agentx/agentx/hfsource/hub"
)

// FileFormat says how rows are stored in a file. The zero value is one JSON value in the file. Whether the file is compressed is
// no part of it: its first bytes say that to each reader.
type FileFormat struct {
	Lines   bool // one row per line
	Parquet bool
}

// TextFormat is a format whose rows are lines of text that is no JSON.
type TextFormat struct {
	Suffix string                  // of names of its files, such as ".csv"
	Is     func(first []byte) bool // recognizes the first line of a file, or its first bytes
}

// packedSuffixes are the ends of names of compressed files.
var packedSuffixes = []string{".gz", ".zst", ".zstd"}

// unpacked returns the name of a compressed file without its last suffix. packed is false for the name of another file.
func unpacked(name string) (short string, packed bool) {
	for _, suffix := range packedSuffixes {
		if n := len(name) - len(suffix); n > 0 && strings.EqualFold(name[n:], suffix) {
			return name[:n], true
		}
	}
	return name, false
}

// formatOf returns what the name of a file says of its format. known is false for a name that makes no file of a directory an
// input. Where the content decides (detect), the name is not heard. It is where a file has one value on one line: keys of
// caches contain Lines, and such a file is JSON lines under the name .jsonl alone.
func (o Options) formatOf(name string) (f FileFormat, known bool) {
	if short, packed := unpacked(name); packed {
		f, known = o.formatOf(short)
		return FileFormat{Lines: f.Lines}, known && !f.Parquet
	}
	suffix := filepath.Ext(name)
	if slices.ContainsFunc(o.Texts, func(t TextFormat) bool { return t.Suffix == suffix }) {
		return FileFormat{Lines: true}, true
	}
	switch strings.ToLower(suffix) {
	case ".jsonl", ".ndjson", ".jsonlines":
		return FileFormat{Lines: suffix == ".jsonl"}, true
	}
	return FileFormat{Parquet: suffix == ".parquet"}, suffix == ".json" || suffix == ".parquet" // AIPerf passes .JSON over, too
}

// File is one file of a snapshot.
type File struct {
	Path    string // for messages
	Format  FileFormat
	Size    int64  // bytes, as stored
	SHA256  string // of the file as stored, 64 hex digits
	Rows    string // for the caller: what its rows are
	Lenient bool   // for the caller to set: Rows reads it as LogRows does
	Split   string // of a dataset of the hub that was asked for as a whole: the same for all its files; else ""

	texts      []TextFormat
	lines      *lineFinder // of a text that hash reads to find its format
	open       func() (io.ReadCloser, error)
	fast       *xxh3.Uint128 // of the bytes of which Resolve computed SHA256; nil: the hub names SHA256
	changedErr error         // replaces ErrChanged for a file of the hub; else nil
	found      *findings
}

// findings are what Rows finds in a file. Others may copy the File meanwhile: a shard is written while the next one is read.
type findings struct{ unchecked, garbage atomic.Bool }

// LacksChecksums reports whether Rows met a part of the file that has no checksum, so that damage from before it was hashed can go
// unnoticed.
func (f *File) LacksChecksums() bool { return f.found != nil && f.found.unchecked.Load() }

// HasGarbage reports whether Rows met bytes behind the last member of a gzip file. It leaves them out, as gzip(1) does.
func (f *File) HasGarbage() bool { return f.found != nil && f.found.garbage.Load() }

// FromHub reports whether the file belongs to a dataset of the hub, so that SHA256 is the digest that the hub names.
func (f *File) FromHub() bool { return f.changedErr != nil }

// newSum returns a digest for unchanged. Where Resolve has read the file, it is XXH3-128, which takes an eighth of the time of sha256.
func (f *File) newSum() hash.Hash {
	if f.fast != nil {
		return xxh3.New()
	}
	return sha256.New()
}

// unchanged reports whether a digest of newSum is that of the content which SHA256 names.
func (f *File) unchanged(sum hash.Hash) bool {
	if fast, ok := sum.(*xxh3.Hasher); ok {
		return fast.Sum128() == *f.fast
	}
	return hex.EncodeToString(sum.Sum(nil)) == f.SHA256
}

// changedError returns the error about a file whose content differs from its digest.
func (f *File) changedError() error {
	err := f.changedErr
	if err == nil {
		err = ErrChanged
	}
	return fmt.Errorf("input %s: %w", f.Path, err)
}

// Snapshot is the resolved inputs: files in order, with their content fixed by digests.
type Snapshot struct {
	Files    []File
	Skipped  []SkippedEntry // entries of directories that are not read
	Datasets []Dataset      // of the hub
	Memory   *MemoryBudget  // for rows in flight; nil: Rows creates one

	tempFiles    []*os.File // without a name
	hubSnapshots []*hub.Snapshot
}

// Bytes returns the size of all files, as stored.
func (s *Snapshot) Bytes() (n int64) {
	for _, f := range s.Files {
		n += f.Size
	}
	return n
}

// Slice returns the files from to to-1 as a snapshot of their own, numbered from 0. It stays valid until s is closed.
func (s *Snapshot) Slice(from, to int) *Snapshot { return &Snapshot{Files: s.Files[from:to:to]} }

// Close closes the files, and removes temporary ones.
func (s *Snapshot) Close() error {
	var errs []error
	for _, h := range s.hubSnapshots {
		errs = append(errs, h.Close())
	}
	for _, f := range s.tempFiles {
		errs = append(errs, f.Close())
	}
	s.hubSnapshots, s.tempFiles = nil, nil
	return errors.Join(errs...)
}

// detect sets the format of a file by its content. A file that is damaged keeps the format of its name, and Rows reports the
// damage.
func (f *File) detect(ctx context.Context, rows func([]byte) string) error {
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
	done, err := f.unpack(buffers, false, false)
	if err != nil {
		return ctx.Err()
	}
	defer done()
	if rows != nil {
		first, _ := buffers.text.Peek(firstBytes) // an error comes again with the next read
		f.Rows = rows(first)
	}
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

// Write looks at the next piece of the text.
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

// firstBytes is how many bytes of a text Options.Rows gets.
const firstBytes = 8 << 10

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
