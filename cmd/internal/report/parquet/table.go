package parquet

import (
	"cmp"
	"encoding/binary"
	"io"
	"math"
	"reflect"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// groupBytes is how many bytes of values a group has at most, but for its last row.
const groupBytes = 64 << 20

// tableWriter writes rows as a Parquet file: in each group a column is one page of plain values. The library's own writer would make
// agentx 3 MB larger, for what this table lacks.
type tableWriter struct {
	to     io.Writer
	zstd   *zstd.Encoder
	meta   format.FileMetaData
	at     int64 // bytes written
	rows   int64 // of the group
	bytes  int   // of its values
	chunks []*chunk
}

// chunk is a column of a group of rows.
type chunk struct {
	path              []string
	kind              format.Type
	optional, list    bool
	defined, repeated bits // levels: the value is not null, and the list not empty; the value goes on with the list of the one before
	bools             bits
	values            []byte
	n, nulls          int32
}

// bits are packed from the lowest of each byte on.
type bits struct {
	packed []byte
	n      int
}

func (b *bits) add(bit bool) {
	if b.n%8 == 0 {
		b.packed = append(b.packed, 0)
	}
	if bit {
		b.packed[b.n/8] |= 1 << (b.n % 8)
	}
	b.n++
}

// appendLevels appends levels of one bit as one run, behind its length.
func (b *bits) appendLevels(to []byte) []byte {
	run := append(binary.AppendUvarint(nil, uint64(len(b.packed))<<1|1), b.packed...)
	return append(binary.LittleEndian.AppendUint32(to, uint32(len(run))), run...)
}

// newWriter begins a file of rows of rowType.
func newWriter(to io.Writer) (*tableWriter, error) {
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	w := &tableWriter{to: to, zstd: encoder}
	w.meta.Version = 1
	w.meta.Schema = append(w.meta.Schema, format.SchemaElement{NumChildren: thrift.New(int32(rowType.NumField()))})
	for field := range rowType.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("parquet"), ",")
		c := &chunk{path: []string{name}, optional: field.Type.Kind() == reflect.Pointer, list: field.Type.Kind() == reflect.Slice}
		element := field.Type
		if c.optional || c.list {
			element = element.Elem()
		}
		repetition := format.Required
		switch {
		case c.optional:
			repetition = format.Optional
		case c.list:
			c.path = append(c.path, "list", "element")
			w.meta.Schema = append(w.meta.Schema, format.SchemaElement{Name: name, RepetitionType: thrift.New(format.Required), NumChildren: thrift.New(int32(1)),
				ConvertedType: thrift.New(deprecated.List), LogicalType: format.LogicalType{Value: &format.ListType{}}},
				format.SchemaElement{Name: "list", RepetitionType: thrift.New(format.Repeated), NumChildren: thrift.New(int32(1))})
		}
		s := format.SchemaElement{Name: c.path[len(c.path)-1], RepetitionType: thrift.New(repetition)}
		switch element.Kind() {
		case reflect.Bool:
			c.kind = format.Boolean
		case reflect.Float64:
			c.kind = format.Double
		case reflect.String:
			c.kind, s.ConvertedType, s.LogicalType.Value = format.ByteArray, thrift.New(deprecated.UTF8), &format.StringType{}
		default:
			c.kind, s.ConvertedType, s.LogicalType.Value = format.Int64, thrift.New(deprecated.Int64), &format.IntType{BitWidth: 64, IsSigned: true}
		}
		s.Type = thrift.New(c.kind)
		w.meta.Schema, w.chunks = append(w.meta.Schema, s), append(w.chunks, c)
	}
	return w, w.write([]byte("PAR1"))
}

func (w *tableWriter) write(b []byte) error {
	n, err := w.to.Write(b)
	w.at += int64(n)
	return err
}

// add adds a row, of which it has a pointer.
func (w *tableWriter) add(row any) error {
	for k, c := range w.chunks {
		before := len(c.values)
		c.add(reflect.ValueOf(row).Elem().Field(k))
		w.bytes += len(c.values) - before
	}
	if w.rows++; w.rows < groupRows && w.bytes < groupBytes {
		return nil
	}
	return w.flush()
}

func (c *chunk) add(v reflect.Value) {
	switch {
	case c.list:
		for k := range v.Len() {
			c.level(true, k > 0)
			c.value(v.Index(k))
		}
		if v.Len() == 0 {
			c.level(false, false)
		}
	case c.optional:
		c.level(!v.IsNil(), false)
		if !v.IsNil() {
			c.value(v.Elem())
		}
	default:
		c.n++
		c.value(v)
	}
}

func (c *chunk) level(defined, repeated bool) {
	c.n++
	if !defined {
		c.nulls++
	}
	c.defined.add(defined)
	c.repeated.add(repeated)
}

func (c *chunk) value(v reflect.Value) {
	switch c.kind {
	case format.Boolean:
		c.bools.add(v.Bool())
	case format.Double:
		c.values = binary.LittleEndian.AppendUint64(c.values, math.Float64bits(v.Float()))
	case format.ByteArray:
		c.values = append(binary.LittleEndian.AppendUint32(c.values, uint32(v.Len())), v.String()...)
	default:
		c.values = binary.LittleEndian.AppendUint64(c.values, uint64(v.Int()))
	}
}

// flush writes the group of rows.
func (w *tableWriter) flush() error {
	group := format.RowGroup{NumRows: w.rows, FileOffset: w.at, Ordinal: int16(len(w.meta.RowGroups))}
	for _, c := range w.chunks {
		from := w.at
		var page []byte
		if c.list {
			page = c.repeated.appendLevels(page)
		}
		if c.list || c.optional {
			page = c.defined.appendLevels(page)
		}
		page = append(append(page, c.bools.packed...), c.values...)
		compressed := w.zstd.EncodeAll(page, nil)
		statistics := format.Statistics{NullCount: int64(c.nulls)} // DuckDB counts by it
		header, err := thrift.Marshal(new(thrift.CompactProtocol), &format.PageHeader{Type: format.DataPage,
			UncompressedPageSize: int32(len(page)), CompressedPageSize: int32(len(compressed)),
			DataPageHeader: thrift.New(format.DataPageHeader{NumValues: c.n, Encoding: format.Plain, DefinitionLevelEncoding: format.RLE, RepetitionLevelEncoding: format.RLE,
				Statistics: statistics})})
		if err := cmp.Or(err, w.write(header), w.write(compressed)); err != nil {
			return err
		}
		size := int64(len(header) + len(page))
		group.TotalByteSize += size
		group.TotalCompressedSize += w.at - from
		group.Columns = append(group.Columns, format.ColumnChunk{MetaData: format.ColumnMetaData{Type: c.kind, Codec: format.Zstd,
			Encoding: []format.Encoding{format.Plain, format.RLE}, PathInSchema: c.path, NumValues: int64(c.n),
			TotalUncompressedSize: size, TotalCompressedSize: w.at - from, DataPageOffset: from, Statistics: statistics}})
		*c = chunk{path: c.path, kind: c.kind, optional: c.optional, list: c.list, values: c.values[:0]}
	}
	w.meta.NumRows += w.rows
	w.meta.RowGroups = append(w.meta.RowGroups, group)
	w.rows, w.bytes = 0, 0
	return nil
}

// close writes the last group and the footer.
func (w *tableWriter) close(createdBy string) error {
	if w.rows > 0 {
		if err := w.flush(); err != nil {
			return err
		}
	}
	w.meta.CreatedBy = createdBy
	footer, err := thrift.Marshal(new(thrift.CompactProtocol), &w.meta)
	if err != nil {
		return err
	}
	return w.write(append(binary.LittleEndian.AppendUint32(footer, uint32(len(footer))), "PAR1"...))
}
