package parquet

import (
	"encoding/json"
	"strings"

	"github.com/agentx/agentx/hfsource/column"
)

// Spark stores intervals as plain INT64 and INT32: microseconds, and months. What they are stands in the footer, under
// this key, as Spark's own schema in JSON.
const sparkKey = "org.apache.spark.sql.parquet.row.metadata"

// sparkType is a type of Spark: the name of a plain one, or an object for one that is made of others.
type sparkType struct {
	name   string // "struct", "array" and others are objects
	fields []struct {
		Name string
		Type sparkType
	}
	element *sparkType // of an array
}

func (t *sparkType) UnmarshalJSON(data []byte) error {
	if data[0] == '"' {
		return json.Unmarshal(data, &t.name)
	}
	var object struct {
		Type        json.RawMessage
		Fields      json.RawMessage
		ElementType *sparkType
	}
	if err := json.Unmarshal(data, &object); err != nil {
		return err
	}
	if t.element = object.ElementType; object.Fields != nil {
		return json.Unmarshal(object.Fields, &t.fields)
	}
	return nil
}

// markIntervals makes what Spark knows as an interval or a time a column of another type, as markTimes does.
func markIntervals(root *node, schema string) error {
	var t sparkType
	depth, deepest := 0, 0
	for k := range len(schema) { // what is deep is read again and again
		switch schema[k] {
		case '{', '[':
			depth++
			deepest = max(deepest, depth)
		case '}', ']':
			depth--
		}
	}
	if deepest > 4*maxDepth || json.Unmarshal([]byte(schema), &t) != nil {
		return errSpark
	}
	t.mark(root, 0)
	return nil
}

func (t *sparkType) mark(n *node, depth int) {
	if depth > maxDepth {
		return
	}
	for k := range t.fields {
		for _, f := range n.fields {
			if f.name == t.fields[k].Name {
				t.fields[k].Type.mark(f, depth+1)
			}
		}
	}
	if t.element != nil && n.elem != nil {
		t.element.mark(n.elem, depth+1)
	}
	if l := n.leaf; l != nil && l.kind == column.Int && (strings.HasPrefix(t.name, "interval ") || strings.HasPrefix(t.name, "timestamp") || t.name == "date") {
		l.kind, l.typeName = column.Other, l.typeName+" ("+t.name+" by its Spark schema)"
	}
}
