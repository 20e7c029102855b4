package parquet

import (
	"context"
	"fmt"
	"io"

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
