package parquet

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go/format"
)

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
