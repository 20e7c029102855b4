package main

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"

	"github.com/agentx/agentx/cachestore"
	"github.com/agentx/agentx/hfsource/hub"
)

// On a terminal lists keep to its columns, and names are whole.
func TestListsFitTheTerminal(t *testing.T) {
	var names, entries strings.Builder
	printNames(&names, 80)
	for _, n := range hub.NamedDatasets() {
		assert.Contains(t, names.String(), n.Name+"\n")
	}
	one := cachestore.Entry{Kind: "dataset", Key: strings.Repeat("0", 64), Source: strings.Repeat("/long", 40)}
	all := cachestore.Overview{Datasets: []cachestore.Entry{one}}
	all.WriteTable(&entries, all.Datasets, false, 80)
	for line := range strings.Lines(names.String() + entries.String()) {
		assert.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), 80, line)
	}
}
