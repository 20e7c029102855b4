package main

import (
	"errors"
	"slices"
	"strconv"
	"strings"
)

// counts is a flag value: whole numbers with commas between.
type counts struct{ to *[]int }

func (c counts) String() string {
	if c.to == nil {
		return ""
	}
	var list []string
	for _, n := range *c.to {
		list = append(list, strconv.Itoa(n))
	}
	return strings.Join(list, ",")
}

func (c counts) Type() string { return "int" }

// Set replaces all numbers.
func (c counts) Set(text string) error {
	list, ok := readCounts(text)
	if !ok {
		return errors.New("want a whole number, or several with commas between")
	}
	*c.to = list
	return nil
}

func readCounts(text string) (list []int, ok bool) {
	for part := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil {
			return nil, false
		}
		list = append(list, n)
	}
	return list, true
}

// lanesKind is one number of lanes, several with commas between, none twice, or a search.
func lanesKind(most int) kind {
	k := whole(1, most)
	k.want += ", several with commas between, none twice, or auto:FROM-TO"
	k.list = true
	k.tags = append(k.tags, yamlText)
	k.schema = map[string]any{"anyOf": []any{
		k.schema, map[string]any{"type": "array", "items": k.schema, "minItems": 1, "uniqueItems": true},
		map[string]any{"type": "string", "pattern": "^([1-9][0-9]*( *, *[1-9][0-9]*)*|" + autoPattern + ")$"},
	}}
	k.parse = func(text string) (any, bool) {
		if _, ok := parseAuto(text, most); ok {
			return text, true
		}
		list, ok := readCounts(text)
		for i, n := range list {
			ok = ok && n >= 1 && n <= most && !slices.Contains(list[:i], n)
		}
		return text, ok
	}
	return k
}
