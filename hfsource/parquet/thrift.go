package parquet

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Metadata is written in thrift's compact protocol. A list states its own length there, and the library allocates as much
// as it states. So a footer is walked through here before the library parses it. Page headers are read here alone.

const (
	maxThriftDepth    = 16
	maxThriftElements = 1 << 20 // of all lists in one footer; a column chunk has some 50
)

// Types of the protocol.
const (
	tTrue   = 1
	tFalse  = 2
	tByte   = 3
	tInt16  = 4
	tInt32  = 5
	tInt64  = 6
	tDouble = 7
	tBinary = 8
	tList   = 9
	tSet    = 10
	tMap    = 11
	tStruct = 12
	tUUID   = 13
)

// thrift reads a struct. Its first error stays.
type thrift struct {
	b        []byte
	i        int
	elements int
	err      error
}

// fail records that the metadata is damaged, and ends the reading.
func (t *thrift) fail() {
	if t.err == nil {
		t.err = errThrift
	}
	t.i = len(t.b)
}

// skipBytes passes over n bytes, and fails where fewer are left.
func (t *thrift) skipBytes(n uint64) {
	if n > uint64(len(t.b)-t.i) {
		t.fail()
		return
	}
	t.i += int(n)
}

func (t *thrift) byte() byte {
	if t.i >= len(t.b) {
		t.fail()
		return 0
	}
	t.i++
	return t.b[t.i-1]
}

func (t *thrift) uvarint() uint64 {
	v, n := binary.Uvarint(t.b[t.i:])
	if n <= 0 {
		t.fail()
		return 0
	}
	t.i += n
	return v
}

func (t *thrift) varint() int64 {
	u := t.uvarint()
	return int64(u>>1) ^ -int64(u&1)
}

// int32 reads an integer of 32 bits.
func (t *thrift) int32() int32 {
	v := t.varint()
	if int64(int32(v)) != v {
		t.fail()
	}
	return int32(v)
}

// fields calls field for every field of the struct that begins here. field reads the value and returns true, or returns
// false, and the value is skipped.
func (t *thrift) fields(depth int, field func(id int16, kind byte) bool) {
	if depth > maxThriftDepth {
		t.fail()
		return
	}
	id := int16(0)
	for t.err == nil {
		b := t.byte()
		if b == 0 {
			return
		}
		kind := b & 15
		if b>>4 != 0 {
			id += int16(b >> 4)
		} else {
			id = int16(t.varint())
		}
		if t.err == nil && !field(id, kind) {
			t.skip(kind, depth, false)
		}
	}
}

// skip skips a value. A boolean is in its type, unless it is an element of a list.
func (t *thrift) skip(kind byte, depth int, element bool) {
	switch kind {
	case tTrue, tFalse:
		if element {
			t.byte()
		}
	case tByte:
		t.byte()
	case tInt16, tInt32, tInt64:
		t.uvarint()
	case tDouble:
		t.skipBytes(8)
	case tUUID:
		t.skipBytes(16)
	case tBinary:
		t.skipBytes(t.uvarint())
	case tList, tSet:
		head := t.byte()
		n := uint64(head >> 4)
		if n == 15 {
			n = t.uvarint()
		}
		t.elementsOf(n, depth, head&15)
	case tMap:
		if n := t.uvarint(); n > 0 {
			kinds := t.byte()
			t.elementsOf(n, depth, kinds>>4, kinds&15)
		}
	case tStruct:
		t.fields(depth+1, func(int16, byte) bool { return false })
	default:
		t.fail()
	}
}

// elementsOf skips n elements of a list, set or map; kinds are the types of one element.
func (t *thrift) elementsOf(n uint64, depth int, kinds ...byte) {
	if n > uint64(maxThriftElements-t.elements) || depth > maxThriftDepth {
		t.fail()
		return
	}
	t.elements += int(n)
	for range n {
		for _, kind := range kinds {
			t.skip(kind, depth+1, true)
		}
		if t.err != nil {
			return
		}
	}
}

// encryptionField is the field of the footer that says how columns are encrypted. The footer itself may be plain: then a
// signature of 28 bytes follows it.
const encryptionField = 8

// checkFooter walks through a footer. It must end where its struct ends.
func checkFooter(b []byte) error {
	t := thrift{b: b}
	encrypted := false
	t.fields(0, func(id int16, kind byte) bool {
		encrypted = encrypted || id == encryptionField && kind == tStruct
		return false
	})
	switch {
	case t.err != nil:
		return fmt.Errorf("footer: %w", t.err)
	case encrypted:
		return errEncrypted
	case t.i != len(b):
		return fmt.Errorf("footer: %w: %d bytes more than it needs", errThrift, len(b)-t.i)
	}
	return nil
}

// Page types.
const (
	dataPage       = 0
	indexPage      = 1
	dictionaryPage = 2
	dataPageV2     = 3
)

// pageHeader is the header of a page.
type pageHeader struct {
	kind               int32
	size, compressed   int32 // bytes of the page, decompressed and in the file
	crc                uint32
	hasCRC             bool
	values             int32
	encoding           int32
	repLevel, defLevel int32 // encodings, of a data page of version 1
	nulls, rows        int32 // of a data page of version 2
	repBytes, defBytes int32 // likewise: lengths of the levels
	uncompressed       bool  // likewise: the values are not compressed
	seen               uint  // fields of the current struct that were read, as bits
	complete           bool  // the header for its kind of page has all fields
}

// readPageHeader reads a page header from the beginning of b, and returns its length.
func readPageHeader(b []byte) (h pageHeader, n int, err error) {
	t := thrift{b: b}
	h.kind = -1
	top := uint(0) // fields of the outer struct that were read, as bits
	t.fields(0, func(id int16, kind byte) bool {
		h.seen = 0
		switch {
		case id == 4 && kind == tInt32:
			h.crc, h.hasCRC = uint32(t.int32()), true
			return true
		case id <= 3:
			done := h.readInt(&t, id, kind, &h.kind, &h.size, &h.compressed)
			top |= h.seen
			return done
		}
		return kind == tStruct && h.readKind(&t, id)
	})
	switch {
	case t.err != nil:
		return h, 0, fmt.Errorf("page header: %w", t.err)
	case top&0b1110 != 0b1110 || h.kind != indexPage && !h.complete:
		return h, 0, errors.New("page header: a field is missing")
	case h.size < 0 || h.compressed < 0 || h.values < 0 || h.nulls < 0 || h.nulls > h.values || h.rows < 0 || h.repBytes < 0 || h.defBytes < 0:
		return h, 0, errors.New("page header: a negative size")
	}
	return h, t.i, nil
}

// readInt reads field number id, from 1, into the one of fields with that number.
func (h *pageHeader) readInt(t *thrift, id int16, kind byte, fields ...*int32) bool {
	if kind != tInt32 || id < 1 || int(id) > len(fields) {
		return false
	}
	*fields[id-1] = t.int32()
	h.seen |= 1 << id
	return true
}

// readKind reads the struct for one kind of page, if that is the kind of this page.
func (h *pageHeader) readKind(t *thrift, id int16) bool {
	var fields []*int32
	switch {
	case id == 5 && h.kind == dataPage:
		fields = []*int32{&h.values, &h.encoding, &h.defLevel, &h.repLevel}
	case id == 7 && h.kind == dictionaryPage:
		fields = []*int32{&h.values, &h.encoding}
	case id == 8 && h.kind == dataPageV2:
		fields = []*int32{&h.values, &h.nulls, &h.rows, &h.encoding, &h.defBytes, &h.repBytes}
	default:
		return false
	}
	t.fields(1, func(id int16, kind byte) bool {
		if h.kind == dataPageV2 && id == 7 && (kind == tTrue || kind == tFalse) {
			h.uncompressed = kind == tFalse
			return true
		}
		return h.readInt(t, id, kind, fields...)
	})
	all := uint(1)<<(len(fields)+1) - 2
	h.complete = h.seen&all == all
	return true
}
