package parquet

import (
	"encoding/json"
	"strings"

	"github.com/agentx/agentx/hfsource/column"
)

// sparkKey is the key in the footer under which Spark stores its own schema, in JSON. The schema of the file does not have
// its intervals: they are plain INT64 and INT32 there, in microseconds and months.
const sparkKey = "org.apache.spark.sql.parquet.row.metadata"

// sparkType is a type of Spark: a name, or an object for a type that is made of others.
type sparkType struct {
	name   string // "" for an object
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

// markSparkTimes gives the kind Other to columns that are intervals or times by the schema of Spark.
func markSparkTimes(root *node, schema string) error {
	var t sparkType
	// UnmarshalJSON reads what is nested once for every level above it.
	if nesting(schema) > 4*maxDepth || json.Unmarshal([]byte(schema), &t) != nil {
		return errSpark
	}
	t.mark(root, 0)
	return nil
}

// nesting returns how deep the brackets of a JSON text nest, at most.
func nesting(text string) (deepest int) {
	depth := 0
	for k := range len(text) {
		switch text[k] {
		case '{', '[':
			depth++
			deepest = max(deepest, depth)
		case '}', ']':
			depth--
		}
	}
	return deepest
}

// mark marks a node that has this type, or the nodes inside it.
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
