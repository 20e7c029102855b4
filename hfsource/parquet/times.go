package parquet

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
	"strings"

	flatbuffers "github.com/google/flatbuffers/go"
	"github.com/parquet-go/parquet-go/format"

	"github.com/agentx/agentx/hfsource/column"
)

// Keys in the footer under which writers of the Arrow family and Spark store the schema that they were given: a FlatBuffers
// message, and JSON. The schema of the file does not have all of its types of times: a duration of Arrow and an interval of Spark
// are plain integers there, like a number of seconds.
const (
	arrowKey = "ARROW:schema"
	sparkKey = "org.apache.spark.sql.parquet.row.metadata"
)

// maxArrowFields bounds the fields that are read. A damaged schema can refer to one field from many places.
const maxArrowFields = 4 * maxColumns

// markTimes gives the kind Other to columns that are times by the schema of Arrow or Spark alone. Only that schema names the unit
// of their numbers: read as seconds, they would be wrong by powers of ten.
func markTimes(root *node, metadata []format.KeyValue) (err error) {
	for _, kv := range metadata {
		switch kv.Key {
		case sparkKey:
			var schema any
			if json.Unmarshal([]byte(kv.Value), &schema) != nil || !markSpark(root, schema) {
				return errSpark
			}
		case arrowKey:
			if err := markArrow(root, kv.Value); err != nil {
				return err
			}
		}
	}
	return nil
}

// markTime gives a leaf of integers the kind Other.
func (n *node) markTime(what string) {
	if l := n.leaf; l != nil && l.kind == column.Int {
		l.kind, l.typeName = column.Other, l.typeName+" ("+what+" schema)"
	}
}

// markSpark marks a node that has a type of Spark, or the nodes inside it. A type is a name, or an object where it is made of others.
// It returns false where that is damaged.
func markSpark(n *node, schema any) bool {
	switch t := schema.(type) {
	case string:
		if strings.HasPrefix(t, "interval ") || strings.HasPrefix(t, "timestamp") || t == "date" {
			n.markTime(t + " by its Spark")
		}
	case map[string]any:
		fields, ok := t["fields"].([]any)
		if !ok && t["fields"] != nil {
			return false
		}
		for _, f := range fields {
			field, _ := f.(map[string]any)
			for _, inner := range n.fields {
				if inner.name == field["name"] && !markSpark(inner, field["type"]) {
					return false
				}
			}
		}
		return n.elem == nil || markSpark(n.elem, t["elementType"])
	}
	return true
}

// markArrow reads Arrow's schema, in base64, and marks the columns that are durations by it.
func markArrow(root *node, value string) (err error) {
	defer func() {
		if recover() != nil { // a position outside the message
			err = errArrow
		}
	}()
	message, err := base64.StdEncoding.DecodeString(value)
	if err != nil {
		return errArrow
	}
	if len(message) >= 4 && binary.LittleEndian.Uint32(message) == math.MaxUint32 { // since Arrow 0.15
		message = message[4:]
	}
	message = message[4:] // its length
	seen := 0
	schema := arrowTable{flatbuffers.Table{Bytes: message, Pos: flatbuffers.GetUOffsetT(message)}, &seen}.table(2)
	schema.markFields(root, 1)
	return nil
}

// arrowTable is a table of the FlatBuffers message of a schema, as Arrow's Message.fbs and Schema.fbs number its fields. Its methods
// panic where a position is outside the message, or where too many fields are seen.
type arrowTable struct {
	flatbuffers.Table
	seen *int
}

// arrowDuration is the type of a field that the schema of the file does not have.
const arrowDuration = 18

// at returns the position of a field; 0: it is missing.
func (t arrowTable) at(field flatbuffers.VOffsetT) flatbuffers.UOffsetT {
	if at := flatbuffers.UOffsetT(t.Offset(4 + 2*field)); at > 0 {
		return t.Pos + at
	}
	return 0
}

// table returns the table that a field refers to; an empty one where it is missing.
func (t arrowTable) table(field flatbuffers.VOffsetT) arrowTable {
	if at := t.at(field); at > 0 {
		t.Pos = t.Indirect(at)
		return t
	}
	return arrowTable{flatbuffers.Table{Bytes: make([]byte, 8), Pos: 4}, t.seen}
}

// markFields marks the nodes of a record, which it finds by their names, or the element of a list. A field of the table lists them.
func (t arrowTable) markFields(n *node, list flatbuffers.VOffsetT) {
	at := t.at(list)
	if at == 0 {
		return
	}
	at -= t.Pos
	for k := range t.VectorLen(at) {
		if *t.seen++; *t.seen > maxArrowFields {
			panic(errArrow)
		}
		field := arrowTable{flatbuffers.Table{Bytes: t.Bytes, Pos: t.Indirect(t.Vector(at) + flatbuffers.UOffsetT(4*k))}, t.seen}
		if n.elem != nil {
			field.mark(n.elem)
			continue
		}
		name := ""
		if at := field.at(0); at > 0 {
			name = field.String(at)
		}
		for _, inner := range n.fields {
			if inner.name == name {
				field.mark(inner)
			}
		}
	}
}

// mark marks the node of a field that is a duration, or the nodes inside it.
func (t arrowTable) mark(n *node) {
	if at := t.at(2); at == 0 || t.GetByte(at) != arrowDuration {
		t.markFields(n, 5)
		return
	}
	unit, units := 1, []string{"seconds", "milliseconds", "microseconds", "nanoseconds"}
	if duration := t.table(3); duration.at(0) > 0 {
		unit = int(duration.GetUint16(duration.at(0)))
	}
	n.markTime("a duration in " + units[unit] + " by its Arrow")
}
