package mmapcache

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
)

// This file reads the Arrow IPC files that table.go writes: one record batch of flat columns, without compression and
// dictionaries. The library could read them, but it trusts the metadata: one damaged number makes it allocate hundreds of
// gigabytes, or recurse until the stack overflows. This reader checks every position and length against the size of the file,
// and allocates for existing rows alone.

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
	f := &flatbuffer{data: data[int64(n)-size : n]}
	footer := f.root()
	schema := footer.table(1)
	fields := schema.vector(1, 4)
	blocks := footer.vector(3, 24)
	if f.bad || footer.vector(2, 24).n != 0 || blocks.n != 1 || schema.number(0, 2) != 0 {
		return nil, fmt.Errorf("%w: bad footer", errArrow)
	}
	if fields.n < want || fields.n > want+extra {
		return nil, fmt.Errorf("%d columns, want %d", fields.n, want)
	}
	for k := range fields.n {
		c, err := readField(fields.table(k))
		if err != nil {
			return nil, err
		}
		columns = append(columns, c)
	}
	if f.bad {
		return nil, fmt.Errorf("%w: bad schema", errArrow)
	}
	at, head, body := f.int64(blocks.at), int64(int32(f.uint32(blocks.at+8))), f.int64(blocks.at+16)
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
	if pairs := field.vector(6, 4); pairs.n == 1 && string(pairs.table(0).bytes(0)) == wordsKey {
		c.words = pairs.table(0).bytes(1)
	}
	if field.buf.bad || c.kind == arrow.NULL || field.has(4) || field.vector(5, 4).n != 0 {
		return c, fmt.Errorf("%w: column %q is nested, has a dictionary or is of an unknown type", errArrow, c.name)
	}
	return c, nil
}

// readBatch finds the buffers of the columns in the body of a record batch.
func readBatch(head, body []byte, columns []arrowColumn) error {
	f := &flatbuffer{data: head[8:]}
	message := f.root()
	batch := message.table(2)
	rows := int64(batch.number(0, 8))
	nodes, buffers := batch.vector(1, 16), batch.vector(2, 16)
	if f.bad || binary.LittleEndian.Uint32(head) != arrowContinuation || message.number(1, 1) != arrowRecordBatch || batch.has(3) || nodes.n != len(columns) {
		return fmt.Errorf("%w: bad record batch", errArrow)
	}
	next := 0
	buffer := func() []byte {
		if next >= buffers.n {
			f.bad = true
			return nil
		}
		at, size := f.int64(buffers.at+16*next), f.int64(buffers.at+16*next+8)
		if next++; at < 0 || at%8 != 0 || size < 0 || at > int64(len(body)) || size > int64(len(body))-at {
			f.bad = true
			return nil
		}
		return body[at : at+size]
	}
	for k := range columns {
		c := &columns[k]
		c.nulls = f.int64(nodes.at + 16*k + 8)
		buffer() // of validity: below a null the file has the value that stands for it
		c.buffers = append(c.buffers, buffer())
		if c.kind == arrow.STRING {
			c.buffers = append(c.buffers, buffer())
		}
		if n := f.int64(nodes.at + 16*k); f.bad || n != rows || n < 0 || n > int64(len(body)) {
			return fmt.Errorf("%w: column %q: %d rows, the batch has %d", errArrow, c.name, n, rows)
		}
		c.rows = int(rows)
	}
	if next != buffers.n {
		return fmt.Errorf("%w: %d buffers, want %d", errArrow, buffers.n, next)
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

// flatbuffer is the metadata of an Arrow file. A read outside of it returns 0 and sets bad.
type flatbuffer struct {
	data []byte
	bad  bool
}

// bytes returns n bytes, nil outside of the data.
func (f *flatbuffer) bytes(at, n int) []byte {
	if at < 0 || n < 0 || at > len(f.data) || n > len(f.data)-at {
		f.bad = true
		return nil
	}
	return f.data[at : at+n]
}

func (f *flatbuffer) number(at, size int) (n uint64) {
	for k, b := range f.bytes(at, size) {
		n |= uint64(b) << (8 * k)
	}
	return n
}

func (f *flatbuffer) uint32(at int) uint32 { return uint32(f.number(at, 4)) }
func (f *flatbuffer) int64(at int) int64   { return int64(f.number(at, 8)) }

// table returns the table that the offset at a position leads to.
func (f *flatbuffer) table(offset int) fbTable {
	at := offset + int(f.uint32(offset))
	vtable := at - int(int32(f.uint32(at)))
	return fbTable{f, at, vtable, int(f.number(vtable, 2))}
}

func (f *flatbuffer) root() fbTable { return f.table(0) }

// fbTable is a table of a flatbuffer: numbered fields, each of which may be missing.
type fbTable struct {
	buf              *flatbuffer
	at, vtable, size int
}

// field returns the position of field k, 0 where it is missing.
func (t fbTable) field(k int) int {
	if at := 4 + 2*k; at+2 <= t.size {
		if offset := int(t.buf.number(t.vtable+at, 2)); offset > 0 {
			return t.at + offset
		}
	}
	return 0
}

func (t fbTable) has(k int) bool { return t.field(k) != 0 }

// number returns the number of size bytes in field k, 0 where it is missing.
func (t fbTable) number(k, size int) uint64 {
	if at := t.field(k); at != 0 {
		return t.buf.number(at, size)
	}
	return 0
}

// table returns the table in field k. A missing one sets bad.
func (t fbTable) table(k int) fbTable {
	at := t.field(k)
	if at == 0 {
		t.buf.bad = true
		return fbTable{buf: t.buf}
	}
	return t.buf.table(at)
}

// fbVector is a list of n elements. Its reader knows their size.
type fbVector struct {
	buf   *flatbuffer
	at, n int
}

// vector returns the list in field k of elements of size bytes, an empty one where it is missing.
func (t fbTable) vector(k, size int) fbVector {
	at := t.field(k)
	if at == 0 {
		return fbVector{buf: t.buf}
	}
	at += int(t.buf.uint32(at))
	n := int(t.buf.uint32(at))
	if t.buf.bytes(at+4, n*size) == nil {
		n = 0
	}
	return fbVector{t.buf, at + 4, n}
}

// table returns table k of the list.
func (v fbVector) table(k int) fbTable { return v.buf.table(v.at + 4*k) }

// bytes returns the string in field k.
func (t fbTable) bytes(k int) []byte {
	v := t.vector(k, 1)
	return t.buf.bytes(v.at, v.n)
}
