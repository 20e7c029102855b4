// Package parquet writes the records of a run as a Parquet file, one row for each request, for pandas, polars and DuckDB.
//
//	import polars; polars.read_parquet("results/records.parquet")
//
// Its columns are the keys of records.jsonl (doc/spec/results.md 2), with two more: sent_ns, the wall clock of sent,
// and content_times, the seconds from sent to each content message.
package parquet

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"strings"
	"sync"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/report"
)

// File is the name of the file.
const File = "records.parquet"

// groupRows is how many rows a group has: what is kept in memory.
const groupRows = 16 << 10

// Write writes the records of a run to a file, which appears whole by a rename. ctx carries the options of package durable.
func Write(ctx context.Context, run *report.Run, path string) (err error) {
	reader, err := run.Files.Records()
	if err != nil {
		return err
	}
	defer reader.Close()
	file, err := durable.NewFile(path, durable.OptionsOf(ctx))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Discard()) }()
	if err := writeRows(ctx, run, reader, file); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return file.Publish()
}

// writeRows writes the records in groups of rows.
func writeRows(ctx context.Context, run *report.Run, reader measure.Records, to io.Writer) error {
	w, err := newWriter(to)
	for err == nil {
		var r *measure.Record
		if r, err = reader.Next(); errors.Is(err, io.EOF) {
			return w.close(fmt.Sprintf("agentx version %s(build %s)", run.Info.Version, run.Info.Commit))
		}
		if err == nil {
			err = errors.Join(ctx.Err(), w.add(newRow(r, run.Origin(r.Phase))))
		}
	}
	return err
}

// column maps a field of a record, or of its error, to a column.
type column struct {
	name     string
	index    []int // of the field in a record
	kind     reflect.Type
	optional bool // null where the field has its zero value
}

// columns are the fields of a record by their keys in records.jsonl, in that order. The error has a column for each of its keys.
var columns = sync.OnceValue(func() []column { return columnsOf(reflect.TypeFor[measure.Record](), "", nil) })

// columnsOf returns the columns of the fields of a struct. prefix begins their names, above is the index of the struct in a record.
func columnsOf(t reflect.Type, prefix string, above []int) (list []column) {
	for f := range t.Fields() {
		key, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous {
			list = append(list, columnsOf(f.Type, prefix, append(above[:len(above):len(above)], f.Index...))...)
			continue
		}
		if key == "-" {
			continue
		}
		c := column{name: prefix + key, index: append(above[:len(above):len(above)], f.Index...), kind: f.Type, optional: prefix != "" || options == "omitempty"}
		if c.kind.Kind() == reflect.Pointer {
			c.kind = c.kind.Elem()
		}
		if c.kind.Kind() == reflect.Struct {
			list = append(list, columnsOf(c.kind, c.name+"_", c.index)...)
			continue
		}
		list = append(list, c)
	}
	return list
}

// Columns that no key of a record has.
const (
	sentColumn     = "sent_ns"       // wall clock of sent, nanoseconds since 1970, as an integer
	contentsColumn = "content_times" // seconds from sent to each content message
)

// rowType is the struct of one row: a pointer for each column that may be null, in the order of the columns.
var rowType = sync.OnceValue(func() reflect.Type {
	var fields []reflect.StructField
	add := func(name string, t reflect.Type, tag string) {
		fields = append(fields, reflect.StructField{Name: fmt.Sprintf("C%d", len(fields)), Type: t, Tag: reflect.StructTag(`parquet:"` + name + tag + `"`)})
	}
	for _, c := range columns() {
		t := plain(c.kind)
		if c.optional {
			add(c.name, reflect.PointerTo(t), ",optional")
		} else {
			add(c.name, t, "")
		}
	}
	add(sentColumn, reflect.TypeFor[int64](), "")
	add(contentsColumn, reflect.TypeFor[[]float64](), ",list")
	return reflect.StructOf(fields)
})

// plain returns the type that a column has for a field: bool, int64, float64 or string.
func plain(t reflect.Type) reflect.Type {
	switch t.Kind() {
	case reflect.Bool:
		return reflect.TypeFor[bool]()
	case reflect.Float64:
		return reflect.TypeFor[float64]()
	case reflect.Int64:
		if t == reflect.TypeFor[measure.Time]() {
			return reflect.TypeFor[float64]()
		}
	case reflect.String:
		return reflect.TypeFor[string]()
	}
	return reflect.TypeFor[int64]()
}

// newRow returns a pointer to the row of a record. origin is when its phase started, in nanoseconds since 1970.
func newRow(r *measure.Record, origin int64) any {
	row := reflect.New(rowType()).Elem()
	from := reflect.ValueOf(r).Elem()
	for k, c := range columns() {
		v, err := from.FieldByIndexErr(c.index)
		if err != nil || c.optional && v.IsZero() { // the record has no error; the field no value
			continue
		}
		if v.Kind() == reflect.Pointer {
			v = v.Elem()
		}
		to := row.Field(k)
		if c.optional {
			to.Set(reflect.New(to.Type().Elem()))
			to = to.Elem()
		}
		switch x := v.Interface().(type) {
		case measure.Time:
			to.SetFloat(x.Seconds())
		case measure.Count:
			to.SetInt(x.N())
		default:
			to.Set(v.Convert(to.Type()))
		}
	}
	row.Field(len(columns())).SetInt(origin + int64(r.Sent))
	times := make([]float64, 0, r.Contents.Len())
	for at := range r.Contents.All() {
		times = append(times, at.Seconds())
	}
	row.Field(len(columns()) + 1).Set(reflect.ValueOf(times))
	return row.Addr().Interface()
}

// groupBytes is how many bytes of values a group has at most, but for its last row.
const groupBytes = 64 << 20

// tableWriter writes rows as a Parquet file: in each group a column is one page of plain values. The writer of the library would make agentx 3 MB
// larger for features that this table does not need.
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
	defined, repeated bits // levels of each value: see level
	bools             bits
	values            []byte
	n, nulls          int32
}

// bits are packed from the lowest of each byte on.
type bits struct {
	packed []byte
	n      int
}

// add adds a bit.
func (b *bits) add(bit bool) {
	if b.n%8 == 0 {
		b.packed = append(b.packed, 0)
	}
	if bit {
		b.packed[b.n/8] |= 1 << (b.n % 8)
	}
	b.n++
}

// appendLevels appends the levels as one run, with its length before it.
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
	w.meta.Schema = append(w.meta.Schema, format.SchemaElement{NumChildren: thrift.New(int32(rowType().NumField()))})
	for field := range rowType().Fields() {
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

// write writes bytes of the file and counts them.
func (w *tableWriter) write(b []byte) error {
	n, err := w.to.Write(b)
	w.at += int64(n)
	return err
}

// add adds a row, given as a pointer to a rowType.
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

// add adds the value of one row: a scalar, a pointer that may be nil, or a list.
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

// level adds the levels of one value: defined if it is not null, repeated if it continues the list of the value before.
func (c *chunk) level(defined, repeated bool) {
	c.n++
	if !defined {
		c.nulls++
	}
	c.defined.add(defined)
	c.repeated.add(repeated)
}

// value adds a value that is not null.
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
