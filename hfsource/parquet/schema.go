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

// node is a field of the schema: a leaf, a record or a list. It hides the several ways in which schemas spell lists.
type node struct {
	name   string
	parent int      // definition level from which on the parent is present
	def    int      // definition level from which on the field is present and not null
	leaf   *leaf    // of a leaf
	fields []*node  // of a record
	elem   *node    // of a list
	inner  int      // of a list: definition level from which on it has an element
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
	unsigned bool // of 32 bits, without a sign
}

const (
	maxDepth   = 64 // of records and lists in each other
	maxColumns = 1 << 14
)

// schemaReader turns the schema of a file, which is a flat list, into a tree.
type schemaReader struct {
	elements []format.SchemaElement
	next     int
	leaves   []*leaf
}

// element is an element of the schema, with its children.
type element struct {
	*format.SchemaElement
	children []element
	leaf     *leaf
}

// tree reads the next element and its children. rep and def are the levels of its parent.
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
	if e.Type.Valid { // a leaf
		if e.NumChildren.Valid && e.NumChildren.V != 0 || len(b.leaves) >= maxColumns {
			return element{}, fmt.Errorf("schema: %s has a type and fields, or there are more than %d columns", e.Name, maxColumns)
		}
		e.leaf = &leaf{index: len(b.leaves), path: path, physical: e.Type.V, maxRep: rep, maxDef: def}
		b.leaves = append(b.leaves, e.leaf)
		return e, e.leaf.setType(e.SchemaElement)
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

// setType sets the type of values. The schema may state it twice, by its logical and by its older converted type: then both
// must be the same.
func (l *leaf) setType(e *format.SchemaElement) error {
	l.kind, l.typeName = kindOf(e)
	l.unsigned = unsigned(e)
	if e.LogicalType.Value == nil || !e.ConvertedType.Valid {
		return nil
	}
	old := *e
	old.LogicalType = format.LogicalType{}
	if kind, _ := kindOf(&old); kind != l.kind || unsigned(&old) != l.unsigned {
		return fmt.Errorf("schema: %s is of type %v and of converted type %s", l, e.LogicalType.Value, convertedName(e.ConvertedType.V))
	}
	return nil
}

// repetition says whether a field is required, optional or repeated; the default is required.
func repetition(e *format.SchemaElement) format.FieldRepetitionType {
	if e.RepetitionType.Valid {
		return e.RepetitionType.V
	}
	return format.Required
}

// resolveSchema returns a row as a record, and its leaves, which are the columns of the file in their order.
func resolveSchema(elements []format.SchemaElement) (*node, []*leaf, error) {
	b := schemaReader{elements: elements}
	root, err := b.tree(nil, 0, 0)
	if err != nil {
		return nil, nil, err
	}
	if b.next != len(elements) || root.leaf != nil {
		return nil, nil, errors.New("schema: the root is not one record")
	}
	n := &node{}
	n.fields, err = fields(root.children, nil, 0, 0)
	return n, b.leaves, err
}

// fields resolves the fields of a record. No two may have the same name.
func fields(list []element, path []string, rep, def int) (nodes []*node, err error) {
	names := map[string]bool{}
	for _, e := range list {
		if names[e.Name] {
			return nil, fmt.Errorf("schema: %s occurs twice", strings.Join(append(slices.Clone(path), e.Name), "."))
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

// Schemas spell lists in three ways. With three levels: an optional group, in it a repeated group called list, bag or array,
// and in that a field called element, item or array_element. With two levels: the last is left out. With one level: the
// field itself is repeated.
var (
	repeatedNames = []string{"list", "bag", "array", "element", "item", "array_element"}
	elementNames  = []string{"element", "item", "array_element"}
)

// nodeOf resolves an element of the schema inside a parent with the given levels.
func nodeOf(e element, path []string, rep, def int) (n *node, err error) {
	n = &node{name: e.Name, parent: def, def: def, path: append(slices.Clone(path), e.Name)}
	switch r := repetition(e.SchemaElement); {
	case r == format.Repeated: // one level: the list is present whenever its parent is
		n.inner, n.rep = def+1, rep+1
		n.elem, err = itemOf(e, n.path, n.rep, n.inner)
		return n, err
	case r == format.Optional:
		n.def++
	}
	switch {
	case e.leaf != nil:
		n.leaf = e.leaf
	case e.spellsList():
		n.inner, n.rep = n.def+1, rep+1
		n.elem, err = e.listElement(n)
	default:
		n.fields, err = fields(e.children, n.path, rep, n.def)
	}
	return n, err
}

// itemOf returns the element of a list whose repeated field is e itself.
func itemOf(e element, path []string, rep, def int) (n *node, err error) {
	n = &node{name: e.Name, parent: def, def: def, leaf: e.leaf, path: path}
	if e.leaf == nil {
		n.fields, err = fields(e.children, path, rep, def)
	}
	return n, err
}

// spellsList reports whether a group is the outer one of a list of two or three levels.
func (e element) spellsList() bool {
	return len(e.children) == 1 && repetition(e.children[0].SchemaElement) == format.Repeated &&
		(isList(e) || slices.Contains(repeatedNames, e.children[0].Name))
}

// listElement returns the element of the list that e spells.
func (e element) listElement(list *node) (*node, error) {
	repeated := e.children[0]
	path := append(slices.Clone(list.path), repeated.Name)
	// A repeated group with one field is a list of records of one field if its name says so, by the rules of the format.
	threeLevels := len(repeated.children) == 1 &&
		(repeated.Name != "array" && repeated.Name != e.Name+"_tuple" || slices.Contains(elementNames, repeated.children[0].Name))
	if threeLevels {
		return nodeOf(repeated.children[0], path, list.rep, list.inner)
	}
	return itemOf(repeated, path, list.rep, list.inner)
}

// isList reports whether an element is annotated as a list.
func isList(e element) bool {
	if _, ok := e.LogicalType.Value.(*format.ListType); ok {
		return true
	}
	return e.ConvertedType.Valid && e.ConvertedType.V == deprecated.List
}

// convertedNames are the names of converted types, the older annotations of the format, by number.
var convertedNames = [...]string{"UTF8", "MAP", "MAP_KEY_VALUE", "LIST", "ENUM", "DECIMAL", "DATE", "TIME_MILLIS", "TIME_MICROS", "TIMESTAMP_MILLIS",
	"TIMESTAMP_MICROS", "UINT_8", "UINT_16", "UINT_32", "UINT_64", "INT_8", "INT_16", "INT_32", "INT_64", "JSON", "BSON", "INTERVAL"}

// convertedName returns the name of a converted type, for messages.
func convertedName(c deprecated.ConvertedType) string {
	if c < 0 || int(c) >= len(convertedNames) {
		return fmt.Sprintf("converted type %d", c)
	}
	return convertedNames[c]
}

// kindOf returns the kind of a leaf's values, and the name of its type for messages.
func kindOf(e *format.SchemaElement) (column.Kind, string) {
	name := e.Type.V.String()
	logical := e.LogicalType.Value
	if logical == nil && e.ConvertedType.Valid {
		if logical = logicalOf(e.ConvertedType.V); logical == nil {
			return column.Other, fmt.Sprintf("%s (%s)", name, convertedName(e.ConvertedType.V))
		}
	}
	if logical == nil {
		return physicalKind(e.Type.V), name
	}
	kind, suffix := logicalKind(logical, e.Type.V)
	return kind, name + suffix
}

// logicalOf returns the logical type that replaces a converted type, nil for those that are not read.
func logicalOf(c deprecated.ConvertedType) format.LogicalTypeValue {
	switch c {
	case deprecated.UTF8, deprecated.Enum:
		return &format.StringType{}
	case deprecated.Json:
		return &format.JsonType{}
	case deprecated.Int8, deprecated.Int16, deprecated.Int32, deprecated.Int64:
		return &format.IntType{IsSigned: true}
	case deprecated.Uint8, deprecated.Uint16, deprecated.Uint32, deprecated.Uint64:
		return &format.IntType{}
	}
	return nil
}

// logicalKind returns the kind of a logical type of some physical type, and what to add to the name of the latter.
func logicalKind(logical format.LogicalTypeValue, physical format.Type) (column.Kind, string) {
	switch logical := logical.(type) {
	case *format.NullType:
		return column.None, ""
	case *format.StringType, *format.EnumType:
		if physical == format.ByteArray {
			return column.Text, ""
		}
	case *format.JsonType:
		if physical == format.ByteArray {
			return column.JSON, " (JSON)"
		}
	case *format.IntType:
		switch {
		case physical == format.Int64 && !logical.IsSigned:
			return column.Uint, " (unsigned)"
		case physical == format.Int64, physical == format.Int32:
			return column.Int, ""
		}
	}
	return column.Other, fmt.Sprintf(" (%v)", logical)
}

// physicalKind returns the kind of values that have no logical type.
func physicalKind(t format.Type) column.Kind {
	switch t {
	case format.Int32, format.Int64:
		return column.Int
	case format.Float, format.Double:
		return column.Float
	case format.ByteArray:
		return column.Text
	}
	return column.Other
}

// unsigned reports whether the type of a leaf is an integer without a sign.
func unsigned(e *format.SchemaElement) bool {
	if t, ok := e.LogicalType.Value.(*format.IntType); ok {
		return !t.IsSigned
	}
	if e.LogicalType.Value != nil || !e.ConvertedType.Valid {
		return false
	}
	switch e.ConvertedType.V {
	case deprecated.Uint8, deprecated.Uint16, deprecated.Uint32, deprecated.Uint64:
		return true
	}
	return false
}

// projection says what to read from a file for one path.
type projection struct {
	path   string
	kind   column.Kind
	name   string  // of the type
	lists  []*node // on the path, outermost first
	leaves []*leaf // one where values are read; every leaf of a record where its presence is
	parent int     // definition level from which on the parent is present
	values bool    // the path ends with a list of values

	elementsOnly bool // the path ends with a list of records: which elements each list has is all that is read
	copyLists    bool // the lists are those of projection copyFrom
	copyFrom     int
}

// innermost returns the last list of the path.
func (w *projection) innermost() *node { return w.lists[len(w.lists)-1] }

// project resolves a path. The kind is Missing if the file lacks the path, and Other if it has another shape there.
func project(root *node, path string) projection {
	w := projection{path: path, kind: column.Missing}
	at := root
	segments := strings.Split(path, ".")
	for k, segment := range segments {
		name, list := strings.CutSuffix(segment, "[]")
		last := k == len(segments)-1
		i := slices.IndexFunc(at.fields, func(n *node) bool { return n.name == name })
		if i < 0 {
			return projection{path: path, kind: column.Missing}
		}
		at = at.fields[i]
		if list != (at.elem != nil) || !last && !list && at.leaf != nil {
			if !last {
				return projection{path: path, kind: column.Missing} // the path that ends here reports the shape
			}
			if at.leaf != nil && at.leaf.kind == column.JSON {
				break
			}
			return presence(at, w)
		}
		if list {
			w.lists = append(w.lists, at)
			w.values = last && at.elem.leaf != nil
			at = at.elem
		}
	}
	return w.of(at)
}

// of completes the projection of a path that ends at a node.
func (w projection) of(at *node) projection {
	switch {
	case at.leaf != nil:
		w.kind, w.name, w.leaves, w.parent = at.leaf.kind, at.leaf.typeName, []*leaf{at.leaf}, at.parent
	case len(w.lists) > 0 && w.innermost().elem == at: // a list of records
		w.kind, w.elementsOnly, w.leaves, w.name = column.None, true, leavesOf(at, nil), "a list of records"
		if at.elem != nil {
			w.kind, w.name = column.Other, "a list of lists"
		}
	default:
		w = presence(at, w)
		w.kind = column.None
	}
	if len(w.leaves) == 0 { // a record without fields
		return projection{path: w.path, kind: column.Missing}
	}
	return w
}

// presence makes a projection that reads only whether there is any value below a node.
func presence(at *node, w projection) projection {
	w.kind, w.leaves, w.parent = column.Other, leavesOf(at, nil), at.parent
	switch {
	case at.elem != nil:
		w.name = "a list"
	case at.leaf != nil:
		w.name = at.leaf.typeName
	default:
		w.name = "a record"
	}
	return w
}

// leavesOf appends all leaves at or below a node.
func leavesOf(n *node, list []*leaf) []*leaf {
	switch {
	case n.leaf != nil:
		return append(list, n.leaf)
	case n.elem != nil:
		return leavesOf(n.elem, list)
	}
	for _, f := range n.fields {
		list = leavesOf(f, list)
	}
	return list
}

// unrequested projects, for their presence, the fields of records on the paths that no path names.
func unrequested(root *node, paths []string) []projection {
	u := unrequestedFields{named: map[string]bool{}, entered: map[string]bool{"": true}}
	for _, p := range paths {
		prefix := ""
		segments := strings.Split(p, ".")
		for k, segment := range segments {
			u.named[join(prefix, strings.TrimSuffix(segment, "[]"))] = true
			prefix = join(prefix, segment)
			u.entered[prefix] = u.entered[prefix] || k < len(segments)-1
		}
	}
	u.visit(root, "", nil)
	return u.found
}

type unrequestedFields struct {
	named   map[string]bool // fields that a path ends at or passes through
	entered map[string]bool // records that a path passes through
	found   []projection
}

// visit collects the fields of a record that no path names. prefix is its path, lists those on the way to it.
func (u *unrequestedFields) visit(n *node, prefix string, lists []*node) {
	for _, f := range n.fields {
		path := join(prefix, f.name)
		if !u.named[path] {
			if w := presence(f, projection{path: path, lists: slices.Clone(lists)}); len(w.leaves) > 0 {
				u.found = append(u.found, w)
			}
			continue
		}
		if f.elem != nil && u.entered[path+"[]"] {
			u.visit(f.elem, path+"[]", append(slices.Clone(lists), f))
		} else if f.elem == nil && u.entered[path] {
			u.visit(f, path, lists)
		}
	}
}

// join appends a name to a path.
func join(prefix, name string) string {
	if prefix == "" {
		return name
	}
	return prefix + "." + name
}
