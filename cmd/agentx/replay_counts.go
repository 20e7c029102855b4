package main

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/agentx/agentx/replay"
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

// contextLength is the value of --max-context: a number of tokens, or replay.ServerContext.
type contextLength int

// serverContext is the word for replay.ServerContext.
const serverContext = "server"

func (c *contextLength) String() string {
	if *c == replay.ServerContext {
		return serverContext
	}
	return strconv.Itoa(int(*c))
}

func (c *contextLength) Type() string { return "string" }

// Set reads a number, or the word.
func (c *contextLength) Set(text string) error {
	v, err := contextKind.read(text)
	if n, number := v.(int); err == nil && number {
		*c = contextLength(n)
	} else if err == nil {
		*c = replay.ServerContext
	}
	return err
}

// contextKind is a number of tokens, or the word server.
var contextKind = kind{
	want: anyCount.want + ", or " + serverContext, words: []string{serverContext}, flag: "string", tags: []string{yamlInt, yamlText},
	schema: map[string]any{"anyOf": []any{anyCount.schema, map[string]any{"type": "string", "pattern": "^([0-9]+|" + serverContext + ")$"}}},
	parse: func(text string) (any, bool) {
		if text == serverContext {
			return text, true
		}
		return anyCount.parse(text)
	},
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
