package mmapcache

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/timeline"
)

// describedColumns reads the columns that a document lists under the head of each table, as "name type null".
func describedColumns(t *testing.T, document string) map[string][]string {
	described, table := map[string][]string{}, ""
	names := regexp.MustCompile("`([a-z_]+)`")
	for line := range strings.Lines(document) {
		if head := regexp.MustCompile("^## `([a-z]+\\.arrow)`").FindStringSubmatch(line); head != nil {
			table = head[1]
		}
		cells := strings.Split(line, "|")
		if len(cells) < 5 || !strings.HasPrefix(line, "| `") {
			continue
		}
		types := strings.Split(strings.TrimSpace(strings.ReplaceAll(cells[2], ", *null*", " null")), ", ")
		for k, name := range names.FindAllStringSubmatch(cells[1], -1) {
			described[table] = append(described[table], name[1]+" "+types[min(k, len(types)-1)])
		}
	}
	require.NotEmpty(t, described)
	return described
}

// fieldsOf lists the columns of a table in the same words.
func fieldsOf[R any](table Table[R]) (list []string) {
	columns := table.columns
	if table.late != nil {
		columns = append(columns, table.late)
	}
	for _, c := range columns {
		f := c.field()
		kind := strings.Replace(f.Type.String(), "utf8", "string", 1)
		if f.Metadata.FindKey(wordsKey) >= 0 {
			kind = "word"
		}
		if f.Nullable {
			kind += " null"
		}
		list = append(list, f.Name+" "+kind)
	}
	return list
}

// TestTablesAreDescribed: doc/tables.md has every column of every table, with its type, and every value of an enum.
func TestTablesAreDescribed(t *testing.T) {
	data, err := os.ReadFile("../doc/tables.md")
	require.NoError(t, err)
	document := string(data)
	s := NewStructure()
	described := describedColumns(t, document)
	for file, columns := range map[string][]string{
		s.Traces.file: fieldsOf(s.Traces), s.Sessions.file: fieldsOf(s.Sessions), s.Turns.file: fieldsOf(s.Turns),
		s.Segments.file: fieldsOf(s.Segments), s.Runs.file: fieldsOf(s.Runs), s.Tools.file: fieldsOf(s.Tools),
	} {
		assert.ElementsMatch(t, columns, described[file], file)
		delete(described, file)
	}
	assert.Empty(t, described, "tables that are not there")
	for k, name := range []fmt.Stringer{Main, Subagent, Flat} {
		assert.Contains(t, document, fmt.Sprintf("%d `%s`", k, name))
	}
	for k, name := range []fmt.Stringer{System, User, Assistant} {
		assert.Contains(t, document, fmt.Sprintf("%d `%s`", k, name))
	}
	for _, k := range []InputKind{UserInput, ToolResult} {
		assert.Contains(t, document, fmt.Sprintf("%d `%s`", k, k))
	}
	for _, k := range []timeline.Origin{timeline.FromReturn, timeline.FromIssue} {
		assert.Contains(t, document, fmt.Sprintf("%d `%s`", k, k))
	}
	assert.Equal(t, []SegmentFlags{1, 2, 4}, []SegmentFlags{Continues, Filler, Head})
}
