package mmapcache

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	flatbuffers "github.com/google/flatbuffers/go"
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
