package parquet

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"

	"github.com/parquet-go/parquet-go/format"

	"github.com/agentx/agentx/hfsource/column"
)

// Writers of the Arrow family store columns of times without saying so in the schema of the file: a duration of
// nanoseconds is a plain INT64 there, as a number of seconds would be. What it is stands in the footer, under this key,
// as a message of Arrow: the schema that the writer was given.
const arrowKey = "ARROW:schema"

// Types of fields, by their numbers in Arrow's Schema.fbs.
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

// maxArrowFields bounds the fields that are looked at: a damaged schema may name one field in many places.
const maxArrowFields = 4 * maxColumns

// markTimes makes what Arrow or Spark knows as a time a column of another type: its numbers count units that only their
// schema names, and whoever took them for seconds would be wrong by powers of ten.
func markTimes(root *node, metadata []format.KeyValue) error {
	for _, kv := range metadata {
		if kv.Key == sparkKey {
			if err := markIntervals(root, kv.Value); err != nil {
				return err
			}
		}
		if kv.Key != arrowKey {
			continue
		}
		message, err := base64.StdEncoding.DecodeString(kv.Value)
		if err != nil {
			return errArrow
		}
		if len(message) >= 4 && binary.LittleEndian.Uint32(message) == 0xffffffff { // not before Arrow 0.15
			message = message[4:]
		}
		if len(message) < 4 {
			return errArrow
		}
		w := arrowSchema{b: message[4:]} // behind its length
		w.fields(root, w.vector(w.ref(w.ref(0, -1), 2), 1), 0)
		if w.bad {
			return errArrow
		}
	}
	return nil
}

// arrowSchema reads the FlatBuffer of a schema. Positions are offsets into it, 0 is what is not there; bad stays once
// something was outside.
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

// slot returns where a field of a table lies.
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

// ref follows the field of a table that refers to another; -1 is the reference at the place itself.
func (s *arrowSchema) ref(table, field int) int {
	at := table
	if field >= 0 {
		if at = s.slot(table, field); at == 0 {
			return 0
		}
	}
	return at + s.u32(at)
}

// vector returns the tables that a field lists.
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

// fields holds the fields of a record against those of the file, by name.
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

// field holds one field against what it is in the file.
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
			what := map[int]string{arrowDate: "a date", arrowTime: "a time of day", arrowTimestamp: "a timestamp", arrowInterval: "an interval", arrowDuration: "a duration"}[kind]
			if kind == arrowDuration {
				unit := 1
				if at := s.slot(s.ref(table, 3), 0); at > 0 {
					unit = s.u16(at)
				}
				if unit < 4 {
					what += [...]string{" in seconds", " in milliseconds", " in microseconds", " in nanoseconds"}[unit]
				}
			}
			l.kind, l.typeName = column.Other, fmt.Sprintf("%s (%s by its Arrow schema)", l.typeName, what)
		}
	}
}
