package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// node is a JSON value that knows the order of its members and how its numbers are written.
type node struct {
	kind    string // object, list, text, whole, float, bool, null
	text    string
	keys    []string
	members []node // of keys, or of the list
}

// readNode reads a JSON value.
func readNode(t *testing.T, text []byte) node {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	n, err := nextNode(d)
	require.NoError(t, err)
	return n
}

func nextNode(d *json.Decoder) (n node, err error) {
	token, err := d.Token()
	if err != nil {
		return n, err
	}
	switch v := token.(type) {
	case json.Delim:
		n.kind = "list"
		if v == '{' {
			n.kind = "object"
		}
		for d.More() && err == nil {
			if v == '{' {
				var key json.Token
				if key, err = d.Token(); err != nil {
					break
				}
				n.keys = append(n.keys, key.(string))
			}
			var below node
			below, err = nextNode(d)
			n.members = append(n.members, below)
		}
		if err == nil {
			_, err = d.Token()
		}
	case string:
		n.kind, n.text = "text", v
	case json.Number:
		n.kind, n.text = "whole", v.String()
		if strings.ContainsAny(n.text, ".eE") {
			n.kind = "float"
		}
	case bool:
		n.kind, n.text = "bool", fmt.Sprint(v)
	default:
		n.kind = "null"
	}
	return n, err
}

// each calls visit with every value and its path.
func (n *node) each(path string, visit func(path string, n *node)) {
	visit(path, n)
	for k := range n.members {
		below := fmt.Sprintf("%s[%d]", path, k)
		if n.kind == "object" {
			below = path + "." + n.keys[k]
		}
		n.members[k].each(below, visit)
	}
}

// at returns a member; a node without a kind where there is none.
func (n *node) at(path ...string) *node {
	for _, key := range path {
		k := slices.Index(n.keys, key)
		if k < 0 {
			return &node{}
		}
		n = &n.members[k]
	}
	return n
}

// differing collects how two JSON values differ, each way once with an example.
type differing struct {
	loose    func(path string) bool                    // its value may be another
	absent   func(path string) bool                    // one of the two may have it alone
	scatters func(path string, keys []string) []string // of the keys of an object of the harness, those whose places are no same in two runs
	found    map[string]string

	rounded bool // a whole number may stand for one with a fraction
	strict  bool // lists are as long as each other, and their members are compared, although their values are loose
}

// examplesOfOne is how many differences of one member are told: rows have many.
const examplesOfOne = 3

func (d *differing) add(path, format string, args ...any) {
	what := fmt.Sprintf(format, args...)
	kind, _, _ := strings.Cut(what, ":")
	general := regexp.MustCompile(`\[\d+\]`).ReplaceAllString(path, "[]") + " " + kind
	for k := range examplesOfOne {
		key := fmt.Sprint(general, k)
		if d.found[key] == "" {
			d.found[key] = path + ": " + what
		}
		if d.found[key] == path+": "+what {
			return
		}
	}
}

// compare compares names, their order, kinds, and the values that must be equal.
func (d *differing) compare(path string, theirs, ours *node) {
	numbers := map[string]bool{"whole": true, "float": true}
	if theirs.kind != ours.kind && !(d.rounded && numbers[theirs.kind] && numbers[ours.kind]) {
		d.add(path, "kind: %s %.60s and %s %.60s", theirs.kind, theirs.text, ours.kind, ours.text)
		return
	}
	switch theirs.kind {
	case "object":
		var common [2][]string
		for _, key := range theirs.keys {
			if !slices.Contains(ours.keys, key) {
				if d.absent == nil || !d.absent(path+"."+key) {
					d.add(path+"."+key, "the harness has it alone")
				}
				continue
			}
			common[0] = append(common[0], key)
			d.compare(path+"."+key, theirs.at(key), ours.at(key))
		}
		for _, key := range ours.keys {
			switch {
			case slices.Contains(theirs.keys, key):
				common[1] = append(common[1], key)
			case d.absent == nil || !d.absent(path+"."+key):
				d.add(path+"."+key, "agentx has it alone")
			}
		}
		if d.scatters != nil {
			scattered := d.scatters(path, theirs.keys)
			for k := range common {
				common[k] = slices.DeleteFunc(common[k], func(key string) bool { return slices.Contains(scattered, key) })
			}
		}
		if k := samePrefix(common[0], common[1]); k < len(common[0]) {
			d.add(path, "order: the harness has %s where agentx has %s", common[0][k], common[1][k])
		}
	case "list":
		if d.loose(path) && !d.strict {
			break
		}
		if len(theirs.members) != len(ours.members) {
			d.add(path, "length: %d and %d", len(theirs.members), len(ours.members))
		}
		for k := range min(len(theirs.members), len(ours.members)) {
			d.compare(fmt.Sprintf("%s[%d]", path, k), &theirs.members[k], &ours.members[k])
		}
	default:
		if theirs.text != ours.text && !d.loose(path) && !sameNumber(theirs, ours) {
			d.add(path, "value: %.200q and %.200q", theirs.text, ours.text)
		}
	}
}

// sameNumber reports whether two numbers are the same but for the last bits of a sum.
func sameNumber(a, b *node) bool {
	var x, y float64
	return a.kind == "float" && json.Unmarshal([]byte(a.text), &x) == nil && json.Unmarshal([]byte(b.text), &y) == nil && math.Abs(x-y) <= 1e-9*math.Abs(x)
}
