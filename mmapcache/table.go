package mmapcache

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strings"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/agentx/agentx/manifest"
)

// Table is a list of rows R held as columns: one Arrow IPC file with one record batch. A builder appends rows. A reader's
// columns are views of the bytes of the file: reading copies strings alone.
type Table[R any] struct {
	file    string
	columns []column[R]
	late    *late[R] // the last column, which a file may lack; nil: the table has none
}

// column is one column of a table, for one field of the row.
type column[R any] interface {
	len() int
	push(rows []R)
	fill(first int, rows []R)
	field() arrow.Field
	write() arrow.ArrayData
	read(*arrowColumn) error
}

// newTable returns an empty table with a column for each field of the row. The tag names the column, and after a comma its form where the
// type does not tell it.
func newTable[R any](file string) Table[R] {
	t := Table[R]{file: file}
	for f := range reflect.TypeFor[R]().Fields() {
		name, form, _ := strings.Cut(f.Tag.Get("column"), ",")
		t.columns = append(t.columns, newColumn[R](name, form, f))
	}
	return t
}

// newColumn returns the column that holds a field of the row.
func newColumn[R any](name, form string, f reflect.StructField) column[R] {
	switch kind := f.Type.Kind(); {
	case form == "word":
		return &words[R]{numbers: numbers[R, uint32]{name: name}, word: fieldAt[R, string](f)}
	case form == "optional":
		return &times[R]{numbers[R, float64]{name: name, of: fieldAt[R, float64](f)}}
	case kind == reflect.String:
		return &texts[R]{name: name, of: fieldAt[R, string](f)}
	case kind == reflect.Uint8:
		return &numbers[R, uint8]{name: name, of: fieldAt[R, uint8](f)}
	case kind == reflect.Uint32:
		return &numbers[R, uint32]{name: name, of: fieldAt[R, uint32](f)}
	case kind == reflect.Int32:
		return &numbers[R, int32]{name: name, of: fieldAt[R, int32](f)}
	case kind == reflect.Int64:
		return &numbers[R, int64]{name: name, of: fieldAt[R, int64](f)}
	case kind == reflect.Float64:
		return &numbers[R, float64]{name: name, of: fieldAt[R, float64](f)}
	}
	panic(fmt.Sprintf("no column holds %s %s", f.Name, f.Type))
}

// fieldAt returns the function that finds a field of type T, or of one that has the same kind, in a row.
func fieldAt[R, T any](f reflect.StructField) func(*R) *T {
	return func(row *R) *T { return (*T)(unsafe.Add(unsafe.Pointer(row), f.Offset)) }
}

// Len returns the number of rows.
func (t *Table[R]) Len() int { return t.columns[0].len() }

// At returns row i.
func (t *Table[R]) At(i int) R {
	var row [1]R
	for _, c := range t.columns {
		c.fill(i, row[:])
	}
	return row[0]
}

// Range appends rows first to first+n-1 to dst.
func (t *Table[R]) Range(dst []R, first, n uint32) []R {
	at := len(dst)
	dst = slices.Grow(dst, int(n))[:at+int(n)]
	for _, c := range t.columns {
		c.fill(int(first), dst[at:])
	}
	return dst
}

// append adds rows, and returns the number of the first and how many they are.
func (t *Table[R]) append(rows []R) (first, n uint32) {
	first = uint32(t.Len())
	for _, c := range t.columns {
		c.push(rows)
	}
	return first, uint32(len(rows))
}

func (t *Table[R]) push(row R) { t.append([]R{row}) }

// numbers is a column of numbers, none of them null. When read, it is a view of the bytes of the file.
type numbers[R any, T arrow.NumericType] struct {
	name   string
	of     func(*R) *T
	values []T
}

func (c *numbers[R, T]) len() int { return len(c.values) }

func (c *numbers[R, T]) push(rows []R) {
	of := c.of
	for k := range rows {
		c.values = append(c.values, *of(&rows[k]))
	}
}

func (c *numbers[R, T]) fill(first int, rows []R) {
	of := c.of
	for k, v := range c.values[first : first+len(rows)] {
		*of(&rows[k]) = v
	}
}

func (c *numbers[R, T]) field() arrow.Field {
	return arrow.Field{Name: c.name, Type: arrow.GetDataType[T]()}
}

func (c *numbers[R, T]) write() arrow.ArrayData {
	return array.NewData(arrow.GetDataType[T](), len(c.values),
		[]*memory.Buffer{nil, memory.NewBufferBytes(arrow.GetBytes(c.values))}, nil, 0, 0)
}

func (c *numbers[R, T]) read(a *arrowColumn) (err error) {
	if a.nulls != 0 {
		return fmt.Errorf("%d nulls, want none", a.nulls)
	}
	c.values, err = values[T](a)
	return err
}

// times is a column of times. NaN stands for null in memory, and in the file below the null.
type times[R any] struct{ numbers[R, float64] }

func (c *times[R]) push(rows []R) {
	first := len(c.values)
	c.numbers.push(rows)
	for k, v := range c.values[first:] {
		if math.IsNaN(v) {
			c.values[first+k] = math.NaN() // one bit pattern
		}
	}
}

func (c *times[R]) field() arrow.Field {
	return arrow.Field{Name: c.name, Type: arrow.PrimitiveTypes.Float64, Nullable: true}
}

func (c *times[R]) write() arrow.ArrayData {
	n := len(c.values)
	valid, nulls := make([]byte, bitutil.BytesForBits(int64(n))), 0
	for k, v := range c.values {
		if math.IsNaN(v) {
			nulls++
		} else {
			bitutil.SetBit(valid, k)
		}
	}
	return array.NewData(arrow.PrimitiveTypes.Float64, n,
		[]*memory.Buffer{memory.NewBufferBytes(valid), memory.NewBufferBytes(arrow.GetBytes(c.values))}, nil, nulls, 0)
}

func (c *times[R]) read(a *arrowColumn) (err error) {
	c.values, err = values[float64](a)
	return err
}

// late is a column of times that stands outside of the row. A file has it where some row has a value, so that files from
// before the column have the bytes of those without values.
type late[R any] struct{ times[R] }

func lateTimes[R any](name string) *late[R] {
	return &late[R]{times[R]{numbers[R, float64]{name: name}}}
}

// set stores the value of a row. Rows before it without a value get NaN.
func (c *late[R]) set(row int, v float64) {
	c.pad(row + 1)
	c.values[row] = v
}

// pad gives the rows up to a number the value NaN.
func (c *late[R]) pad(rows int) {
	for len(c.values) < rows {
		c.values = append(c.values, math.NaN())
	}
}

// at returns the value of a row, NaN where it has none.
func (c *late[R]) at(row int) float64 {
	if row >= len(c.values) {
		return math.NaN()
	}
	return c.values[row]
}

// texts is a column of strings.
type texts[R any] struct {
	name   string
	of     func(*R) *string
	values []string
}

func (c *texts[R]) len() int { return len(c.values) }

func (c *texts[R]) push(rows []R) {
	for k := range rows {
		c.values = append(c.values, *c.of(&rows[k]))
	}
}

func (c *texts[R]) fill(first int, rows []R) {
	for k := range rows {
		*c.of(&rows[k]) = c.values[first+k]
	}
}

func (c *texts[R]) field() arrow.Field {
	return arrow.Field{Name: c.name, Type: arrow.BinaryTypes.String}
}

func (c *texts[R]) write() arrow.ArrayData {
	b := array.NewStringBuilder(memory.DefaultAllocator)
	b.AppendValues(c.values, nil)
	return b.NewArray().Data()
}

func (c *texts[R]) read(a *arrowColumn) (err error) {
	if a.nulls != 0 {
		return fmt.Errorf("%d nulls, want none", a.nulls)
	}
	c.values, err = a.texts()
	return err
}

// words is a column of strings from a small set: an index for every row, and the set as a JSON list in the metadata of
// the field. It is no Arrow dictionary because the library's mapped reader, v18.8.0, panics on those.
type words[R any] struct {
	numbers[R, uint32]
	word  func(*R) *string
	set   []string
	index map[string]uint32 // of a word in set; in a builder only
}

// wordsKey is the key of the set in the metadata of the field.
const wordsKey = "words"

func (c *words[R]) fill(first int, rows []R) {
	for k := range rows {
		*c.word(&rows[k]) = c.set[c.values[first+k]]
	}
}

func (c *words[R]) push(rows []R) {
	last := uint32(0) // most rows have the word of the row before
	for k := range rows {
		w := *c.word(&rows[k])
		if int(last) == len(c.set) || w != c.set[last] {
			last = c.number(w)
		}
		c.values = append(c.values, last)
	}
}

// number returns the index of a word, which it adds to the set if it is new.
func (c *words[R]) number(w string) uint32 {
	k, ok := c.index[w]
	if !ok {
		if c.index == nil {
			c.index = map[string]uint32{}
		}
		k = uint32(len(c.set))
		c.set = append(c.set, w)
		c.index[w] = k
	}
	return k
}

func (c *words[R]) field() arrow.Field {
	f := c.numbers.field()
	set, _ := json.Marshal(append([]string{}, c.set...)) // strings always marshal
	f.Metadata = arrow.NewMetadata([]string{wordsKey}, []string{string(set)})
	return f
}

func (c *words[R]) read(a *arrowColumn) (err error) {
	if err := c.numbers.read(a); err != nil {
		return err
	}
	if c.set, err = a.set(); err != nil {
		return err
	}
	for row, k := range c.values {
		if int(k) >= len(c.set) {
			return fmt.Errorf("row %d: word %d out of range [0,%d)", row, k, len(c.set))
		}
	}
	return nil
}

// writeTo writes the table as one Arrow IPC file.
func (t *Table[R]) writeTo(w io.Writer) error {
	columns := t.columns
	if t.late != nil && t.late.len() > 0 {
		t.late.pad(t.Len())
		columns = append(columns[:len(columns):len(columns)], t.late)
	}
	fields := make([]arrow.Field, len(columns))
	arrays := make([]arrow.Array, len(columns))
	for k, c := range columns {
		fields[k] = c.field()
		arrays[k] = array.MakeFromData(c.write())
	}
	schema := arrow.NewSchema(fields, nil)
	f, err := ipc.NewFileWriter(w, ipc.WithSchema(schema))
	if err != nil {
		return err
	}
	if err := f.Write(array.NewRecordBatch(schema, arrays, int64(t.Len()))); err != nil {
		return err
	}
	return f.Close()
}

// read points the columns into the bytes of an Arrow IPC file. Errors wrap manifest.ErrDamaged.
func (t *Table[R]) read(data []byte) error {
	damaged := func(format string, args ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{manifest.ErrDamaged}, args...)...)
	}
	wanted := t.columns
	if t.late != nil {
		wanted = append(wanted[:len(wanted):len(wanted)], t.late)
	}
	columns, err := readArrow(data, len(t.columns), len(wanted)-len(t.columns))
	if err != nil {
		return damaged("%v", err)
	}
	for k, c := range wanted[:len(columns)] {
		want, got := c.field(), &columns[k]
		if got.name != want.Name || got.kind != want.Type.ID() {
			return damaged("column %d is %s %s, want %s %s", k, got.name, got.kind, want.Name, want.Type)
		}
		if err := c.read(got); err != nil {
			return damaged("column %s: %v", want.Name, err)
		}
	}
	return nil
}

// The library could read the Arrow IPC files that Table writes, but it trusts the metadata: one damaged number makes it allocate
// hundreds of gigabytes, or recurse until the stack overflows. readArrow checks every position and length against the size of the
// file, and allocates for existing rows alone. It reads one record batch of flat columns, without compression and dictionaries.

// arrowColumn is one column of a file.
type arrowColumn struct {
	name    string
	kind    arrow.Type
	words   []byte // the value of wordsKey; nil: none
	rows    int
	nulls   int64
	buffers [][]byte // without the first, of validity
}

// Numbers of the format.
const (
	arrowMagic        = "ARROW1"
	arrowInt          = 2
	arrowFloat        = 3
	arrowText         = 5
	arrowRecordBatch  = 3
	arrowContinuation = 0xffffffff
	maxArrowName      = 64 // bytes of a name that are read
)

var errArrow = errors.New("not an Arrow file of one plain record batch")

// readArrow returns the columns of an Arrow IPC file: want of them, or as many more as extra allows. They are views of data.
func readArrow(data []byte, want, extra int) (columns []arrowColumn, err error) {
	n := len(data) - len(arrowMagic) - 4
	if n < 8 || !bytes.HasPrefix(data, []byte(arrowMagic)) || !bytes.HasSuffix(data, []byte(arrowMagic)) {
		return nil, fmt.Errorf("%w: it does not begin and end with ARROW1", errArrow)
	}
	size := int64(binary.LittleEndian.Uint32(data[n:]))
	if size > int64(n) {
		return nil, fmt.Errorf("%w: a footer of %d bytes in a file of %d", errArrow, size, len(data))
	}
	what := "footer"
	defer func() {
		if recover() != nil { // a position outside of the data
			columns, err = nil, fmt.Errorf("%w: bad %s", errArrow, what)
		}
	}()
	footer := rootOf(data[int64(n)-size : n])
	schema := footer.table(1)
	fields, count := schema.vector(1, 4)
	block, blocks := footer.vector(3, 24)
	if _, dictionaries := footer.vector(2, 24); dictionaries != 0 || blocks != 1 || schema.number(0, 2) != 0 {
		panic(errArrow)
	}
	if count < want || count > want+extra {
		return nil, fmt.Errorf("%d columns, want %d", count, want)
	}
	what = "schema"
	for k := range count {
		c, err := readField(schema.to(fields + flatbuffers.UOffsetT(4*k)))
		if err != nil {
			return nil, err
		}
		columns = append(columns, c)
	}
	what = "record batch"
	at, head, body := footer.GetInt64(block), int64(footer.GetInt32(block+8)), footer.GetInt64(block+16)
	if total := int64(len(data)); at < 8 || at%8 != 0 || head < 8 || head%8 != 0 || body < 0 || at > total || head > total-at || body > total-at-head {
		return nil, fmt.Errorf("%w: a batch of %d + %d bytes at %d in a file of %d", errArrow, head, body, at, total)
	}
	return columns, readBatch(data[at:at+head], data[at+head:at+head+body], columns)
}

// readField reads name, type and words of a column.
func readField(field fbTable) (c arrowColumn, err error) {
	name := field.bytes(0)
	c.name = string(name[:min(len(name), maxArrowName)])
	typ := field.table(3)
	switch field.number(2, 1) {
	case arrowInt:
		kinds := map[uint64][2]arrow.Type{8: {arrow.UINT8, arrow.INT8}, 16: {arrow.UINT16, arrow.INT16}, 32: {arrow.UINT32, arrow.INT32}, 64: {arrow.UINT64, arrow.INT64}}
		c.kind = kinds[typ.number(0, 4)][typ.number(1, 1)&1]
	case arrowFloat:
		c.kind = map[uint64]arrow.Type{1: arrow.FLOAT32, 2: arrow.FLOAT64}[typ.number(0, 2)]
	case arrowText:
		c.kind = arrow.STRING
	}
	if at, pairs := field.vector(6, 4); pairs == 1 && string(field.to(at).bytes(0)) == wordsKey {
		c.words = field.to(at).bytes(1)
	}
	if _, children := field.vector(5, 4); c.kind == arrow.NULL || field.at(4) != 0 || children != 0 {
		return c, fmt.Errorf("%w: column %q is nested, has a dictionary or is of an unknown type", errArrow, c.name)
	}
	return c, nil
}

// readBatch finds the buffers of the columns in the body of a record batch.
func readBatch(head, body []byte, columns []arrowColumn) error {
	message := rootOf(head[8:])
	batch := message.table(2)
	rows := int64(batch.number(0, 8))
	node, nodes := batch.vector(1, 16)
	next, buffers := batch.vector(2, 16)
	if binary.LittleEndian.Uint32(head) != arrowContinuation || message.number(1, 1) != arrowRecordBatch || batch.at(3) != 0 || nodes != len(columns) {
		panic(errArrow)
	}
	taken := 0
	buffer := func() []byte {
		at, size := batch.GetInt64(next), batch.GetInt64(next+8)
		if taken++; taken > buffers || at%8 != 0 {
			panic(errArrow)
		}
		next += 16
		return body[at:][:size:size]
	}
	for k := range columns {
		c := &columns[k]
		c.nulls = batch.GetInt64(node + 8)
		buffer() // of validity: below a null the file has the value that stands for it
		c.buffers = append(c.buffers, buffer())
		if c.kind == arrow.STRING {
			c.buffers = append(c.buffers, buffer())
		}
		if n := batch.GetInt64(node); n != rows || n < 0 || n > int64(len(body)) {
			return fmt.Errorf("%w: column %q: %d rows, the batch has %d", errArrow, c.name, n, rows)
		}
		c.rows = int(rows)
		node += 16
	}
	if taken != buffers {
		return fmt.Errorf("%w: %d buffers, want %d", errArrow, buffers, taken)
	}
	return nil
}

// values returns the numbers of a column.
func values[T arrow.NumericType](c *arrowColumn) ([]T, error) {
	list := arrow.GetData[T](c.buffers[0])
	if len(list) < c.rows {
		return nil, fmt.Errorf("%d values for %d rows", len(list), c.rows)
	}
	return list[:c.rows], nil
}

// texts returns the strings of a column.
func (c *arrowColumn) texts() ([]string, error) {
	offsets := arrow.GetData[int32](c.buffers[0])
	if c.rows == 0 {
		return nil, nil
	}
	if len(offsets) <= c.rows {
		return nil, fmt.Errorf("%d offsets for %d rows", len(offsets), c.rows)
	}
	all, list := string(c.buffers[1]), make([]string, c.rows)
	for k := range list {
		from, to := offsets[k], offsets[k+1]
		if from < 0 || from > to || int(to) > len(all) {
			return nil, fmt.Errorf("row %d: bytes [%d,%d) out of range [0,%d)", k, from, to, len(all))
		}
		list[k] = all[from:to]
	}
	return list, nil
}

// set returns the words of a column. There are at most as many as rows, because each is in one.
func (c *arrowColumn) set() (set []string, err error) {
	d := json.NewDecoder(bytes.NewReader(c.words))
	if t, err := d.Token(); err != nil || t != json.Delim('[') {
		return nil, errors.New("words: not a list")
	}
	for d.More() {
		t, err := d.Token()
		word, ok := t.(string)
		if err != nil || !ok || len(set) == c.rows {
			return nil, fmt.Errorf("words: number %d is no string, or is in no row", len(set))
		}
		set = append(set, word)
	}
	return set, nil
}

// fbTable is a table of a flatbuffer: numbered fields, each of which may be missing. Its methods panic where a position is outside of the
// data.
type fbTable struct{ flatbuffers.Table }

// rootOf returns the outermost table.
func rootOf(data []byte) fbTable {
	return fbTable{flatbuffers.Table{Bytes: data, Pos: flatbuffers.GetUOffsetT(data)}}
}

// at returns the position of field k, 0 where it is missing.
func (t fbTable) at(k int) flatbuffers.UOffsetT {
	if at := flatbuffers.UOffsetT(t.Offset(flatbuffers.VOffsetT(4 + 2*k))); at > 0 {
		return t.Pos + at
	}
	return 0
}

// to returns the table that the offset at a position leads to.
func (t fbTable) to(at flatbuffers.UOffsetT) fbTable {
	t.Pos = t.Indirect(at)
	return t
}

// table returns the table in field k. It panics where that is missing.
func (t fbTable) table(k int) fbTable {
	if t.at(k) == 0 {
		panic(errArrow)
	}
	return t.to(t.at(k))
}

// number returns the number of size bytes in field k, 0 where it is missing.
func (t fbTable) number(k, size int) (n uint64) {
	if at := t.at(k); at > 0 {
		for k, b := range t.Bytes[at:][:size] {
			n |= uint64(b) << (8 * k)
		}
	}
	return n
}

// vector returns where the elements of the list in field k begin, of size bytes each, and how many they are: none where it is missing.
func (t fbTable) vector(k, size int) (at flatbuffers.UOffsetT, n int) {
	if field := t.at(k); field > 0 {
		at, n = t.Vector(field-t.Pos), t.VectorLen(field-t.Pos)
		_ = t.Bytes[at:][:n*size]
	}
	return at, n
}

// bytes returns the string in field k.
func (t fbTable) bytes(k int) []byte {
	if at := t.at(k); at > 0 {
		return t.ByteVector(at)
	}
	return nil
}
