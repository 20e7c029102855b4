package weka

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/agentx/agentx/hfsource/column"
)

// rowOf returns a JSON object as a row. It is slow and simple: ScanColumns is compared with it. A key that an
// object lacks is Null, as in a file that has a column for it. A value that a column cannot hold, such as a string under a
// key with numbers, is an error.
func rowOf(paths []string, text []byte) (*column.Row, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var object map[string]any
	if err := d.Decode(&object); err != nil {
		return nil, err
	}
	row := &column.Row{}
	for _, p := range paths {
		b := newBuilder(p)
		b.visit(object, strings.Split(p, "."), 0)
		if err := b.finish(); err != nil {
			return nil, err
		}
		row.Wanted = append(row.Wanted, b.column)
	}
	others, err := unrequested(object, paths)
	if err != nil {
		return nil, err
	}
	for _, p := range others {
		b := newBuilder(p)
		b.column.Kind, b.column.Type, b.presenceOnly = column.Other, "other", true
		b.visit(object, strings.Split(p, "."), 0)
		row.Others = append(row.Others, b.column)
	}
	return row, nil
}

// builder builds one column.
type builder struct {
	column       column.Column
	presenceOnly bool  // no values are wanted
	hasRecords   bool  // some values are records
	values       []any // the others, nil for null
	shapeErr     error // where the object has another shape than the path
}

func newBuilder(path string) *builder {
	return &builder{column: column.Column{Path: path, Lists: make([]column.List, strings.Count(path, "[]"))}}
}

// visit adds what a record, nil where there is none, has for the rest of the path.
func (b *builder) visit(record map[string]any, segments []string, depth int) {
	name, isList := strings.CutSuffix(segments[0], "[]")
	v := record[name]
	inner, _ := v.(map[string]any)
	switch {
	case isList:
		b.visitList(v, stateOf(record, v), segments[1:], depth)
	case len(segments) > 1:
		b.visit(inner, segments[1:], depth)
	default:
		b.addValue(v, stateOf(record, v))
	}
}

// stateOf returns the state of a field of a record.
func stateOf(record map[string]any, v any) column.State {
	switch {
	case record == nil:
		return column.Absent
	case v == nil:
		return column.Null
	}
	return column.Value
}

// addValue adds the value at the end of a path that does not end with a list.
func (b *builder) addValue(v any, state column.State) {
	record, _ := v.(map[string]any)
	b.hasRecords = b.hasRecords || record != nil
	if b.presenceOnly || record != nil {
		if state == column.Value && !holdsValue(v) {
			state = column.Null
		}
	} else {
		b.values = append(b.values, v)
		if _, isList := v.([]any); isList {
			b.shapeErr = fmt.Errorf("%s is a list", b.column.Path)
		}
	}
	b.column.State = append(b.column.State, state)
}

// visitList adds a list, and what its elements have for the rest of the path.
func (b *builder) visitList(v any, state column.State, rest []string, depth int) {
	elements, ok := v.([]any)
	if !ok && v != nil {
		b.shapeErr = fmt.Errorf("%s is no list", b.column.Path)
	}
	l := &b.column.Lists[depth]
	first := int32(0)
	if n := len(l.Ends); n > 0 {
		first = l.Ends[n-1]
	}
	l.State, l.Ends = append(l.State, state), append(l.Ends, first+int32(len(elements)))
	if len(rest) == 0 {
		b.column.State = l.State
	}
	for k, e := range elements {
		record, isRecord := e.(map[string]any)
		switch {
		case len(rest) > 0:
			b.visit(record, rest, depth+1)
		case isRecord:
			b.hasRecords = true
		default:
			if e == nil {
				b.column.Nulls = append(b.column.Nulls, first+int32(k))
			}
			b.values = append(b.values, e)
		}
	}
}

// holdsValue reports whether there is any value other than null in v.
func holdsValue(v any) bool {
	switch v := v.(type) {
	case nil:
		return false
	case map[string]any:
		return slices.ContainsFunc(slices.Collect(maps.Values(v)), holdsValue)
	case []any:
		return slices.ContainsFunc(v, holdsValue)
	}
	return true
}

// finish finds the type that all values have in common, and converts them.
func (b *builder) finish() error {
	if b.shapeErr != nil {
		return b.shapeErr
	}
	c := &b.column
	for _, v := range b.values {
		if err := b.addKind(kindOf(v)); err != nil {
			return err
		}
	}
	if c.Kind == column.Missing {
		c.Kind = column.None
	}
	c.Type = [...]string{"", "null", "INT64", "", "DOUBLE", "BYTE_ARRAY", "BOOLEAN"}[c.Kind]
	for _, v := range b.values {
		if err := b.convert(v); err != nil {
			return err
		}
	}
	return nil
}

func kindOf(v any) column.Kind {
	switch v := v.(type) {
	case nil:
		return column.None
	case string:
		return column.Text
	case json.Number:
		if _, err := strconv.ParseInt(v.String(), 10, 64); err != nil || v == "-0" {
			return column.Float
		}
		return column.Int
	}
	return column.Other
}

// addKind makes the kind of the column one that can hold values of another kind too.
func (b *builder) addKind(kind column.Kind) error {
	c := &b.column
	switch {
	case kind == column.None:
	case b.hasRecords:
		return fmt.Errorf("%s holds records and values", c.Path)
	case kind == c.Kind:
	case c.Kind == column.Missing:
		c.Kind = kind
	case c.Kind+kind == column.Int+column.Float:
		c.Kind = column.Float
	default:
		return fmt.Errorf("%s holds values of several types", c.Path)
	}
	return nil
}

// convert appends a value as the kind of the column.
func (b *builder) convert(v any) error {
	c := &b.column
	n, _ := v.(json.Number)
	switch c.Kind {
	case column.Int:
		x, _ := n.Int64()
		c.Ints = append(c.Ints, x)
	case column.Float:
		x, _ := n.Float64()
		if math.Abs(x) > 1<<53 {
			return fmt.Errorf("%s holds floating point numbers, and %s, which is none", c.Path, n)
		}
		c.Floats = append(c.Floats, x)
	case column.Text:
		x, _ := v.(string)
		c.Texts = append(c.Texts, x)
	}
	return nil
}

// unrequested lists the fields of records on the paths that no path names, sorted.
func unrequested(object map[string]any, paths []string) ([]string, error) {
	f := fieldFinder{named: map[string]bool{}, entered: map[string]bool{}, found: map[string]bool{}}
	for _, p := range paths {
		segments := strings.Split(p, ".")
		for k := range segments {
			at := strings.Join(segments[:k+1], ".")
			f.named[strings.TrimSuffix(at, "[]")] = true
			f.entered[at] = f.entered[at] || k < len(segments)-1
		}
	}
	f.visit(object, "")
	return slices.Sorted(maps.Keys(f.found)), f.err
}

// fieldFinder finds fields that no path names.
type fieldFinder struct {
	named   map[string]bool // fields that a path ends at or passes through
	entered map[string]bool // records that a path passes through
	found   map[string]bool
	err     error // a field whose name cannot be part of a path
}

func (f *fieldFinder) visit(record map[string]any, prefix string) {
	for name, v := range record {
		if strings.ContainsAny(name, ".[") {
			f.err = fmt.Errorf("%q is no name of a path", name)
		}
		path := prefix + name
		inside, _ := v.(map[string]any)
		elements, _ := v.([]any)
		switch {
		case !f.named[path]:
			f.found[path] = true
		case f.entered[path] && inside != nil:
			f.visit(inside, path+".")
		case f.entered[path+"[]"]:
			for _, e := range elements {
				inside, _ := e.(map[string]any)
				f.visit(inside, path+"[].")
			}
		}
	}
}
