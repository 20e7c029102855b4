package cachestore

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Of many input files info shows the first three, where it says what a directory is made of.
func TestShortInputs(t *testing.T) {
	for preImage, want := range map[string]string{
		`{"inputs":[1,2,3],"z":{}}`:      `{"inputs":[1,2,3],"z":{}}`,
		`{"inputs":[1,2,3,4,5],"a":1e3}`: `{"a":1e3,"inputs":[1,2,3,"and 2 more"]}`,
		`{"z":1}`:                        `{"z":1}`,
		`[1,2,3,4]`:                      `[1,2,3,4]`,
	} {
		assert.Equal(t, want, string(shortInputs([]byte(preImage))))
	}
}

// Many directories that differ in their key alone are one line of a report.
func TestReportOfManyDirectories(t *testing.T) {
	r := &GCReport{}
	add := func(kind, key, why string) {
		r.Removed = append(r.Removed, RemovedDirectory{Kind: kind, Key: strings.Repeat(key, 16), Bytes: 1000, Why: why})
		r.Kept = append(r.Kept, KeptDirectory{Path: "/root/" + kind + "/" + strings.Repeat(key, 16), Why: why})
	}
	add("dataset", "aaaa", "old")
	for k := range 12 {
		add("structure", fmt.Sprintf("%04d", k), "unnamed")
		add("starts", fmt.Sprintf("%04d", k), fmt.Sprint("reason ", k%2))
	}
	var out strings.Builder
	r.Write(&out, -1)
	var lines []string
	for line := range strings.Lines(out.String()) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	require.Len(t, lines, 2*(1+1+12)+1)
	assert.Equal(t, "removed dataset aaaaaaaaaaaa 1.0 kB old", lines[0])
	assert.Equal(t, "removed structure 12 of them 12.0 kB unnamed", lines[1])
	assert.Equal(t, "removed starts 000000000000 1.0 kB reason 0", lines[2])
	assert.Equal(t, "kept structure 12 of them unnamed", lines[15])
}
