package parquet

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	lib "github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"github.com/agentx/agentx/hfsource/column"
)

const (
	// MaxRow bounds one row as columns, in bytes. A larger row is an error before it is in memory. Rows of text have the
	// same limit.
	MaxRow = 256 << 20

	// maxStructure bounds, in bytes, what a row takes that is not in the file: presence states, ends of lists, and the zeros
	// that stand for nulls. A file can state much of it in few bytes, such as a run of a billion nulls. A request, which
	// has some 60 columns, takes about 1 KB of it.
	maxStructure = 64 << 20

	// Pages in memory may take what the longest row may, plus heldPerByte bytes for each byte of the file.
	maxHeld      = 256 << 20
	heldPerByte  = 64
	maxHeldLarge = 1 << 31
)

// File is an open Parquet file. It serves one goroutine.
type File struct {
	Progress func(bytes int64)       // called with the number of bytes just read; may be nil
	Reserve  func(bytes int64) error // called for memory of the current row, at most reserveStep bytes late; may be nil

	reader  io.ReaderAt
	held    int64 // bytes of the pages in memory, compressed and decompressed, and of their dictionaries
	maxHeld int64
	groups  []format.RowGroup
	root    *node
	leaves  []*leaf
	codecs  decompressor

	withChecksum    bool // a page came with a checksum
	withoutChecksum bool // a page came without one
	checksumOmitted bool // a page came without one, and its checksum is not 0
}

// Open reads and checks the footer of a file of size bytes. The error says what is wrong; the caller knows which file it is.
func Open(r io.ReaderAt, size int64) (f *File, err error) {
	defer recoverAs("footer", &err)
	footer, err := readFooter(r, size)
	if err != nil {
		return nil, err
	}
	if err := checkFooter(footer); err != nil {
		return nil, err
	}
	m := new(format.FileMetaData)
	if err := lib.Unmarshal(new(lib.CompactProtocol), footer, m); err != nil {
		return nil, fmt.Errorf("footer: %w", err)
	}
	f = &File{reader: r, groups: m.RowGroups, maxHeld: min(maxHeld+heldPerByte*size, maxHeldLarge)}
	if err := f.readMetadata(m, size-int64(len(footer))-8); err != nil {
		return nil, fmt.Errorf("footer: %w", err)
	}
	return f, nil
}

// readMetadata reads the schema and checks the row groups. Every byte of a column must lie before end.
func (f *File) readMetadata(m *format.FileMetaData, end int64) (err error) {
	if f.root, f.leaves, err = resolveSchema(m.Schema); err != nil {
		return err
	}
	if err := f.checkRowGroups(m.NumRows, end); err != nil {
		return err
	}
	return markTimes(f.root, m.KeyValueMetadata)
}

// recoverAs turns a panic of the library into an error.
func recoverAs(what string, err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%s: damaged: %v", what, p)
	}
}

func (f *File) countRead(n int) {
	if f.Progress != nil {
		f.Progress(int64(n))
	}
}

// LacksChecksums reports whether Rows read a page without a checksum. Damage to such a page can go unnoticed.
func (f *File) LacksChecksums() bool { return f.withoutChecksum }

// Rows calls yield for every row, in order, with the requested columns. yield owns the row and calls free when it is done
// with it; rows may be freed in any order, by any goroutine.
//
// It returns the number of rows yielded, and what is wrong with the next. An error of yield comes back as *YieldError.
func (f *File) Rows(ctx context.Context, paths []string, yield func(row *column.Row, free func()) error) (n int64, err error) {
	defer recoverAs("pages", &err)
	defer f.codecs.close()
	r := newReader(f, paths)
	for g := range f.groups {
		read, err := r.rowGroup(ctx, g, yield)
		if n += read; err != nil {
			return n, err
		}
	}
	return n, nil
}

const (
	magic     = "PAR1"
	maxFooter = 64 << 20 // bytes
)

// readFooter reads the metadata at the end of a file of size bytes.
func readFooter(r io.ReaderAt, size int64) ([]byte, error) {
	var head, tail [8]byte
	if size < 12 {
		return nil, fmt.Errorf("not Parquet: %d bytes", size)
	}
	if _, err := r.ReadAt(head[:4], 0); err != nil {
		return nil, err
	}
	if _, err := r.ReadAt(tail[:], size-8); err != nil {
		return nil, err
	}
	switch {
	case string(tail[4:]) == "PARE":
		return nil, errEncrypted
	case string(head[:4]) != magic || string(tail[4:]) != magic:
		return nil, errors.New("not Parquet, or cut off: it does not begin and end with " + magic)
	}
	n := int64(binary.LittleEndian.Uint32(tail[:]))
	if n > size-12 || n > maxFooter {
		return nil, fmt.Errorf("footer: %d bytes long, of a file of %d; at most %d", n, size, maxFooter)
	}
	footer := make([]byte, n)
	_, err := r.ReadAt(footer, size-8-n)
	return footer, err
}

// byteRange is the range of a column of a row group in the file.
type byteRange struct{ from, to int64 }

// checkRowGroups compares the row groups with the schema, with the number of rows of the file and with each other.
func (f *File) checkRowGroups(rows, end int64) error {
	var ranges []byteRange
	for g := range f.groups {
		group := &f.groups[g]
		if group.NumRows < 0 || len(group.Columns) != len(f.leaves) || group.NumRows > 0 && len(f.leaves) == 0 {
			return fmt.Errorf("row group %d: %d rows, %d columns, where the schema has %d", g+1, group.NumRows, len(group.Columns), len(f.leaves))
		}
		rows -= group.NumRows
		for k := range group.Columns {
			at, err := f.leaves[k].checkChunk(&group.Columns[k], g+1, end)
			if err != nil {
				return fmt.Errorf("column %s: %w", f.leaves[k], err)
			}
			if at.to > at.from {
				ranges = append(ranges, at)
			}
		}
	}
	if rows != 0 {
		return fmt.Errorf("the file states %d rows more than its row groups", rows)
	}
	return checkOverlaps(ranges)
}

// checkChunk checks what the footer states of the column in one row group, numbered from 1. It returns the column's range.
func (l *leaf) checkChunk(c *format.ColumnChunk, group int, end int64) (at byteRange, err error) {
	m := &c.MetaData
	from := chunkStart(m)
	switch {
	case c.FilePath != "":
		return at, &UnsupportedError{fmt.Sprintf("it is in another file, %q", c.FilePath), "write the file again as one file"}
	case !slices.Equal(m.PathInSchema, l.path):
		return at, fmt.Errorf("it is %s in row group %d", strings.Join(m.PathInSchema, "."), group)
	case m.Type != l.physical:
		return at, fmt.Errorf("of type %v, and %v in row group %d", l.physical, m.Type, group)
	case from == 0 && m.NumValues == 0 && m.TotalCompressedSize == 0: // a column without a page
	case m.NumValues < 0 || m.TotalCompressedSize < 0 || from < 4 || from > end || m.TotalCompressedSize > end-from:
		return at, fmt.Errorf("row group %d: %d values in %d bytes at %d, beyond the file", group, m.NumValues, m.TotalCompressedSize, from)
	}
	return byteRange{from, from + m.TotalCompressedSize}, nil
}

// checkOverlaps refuses two columns that share bytes of the file.
func checkOverlaps(ranges []byteRange) error {
	slices.SortFunc(ranges, func(a, b byteRange) int { return cmp.Compare(a.from, b.from) })
	for k := 1; k < len(ranges); k++ {
		if ranges[k].from < ranges[k-1].to {
			return fmt.Errorf("two columns overlap at byte %d", ranges[k].from)
		}
	}
	return nil
}

// chunkStart returns the offset of the first page of a column chunk, its dictionary if it has one.
func chunkStart(m *format.ColumnMetaData) int64 {
	if d := m.DictionaryPageOffset; d > 0 && (d < m.DataPageOffset || m.DataPageOffset == 0) { // 0: there is no data page
		return d
	}
	return m.DataPageOffset
}

func (l *leaf) String() string { return strings.Join(l.path, ".") }

// UnsupportedError says that a file uses something that this package does not read. The file may be intact.
type UnsupportedError struct {
	What string // what the file uses
	Hint string // how to write a file that this package reads
}

func (e *UnsupportedError) Error() string { return e.What + ": not read" }

// YieldError wraps an error that the callback of Rows returned.
type YieldError struct{ Err error }

func (e *YieldError) Error() string { return e.Err.Error() }

func (e *YieldError) Unwrap() error { return e.Err }

// Damage that is found in several places.
var (
	errThrift = errors.New("metadata is damaged")
	errLevels = errors.New("levels or indices are damaged")
	errValues = errors.New("values are damaged")
	errAmount = fmt.Errorf("%w: too few or too many", errValues)
	errSize   = errors.New("a page does not have the size that its header states")
	errArrow  = errors.New("the schema under " + arrowKey + " is damaged")
	errSpark  = errors.New("the schema under " + sparkKey + " is damaged")
)

var errEncrypted = &UnsupportedError{"it is encrypted", "write the file again without encryption, or as JSON lines"}

const (
	hintCompression = "write the file again with snappy, zstd or LZ4_RAW compression, or as JSON lines"
	hintEncoding    = "write the file again with plain or dictionary encoding, or as JSON lines"
)
