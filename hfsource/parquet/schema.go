package parquet

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/format"

	"github.com/agentx/agentx/hfsource/column"
)

// node is a field of the schema as a reader of rows sees it: a leaf, a record or a list. How lists are spelled ends here.
type node struct {
	name   string
	parent int      // definition level at which what holds it is there
	def    int      // definition level at which it is there: given, and not null
	leaf   *leaf    // of a leaf
	fields []*node  // of a record
	elem   *node    // of a list
	inner  int      // of a list: definition level at which it has an element
	rep    int      // of a list: repetition level of its elements
	path   []string // in the schema, for messages
}

// leaf is one column.
type leaf struct {
	index    int // of the column in the file
	path     []string
	physical format.Type
	kind     column.Kind
	typeName string
	maxRep   int
	maxDef   int
	unsigned bool // 32 bits that count from 0
}

const (
	maxDepth   = 64
	maxColumns = 1 << 14
)

// schemaReader turns the flat schema of a file into nodes.
type schemaReader struct {
	elements []format.SchemaElement
	next     int
	leaves   []*leaf
}

// element is an element of the schema with its children.
type element struct {
	*format.SchemaElement
	children []element
	leaf     *leaf
}

func (b *schemaReader) tree(path []string, rep, def int) (element, error) {
	if b.next >= len(b.elements) || len(path) > maxDepth {
		return element{}, errors.New("schema: it is cut off, or too deep")
	}
	e := element{SchemaElement: &b.elements[b.next]}
	b.next++
	if len(path) > 0 || b.next > 1 {
		path = append(slices.Clone(path), e.Name)
		switch repetition(e.SchemaElement) {
		case format.Optional:
			def++
		case format.Repeated:
			rep, def = rep+1, def+1
		}
	}
	if e.Type.Valid {
		if e.NumChildren.Valid && e.NumChildren.V != 0 || len(b.leaves) >= maxColumns {
			return element{}, fmt.Errorf("schema: %s has a type and fields, or there are more than %d columns", e.Name, maxColumns)
		}
		kind, name := kindOf(e.SchemaElement)
		if e.LogicalType.Value != nil && e.ConvertedType.Valid { // said twice, and to be the same
			old := *e.SchemaElement
			old.LogicalType = format.LogicalType{}
			if k, _ := kindOf(&old); k != kind || unsigned(&old) != unsigned(e.SchemaElement) {
				return element{}, fmt.Errorf("schema: %s is of type %v and of converted type %s", strings.Join(path, "."), e.LogicalType.Value, convertedName(e.ConvertedType.V))
			}
		}
		e.leaf = &leaf{index: len(b.leaves), path: path, physical: e.Type.V, kind: kind, typeName: name, maxRep: rep, maxDef: def, unsigned: unsigned(e.SchemaElement)}
		b.leaves = append(b.leaves, e.leaf)
		return e, nil
	}
	for range e.NumChildren.V {
		child, err := b.tree(path, rep, def)
		if err != nil {
			return element{}, err
		}
		e.children = append(e.children, child)
	}
	return e, nil
}

func repetition(e *format.SchemaElement) format.FieldRepetitionType {
	if e.RepetitionType.Valid {
		return e.RepetitionType.V
	}
	return format.Required
}

// resolveSchema returns the record that a row is, and the columns.
func resolveSchema(elements []format.SchemaElement) (*node, []*leaf, error) {
	b := schemaReader{elements: elements}
	root, err := b.tree(nil, 0, 0)
	if err != nil {
		return nil, nil, err
	}
	if b.next != len(elements) || root.leaf != nil {
		return nil, nil, errors.New("schema: it is no record, or more than one")
	}
	n := &node{}
	n.fields, err = fields(root.children, nil, 0, 0)
	return n, b.leaves, err
}

func fields(list []element, path []string, rep, def int) (nodes []*node, err error) {
	names := map[string]bool{}
	for _, e := range list {
		if names[e.Name] {
			return nil, fmt.Errorf("schema: %s is there twice", strings.Join(append(slices.Clone(path), e.Name), "."))
		}
		names[e.Name] = true
		n, err := nodeOf(e, path, rep, def)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}

// Spellings of lists: an optional list around repeated list, bag or array, around element, item or array_element; the
// form of two levels, without the last; and a field that is repeated itself.
var (
	repeatedNames = []string{"list", "bag", "array", "element", "item", "array_element"}
	elementNames  = []string{"element", "item", "array_element"}
)

func nodeOf(e element, path []string, rep, def int) (*node, error) {
	n := &node{name: e.Name, parent: def, def: def, path: append(slices.Clone(path), e.Name)}
	var err error
	switch r := repetition(e.SchemaElement); {
	case r == format.Repeated: // a list without a name of its own: it is there whenever what holds it is
		n.inner, n.rep = def+1, rep+1
		n.elem = &node{name: e.Name, parent: def + 1, def: def + 1, leaf: e.leaf, path: n.path}
		if e.leaf == nil {
			n.elem.fields, err = fields(e.children, n.path, rep+1, def+1)
		}
		return n, err
	case r == format.Optional:
		n.def++
	}
	if e.leaf != nil {
		n.leaf = e.leaf
		return n, nil
	}
	if len(e.children) != 1 || repetition(e.children[0].SchemaElement) != format.Repeated || !(isList(e) || slices.Contains(repeatedNames, e.children[0].Name)) {
		n.fields, err = fields(e.children, n.path, rep, n.def)
		return n, err
	}
	inside := e.children[0]
	n.inner, n.rep = n.def+1, rep+1
	at := append(slices.Clone(n.path), inside.Name)
	three := len(inside.children) == 1 && (inside.Name != "array" && inside.Name != e.Name+"_tuple" || slices.Contains(elementNames, inside.children[0].Name))
	switch {
	case three:
		n.elem, err = nodeOf(inside.children[0], at, n.rep, n.inner)
	default:
		n.elem = &node{name: inside.Name, parent: n.inner, def: n.inner, leaf: inside.leaf, path: at}
		if inside.leaf == nil {
			n.elem.fields, err = fields(inside.children, at, n.rep, n.inner)
		}
	}
	return n, err
}

func isList(e element) bool {
	if _, ok := e.LogicalType.Value.(*format.ListType); ok {
		return true
	}
	return e.ConvertedType.Valid && e.ConvertedType.V == deprecated.List
}

// convertedNames are those that the format gives its older annotations, by number.
var convertedNames = [...]string{"UTF8", "MAP", "MAP_KEY_VALUE", "LIST", "ENUM", "DECIMAL", "DATE", "TIME_MILLIS", "TIME_MICROS", "TIMESTAMP_MILLIS",
	"TIMESTAMP_MICROS", "UINT_8", "UINT_16", "UINT_32", "UINT_64", "INT_8", "INT_16", "INT_32", "INT_64", "JSON", "BSON", "INTERVAL"}

func convertedName(c deprecated.ConvertedType) string {
	if c < 0 || int(c) >= len(convertedNames) {
		return fmt.Sprintf("converted type %d", c)
	}
	return convertedNames[c]
}

// kindOf says which values a leaf has.
func kindOf(e *format.SchemaElement) (column.Kind, string) {
	name := e.Type.V.String()
	logical := e.LogicalType.Value
	if logical == nil && e.ConvertedType.Valid {
		switch c := e.ConvertedType.V; c {
		case deprecated.UTF8, deprecated.Enum:
			logical = &format.StringType{}
		case deprecated.Json:
			logical = &format.JsonType{}
		case deprecated.Int8, deprecated.Int16, deprecated.Int32, deprecated.Int64:
			logical = &format.IntType{IsSigned: true}
		case deprecated.Uint8, deprecated.Uint16, deprecated.Uint32, deprecated.Uint64:
			logical = &format.IntType{}
		default:
			return column.Other, fmt.Sprintf("%s (%s)", name, convertedName(c))
		}
	}
	switch logical := logical.(type) {
	case nil:
	case *format.NullType:
		return column.None, name
	case *format.StringType, *format.EnumType:
		if e.Type.V == format.ByteArray {
			return column.Text, name
		}
	case *format.JsonType:
		if e.Type.V == format.ByteArray {
			return column.JSON, name + " (JSON)"
		}
	case *format.IntType:
		switch {
		case e.Type.V == format.Int64 && !logical.IsSigned:
			return column.Uint, name + " (unsigned)"
		case e.Type.V == format.Int64, e.Type.V == format.Int32:
			return column.Int, name
		}
	}
	if logical != nil {
		return column.Other, fmt.Sprintf("%s (%v)", name, logical)
	}
	switch e.Type.V {
	case format.Int32, format.Int64:
		return column.Int, name
	case format.Float, format.Double:
		return column.Float, name
	case format.ByteArray:
		return column.Text, name
	}
	return column.Other, name
}

func unsigned(e *format.SchemaElement) bool {
	if t, ok := e.LogicalType.Value.(*format.IntType); ok {
		return !t.IsSigned
	}
	if e.LogicalType.Value == nil && e.ConvertedType.Valid {
		switch e.ConvertedType.V {
		case deprecated.Uint8, deprecated.Uint16, deprecated.Uint32, deprecated.Uint64:
			return true
		}
	}
	return false
}
