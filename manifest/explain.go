package manifest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Absent is the value in a Difference of a side that lacks the field.
const Absent = "absent"

// maxElements is how many differing elements of one list are listed field by field.
const maxElements = 3

// Difference is one field in which two pre-images differ.
type Difference struct {
	Field string `json:"field"` // "rules.block_size", "inputs[3].sha256"; "." for an image that is no object
	Want  string `json:"want"`  // compact JSON, or Absent
	Have  string `json:"have"`
}

// Differences compares two pre-images field by field. Fields are sorted by name, elements of a list by number.
//
// Lists of different length give one difference about that, in words ("600 elements"). Of the elements that both have, the
// first three that differ are compared field by field. A last difference, "inputs[...]", counts the others: both sides say
// "12 more differ".
//
// The error is about a pre-image that is not JSON.
func Differences(want, have json.RawMessage) ([]Difference, error) {
	c, err := compare(want, have)
	return c.list, err
}

// Neighbor is a manifest and its differences from another one.
type Neighbor struct {
	Manifest    *Manifest
	Differences []Difference // of the other's pre-image (Want) and this one's (Have)
	Count       int          // fields that differ, and list elements that only one side has
}

// Nearest orders manifests by how many fields of their pre-images differ from those of want, the fewest first, then by
// key. Those of another kind are left out. The error is about a pre-image that is not JSON.
func Nearest(want *Manifest, list []*Manifest) ([]Neighbor, error) {
	near := []Neighbor{}
	for _, m := range list {
		if m.Kind != want.Kind {
			continue
		}
		c, err := compare(want.PreImage, m.PreImage)
		if err != nil {
			return nil, fmt.Errorf("%s %s: pre-image: %w", m.Kind, m.Key, err)
		}
		near = append(near, Neighbor{m, c.list, c.count})
	}
	slices.SortFunc(near, func(a, b Neighbor) int {
		return cmp.Or(a.Count-b.Count, strings.Compare(a.Manifest.Key, b.Manifest.Key))
	})
	return near, nil
}

// comparison collects differences.
type comparison struct {
	list  []Difference
	count int  // of all, listed or not
	quiet bool // count only
}

// compare parses two pre-images and collects their differences.
func compare(want, have json.RawMessage) (*comparison, error) {
	c := &comparison{list: []Difference{}}
	a, err := parse(want)
	if err != nil {
		return c, err
	}
	b, err := parse(have)
	if err != nil {
		return c, err
	}
	c.values("", a, b)
	return c, nil
}

// add notes a difference of n fields.
func (c *comparison) add(n int, field, want, have string) {
	c.count += n
	if field == "" {
		field = "."
	}
	if !c.quiet {
		c.list = append(c.list, Difference{field, want, have})
	}
}

// values compares two values of a field.
func (c *comparison) values(field string, want, have any) {
	switch a := want.(type) {
	case map[string]any:
		if b, ok := have.(map[string]any); ok {
			c.objects(field, a, b)
			return
		}
	case []any:
		if b, ok := have.([]any); ok {
			c.lists(field, a, b)
			return
		}
	}
	if a, b := text(want), text(have); a != b {
		c.add(1, field, a, b)
	}
}

// objects compares two objects member by member, in the order of their names.
func (c *comparison) objects(field string, want, have map[string]any) {
	names := slices.Collect(maps.Keys(want))
	for name := range have {
		if _, ok := want[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		path := fieldName(name)
		if field != "" {
			path = field + "." + path
		}
		a, wanted := want[name]
		b, had := have[name]
		switch {
		case !wanted:
			c.add(1, path, Absent, text(b))
		case !had:
			c.add(1, path, text(a), Absent)
		default:
			c.values(path, a, b)
		}
	}
}

// lists compares two lists element by element, and counts without listing them those beyond maxElements.
func (c *comparison) lists(field string, want, have []any) {
	if a, b := len(want), len(have); a != b {
		c.add(max(a, b)-min(a, b), field, elements(a), elements(b))
	}
	differ, quiet := 0, c.quiet
	for k := range min(len(want), len(have)) {
		before := c.count
		c.quiet = quiet || differ >= maxElements
		c.values(field+"["+strconv.Itoa(k)+"]", want[k], have[k])
		if c.count > before {
			differ++
		}
	}
	c.quiet = quiet
	if more := differ - maxElements; more > 0 {
		words := fmt.Sprintf("%d more differ", more)
		c.add(0, field+"[...]", words, words)
	}
}

func elements(n int) string {
	if n == 1 {
		return "1 element"
	}
	return fmt.Sprintf("%d elements", n)
}

// fieldName returns the name of a field as part of a path, in quotes if it is empty or has characters of the path syntax.
func fieldName(name string) string {
	if name == "" || strings.ContainsAny(name, ".[]\"\\ ") {
		return strconv.Quote(name)
	}
	return name
}

// text writes a value that was parsed.
func text(v any) string {
	out, _ := compact(v) // what was parsed can be written
	return string(out)
}
