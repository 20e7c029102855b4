package parquet

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"

	"github.com/parquet-go/parquet-go/format"

	"github.com/agentx/agentx/hfsource/column"
)

// arrowKey is the key in the footer under which writers of the Arrow family store the schema that they were given, as a
// FlatBuffers message. The schema of the file does not have its types of times: a duration in nanoseconds is a plain INT64
// there, like a number of seconds.
const arrowKey = "ARROW:schema"

// Types of fields, as numbered in Arrow's Schema.fbs.
const (
	arrowDate          = 8
	arrowTime          = 9
	arrowTimestamp     = 10
	arrowInterval      = 11
	arrowList          = 12
	arrowStruct        = 13
	arrowFixedSizeList = 16
	arrowDuration      = 18
	arrowLargeList     = 21
	arrowListView      = 25
	arrowLargeListView = 26
)

// maxArrowFields bounds the fields that are read. A damaged schema can refer to one field from many places.
const maxArrowFields = 4 * maxColumns

// markTimes gives the kind Other to columns that are times by the schema of Arrow or Spark. Only that schema names the unit
// of their numbers: read as seconds, they would be wrong by powers of ten.
func markTimes(root *node, metadata []format.KeyValue) (err error) {
	for _, kv := range metadata {
		switch kv.Key {
		case sparkKey:
			err = markSparkTimes(root, kv.Value)
		case arrowKey:
			err = markArrowTimes(root, kv.Value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func markArrowTimes(root *node, value string) error {
	message, err := base64.StdEncoding.DecodeString(value)
	if err != nil {
		return errArrow
	}
	if len(message) >= 4 && binary.LittleEndian.Uint32(message) == 0xffffffff { // since Arrow 0.15
		message = message[4:]
	}
	if len(message) < 4 {
		return errArrow
	}
	s := arrowSchema{b: message[4:]} // its length comes first
	s.fields(root, s.vector(s.ref(s.ref(0, -1), 2), 1), 0)
	if s.bad {
		return errArrow
	}
	return nil
}

// arrowSchema reads the FlatBuffers message of a schema. Positions are offsets into b, 0 for a missing field. A position
// outside b sets bad for good.
type arrowSchema struct {
	b    []byte
	seen int
	bad  bool
}

func (s *arrowSchema) bytes(at, n int) []byte {
	if at < 0 || at > len(s.b)-n {
		s.bad = true
		return make([]byte, n)
	}
	return s.b[at : at+n]
}

func (s *arrowSchema) u16(at int) int { return int(binary.LittleEndian.Uint16(s.bytes(at, 2))) }
func (s *arrowSchema) u32(at int) int { return int(binary.LittleEndian.Uint32(s.bytes(at, 4))) }

// slot returns the position of a field of a table.
func (s *arrowSchema) slot(table, field int) int {
	if table == 0 {
		return 0
	}
	vtable := table - int(int32(s.u32(table)))
	if 4+2*field+2 > s.u16(vtable) {
		return 0
	}
	at := s.u16(vtable + 4 + 2*field)
	if at == 0 {
		return 0
	}
	return table + at
}

// ref returns the position that a field of a table refers to. Field -1 is a reference at the position itself.
func (s *arrowSchema) ref(table, field int) int {
	at := table
	if field >= 0 {
		if at = s.slot(table, field); at == 0 {
			return 0
		}
	}
	return at + s.u32(at)
}

// vector returns the positions of the tables that a field lists.
func (s *arrowSchema) vector(table, field int) (list []int) {
	at := s.ref(table, field)
	if at == 0 || s.bad {
		return nil
	}
	n := s.u32(at)
	if n > (len(s.b)-at)/4 || n > maxArrowFields {
		s.bad = true
		return nil
	}
	for k := range n {
		list = append(list, s.ref(at+4+4*k, -1))
	}
	return list
}

func (s *arrowSchema) name(table int) string {
	at := s.ref(table, 0)
	if at == 0 {
		return ""
	}
	n := s.u32(at)
	if n > len(s.b) {
		s.bad = true
		return ""
	}
	return string(s.bytes(at+4, n))
}

// fields marks the fields of a record, which it finds by their names.
func (s *arrowSchema) fields(record *node, list []int, depth int) {
	for _, table := range list {
		if s.seen++; s.bad || s.seen > maxArrowFields {
			s.bad = true
			return
		}
		name := s.name(table)
		for _, n := range record.fields {
			if n.name == name {
				s.field(n, table, depth)
			}
		}
	}
}

// field marks one field, or the fields inside it.
func (s *arrowSchema) field(n *node, table, depth int) {
	if s.bad || depth > maxDepth {
		s.bad = true
		return
	}
	kind := 0
	if at := s.slot(table, 2); at > 0 {
		kind = int(s.bytes(at, 1)[0])
	}
	switch kind {
	case arrowStruct:
		s.fields(n, s.vector(table, 5), depth+1)
	case arrowList, arrowLargeList, arrowFixedSizeList, arrowListView, arrowLargeListView:
		if items := s.vector(table, 5); n.elem != nil && len(items) == 1 {
			s.field(n.elem, items[0], depth+1)
		}
	case arrowDate, arrowTime, arrowTimestamp, arrowInterval, arrowDuration:
		if l := n.leaf; l != nil && l.kind == column.Int {
			l.kind, l.typeName = column.Other, fmt.Sprintf("%s (%s by its Arrow schema)", l.typeName, s.timeType(table, kind))
		}
	}
}

// timeType describes the type of a field that is a time.
func (s *arrowSchema) timeType(table, kind int) string {
	switch kind {
	case arrowDate:
		return "a date"
	case arrowTime:
		return "a time of day"
	case arrowTimestamp:
		return "a timestamp"
	case arrowInterval:
		return "an interval"
	}
	unit := 1
	if at := s.slot(s.ref(table, 3), 0); at > 0 {
		unit = s.u16(at)
	}
	units := [...]string{" in seconds", " in milliseconds", " in microseconds", " in nanoseconds"}
	if unit >= len(units) {
		return "a duration"
	}
	return "a duration" + units[unit]
}
