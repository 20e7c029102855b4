package measure

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestSpecificationNamesEveryKey looks up every JSON key of the results in doc/spec/results.md, or in the counters that
// it refers to.
func TestSpecificationNamesEveryKey(t *testing.T) {
	var text strings.Builder
	for _, name := range []string{"results.md", "replay/08-metrics.md"} {
		document, err := os.ReadFile("../../doc/spec/" + name)
		require.NoError(t, err)
		text.Write(document)
	}
	results := []any{Record{}, Summary{}, RunInfo{}, LaneReport{}, List{}}
	seen := map[reflect.Type]bool{}
	var walk func(of reflect.Type)
	walk = func(of reflect.Type) {
		switch of.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			walk(of.Elem())
			return
		case reflect.Struct:
		default:
			return
		}
		if of.PkgPath() != reflect.TypeFor[Record]().PkgPath() || seen[of] {
			return
		}
		seen[of] = true
		for k := range of.NumField() {
			f := of.Field(k)
			key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if key != "" && key != "-" {
				assert.True(t, strings.Contains(text.String(), "`"+key+"`"), "%s.%s: doc/spec/results.md has no key %q", of.Name(), f.Name, key)
			}
			walk(f.Type)
		}
	}
	for _, r := range results {
		walk(reflect.TypeOf(r))
	}
	assert.Greater(t, len(seen), 10)
}

// TestSpecificationMapsKeysThatExist looks up the keys of the second column of doc/spec/results.md 14 in a summary.
func TestSpecificationMapsKeysThatExist(t *testing.T) {
	text, err := os.ReadFile("../../doc/spec/results.md")
	require.NoError(t, err)
	_, table, _ := strings.Cut(string(text), "\n## 14. ")
	table, _, _ = strings.Cut(table, "\n## ")
	rows := regexp.MustCompile("(?m)^\\| `[^|]*\\| ([^|]*) \\|").FindAllStringSubmatch(table, -1)
	require.Greater(t, len(rows), 7)
	for _, row := range rows {
		for _, name := range regexp.MustCompile("`([^`]*)`").FindAllStringSubmatch(row[1], -1) {
			if name[1] == "lanes.jsonl" {
				continue
			}
			at := reflect.TypeFor[Summary]()
			for key := range strings.SplitSeq(name[1], ".") {
				field, ok := fieldOfKey(at, key)
				require.True(t, ok, "%s: a summary has no such key", name[1])
				if at = field.Type; at.Kind() == reflect.Pointer {
					at = at.Elem()
				}
			}
		}
	}
}

// fieldOfKey returns the field of a struct that has a JSON key.
func fieldOfKey(of reflect.Type, key string) (reflect.StructField, bool) {
	if of.Kind() != reflect.Struct {
		return reflect.StructField{}, false
	}
	for _, f := range reflect.VisibleFields(of) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name == key {
			return f, true
		}
	}
	return reflect.StructField{}, false
}
