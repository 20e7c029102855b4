package measure

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestSpecificationNamesEveryKey looks up every JSON key of the results in doc/spec/results.md, or in the counters that
// it refers to.
func TestSpecificationNamesEveryKey(t *testing.T) {
	var text strings.Builder
	for _, name := range []string{"results.md", "replay.md"} {
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
