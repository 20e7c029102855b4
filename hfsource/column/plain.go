package column

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// FromJSON returns the columns of a row that is given as a JSON object: the slow and plain way, that readers of files are
// held against. A key that an object lacks is Null, as in a file that has a column for it. What one column of a file
// cannot hold, such as numbers and strings under one key, is an error.
func FromJSON(paths []string, text []byte) (*Row, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var value map[string]any
	if err := d.Decode(&value); err != nil {
		return nil, err
	}
	row := &Row{}
	for _, p := range paths {
		b := plain{c: Column{Path: p, Lists: make([]List, strings.Count(p, "[]"))}}
		b.visit(value, strings.Split(p, "."), 0)
		if err := b.finish(); err != nil {
			return nil, err
		}
		row.Wanted = append(row.Wanted, b.c)
	}
	others, err := unasked(value, paths)
	if err != nil {
		return nil, err
	}
	for _, p := range others {
		b := plain{c: Column{Path: p, Lists: make([]List, strings.Count(p, "[]")), Kind: Other, Type: "other"}, presence: true}
		b.visit(value, strings.Split(p, "."), 0)
		row.Others = append(row.Others, b.c)
	}
	return row, nil
}

// plain builds one column.
type plain struct {
	c        Column
	presence bool
	records  bool  // some values are records
	raw      []any // the others, nil for null
	shape    error // of a value that the path does not stand for
}

func (b *plain) visit(in map[string]any, segments []string, depth int) {
	name, list := strings.CutSuffix(segments[0], "[]")
	v := in[name]
	state := Value
	switch {
	case in == nil:
		state = Absent
	case v == nil:
		state = Null
	}
	last := len(segments) == 1
	if !list {
		record, _ := v.(map[string]any)
		if !last {
			b.visit(record, segments[1:], depth)
			return
		}
		b.records = b.records || record != nil
		if b.presence || record != nil {
			if state == Value && !holds(v) {
				state = Null
			}
		} else {
			b.raw = append(b.raw, v)
			if _, array := v.([]any); array {
				b.shape = fmt.Errorf("%s is a list", b.c.Path)
			}
		}
		b.c.State = append(b.c.State, state)
		return
	}
	elements, ok := v.([]any)
	if !ok && v != nil {
		b.shape = fmt.Errorf("%s is no list", b.c.Path)
	}
	l := &b.c.Lists[depth]
	end := int32(len(elements))
	if n := len(l.Ends); n > 0 {
		end += l.Ends[n-1]
	}
	l.State, l.Ends = append(l.State, state), append(l.Ends, end)
	for k, e := range elements {
		record, isRecord := e.(map[string]any)
		switch {
		case !last:
			b.visit(record, segments[1:], depth+1)
		case isRecord:
			b.records = true
		default:
			if e == nil {
				b.c.Nulls = append(b.c.Nulls, end-int32(len(elements)-k))
			}
			b.raw = append(b.raw, e)
		}
	}
	if last {
		b.c.State = l.State
	}
}

// holds reports whether there is any value below v.
func holds(v any) bool {
	switch v := v.(type) {
	case nil:
		return false
	case map[string]any:
		for _, e := range v {
			if holds(e) {
				return true
			}
		}
		return false
	case []any:
		return slices.ContainsFunc(v, holds)
	}
	return true
}

// finish finds the type that all values have in common, and converts them.
func (b *plain) finish() error {
	c := &b.c
	if b.shape != nil {
		return b.shape
	}
	for _, v := range b.raw {
		kind := None
		switch v := v.(type) {
		case json.Number:
			kind = Int
			if _, err := strconv.ParseInt(v.String(), 10, 64); err != nil || v == "-0" {
				kind = Float
			}
		case string:
			kind = Text
		case nil:
		default:
			kind = Other
		}
		switch {
		case kind == None:
		case b.records:
			return fmt.Errorf("%s holds records and values", c.Path)
		case kind == c.Kind:
		case c.Kind == Missing:
			c.Kind = kind
		case c.Kind+kind == Int+Float:
			c.Kind = Float
		default:
			return fmt.Errorf("%s holds values of several types", c.Path)
		}
	}
	if c.Kind == Missing {
		c.Kind = None
	}
	c.Type = [...]string{"", "null", "INT64", "", "DOUBLE", "BYTE_ARRAY", "BOOLEAN"}[c.Kind]
	for _, v := range b.raw {
		n, _ := v.(json.Number)
		switch c.Kind {
		case Int:
			x, _ := n.Int64()
			c.Ints = append(c.Ints, x)
		case Float:
			x, _ := n.Float64()
			if math.Abs(x) > 1<<53 {
				return fmt.Errorf("%s holds floating point numbers, and %s, which is none", c.Path, n)
			}
			c.Floats = append(c.Floats, x)
		case Text:
			x, _ := v.(string)
			c.Texts = append(c.Texts, x)
		}
	}
	return nil
}

// unasked lists the fields of records on the paths that no path names, sorted.
func unasked(value map[string]any, paths []string) (list []string, err error) {
	named, entered := map[string]bool{}, map[string]bool{}
	for _, p := range paths {
		segments := strings.Split(p, ".")
		for k := range segments {
			at := strings.Join(segments[:k+1], ".")
			named[strings.TrimSuffix(at, "[]")] = true
			entered[at] = entered[at] || k < len(segments)-1
		}
	}
	found := map[string]bool{}
	var visit func(record map[string]any, prefix string)
	visit = func(record map[string]any, prefix string) {
		for name, v := range record {
			if strings.ContainsAny(name, ".[") {
				err = fmt.Errorf("%q is no name of a path", name)
			}
			path := prefix + name
			inside, _ := v.(map[string]any)
			elements, _ := v.([]any)
			switch {
			case !named[path]:
				found[path] = true
			case entered[path] && inside != nil:
				visit(inside, path+".")
			case entered[path+"[]"]:
				for _, e := range elements {
					inside, _ := e.(map[string]any)
					visit(inside, path+"[].")
				}
			}
		}
	}
	visit(value, "")
	for p := range found {
		list = append(list, p)
	}
	slices.Sort(list)
	return list, err
}
