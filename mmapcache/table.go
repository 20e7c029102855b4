package mmapcache

import (
	"encoding/json"
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
	push(*R)
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
	for _, row := range rows {
		t.push(row)
	}
	return first, uint32(len(rows))
}

func (t *Table[R]) push(row R) {
	for _, c := range t.columns {
		c.push(&row)
	}
}

// numbers is a column of numbers, none of them null. When read, it is a view of the bytes of the file.
type numbers[R any, T arrow.NumericType] struct {
	name   string
	of     func(*R) *T
	values []T
}

func (c *numbers[R, T]) len() int    { return len(c.values) }
func (c *numbers[R, T]) push(row *R) { c.values = append(c.values, *c.of(row)) }
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

func (c *times[R]) push(row *R) {
	v := *c.of(row)
	if math.IsNaN(v) {
		v = math.NaN() // one bit pattern
	}
	c.values = append(c.values, v)
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

func (c *texts[R]) len() int    { return len(c.values) }
func (c *texts[R]) push(row *R) { c.values = append(c.values, *c.of(row)) }
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

func (c *words[R]) push(row *R) {
	w := *c.word(row)
	k, ok := c.index[w]
	if !ok {
		if c.index == nil {
			c.index = map[string]uint32{}
		}
		k = uint32(len(c.set))
		c.set = append(c.set, w)
		c.index[w] = k
	}
	c.values = append(c.values, k)
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
