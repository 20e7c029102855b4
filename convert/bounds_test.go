package convert

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache"
)

// The manifest of an input with very many findings stays small, and counts what it does not list.
func TestListsOfAManifestAreBounded(t *testing.T) {
	seconds(t)
	long := strings.Repeat("x", 1<<20)
	rows := []string{traceText(long), traceText("a")}
	keys := make([]string, 1500)
	for k := range keys {
		keys[k] = fmt.Sprintf(`"key%04d": 1`, k)
	}
	rows = append(rows, strings.Replace(traceText("b"), "{", "{"+strings.Join(keys, ",")+`,"`+long+`":1,`, 1))
	for k := range 1100 {
		rows = append(rows, fmt.Sprintf(`{"id": "bad%d"}`, k))
	}
	o := options(t, lines(t, rows...))
	o.SkipInvalid, o.shardRows = true, 4096 // one structure
	first := o.convert(t)
	for _, r := range []*Result{first, o.convert(t)} {
		assert.Len(t, r.Facts.Skipped, mmapcache.MaxListed)
		assert.Equal(t, 1100, r.Facts.AllSkipped())
		assert.Len(t, r.Facts.Unknown, mmapcache.MaxListed)
		assert.Equal(t, 501, r.Facts.UnknownMore)
	}
	path := filepath.Join(o.Root, mmapcache.StructureKind, first.Parts[mmapcache.StructureKind].Key)
	info, err := os.Stat(filepath.Join(path, manifest.FileName))
	require.NoError(t, err)
	assert.Less(t, info.Size(), int64(1<<20))
	requireSound(t, first)
}

// A conversion fails where its parts are removed while it ends.
func TestPartsThatAreGoneAtTheEnd(t *testing.T) {
	o := options(t, lines(t, traceText("a")))
	r := o.convert(t)
	require.NoError(t, os.RemoveAll(r.Path))
	part := filepath.Join(o.Root, mmapcache.ArenasKind, r.Parts[mmapcache.ArenasKind].Key)
	o.disk.Step = func(name, path string) error {
		if name == "release" && strings.Contains(path, "dataset-") {
			return os.RemoveAll(part)
		}
		return nil
	}
	_, err := Convert(t.Context(), o)
	require.ErrorContains(t, err, part)
	require.ErrorContains(t, err, "run convert again")
}
