package cachestore

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache"
)

// removeDamaged removes damaged parts that a dataset names, but none that is whole or in use, and no dataset.
func TestRemoveDamaged(t *testing.T) {
	root := t.TempDir()
	key := plainToy(40).buildShards(t, root, "a", "b", "c")
	ref := func(kind, key string) mmapcache.Reference {
		return mmapcache.Reference{Kind: kind, Part: manifest.Part{Key: key}}
	}
	var list []mmapcache.Reference
	for _, salt := range []string{"a", "b"} {
		r := ref(mmapcache.StructureKind, keyOf(t, mmapcache.StructureKind, salt))
		path := filepath.Join(root, r.Kind, r.Key, "turns.arrow")
		good, err := os.ReadFile(path)
		require.NoError(t, err)
		spoils["flip"](t, path, good)
		list = append(list, r, r)
	}
	require.NoError(t, os.Truncate(filepath.Join(mmapcache.DatasetPath(root, key), manifest.FileName), 5))
	list = append(list, ref(mmapcache.StructureKind, keyOf(t, mmapcache.StructureKind, "c")), ref(mmapcache.DatasetKind, key), ref(mmapcache.PlacementKind, keyOf(t, mmapcache.PlacementKind, "none")))
	u := NoteUse(contextOf(t), root, list[2].Name())
	before := totalOf(t, root)
	r, err := removeDamaged(t.Context(), root, list, RemoveOptions{Force: true})
	require.NoError(t, err)
	require.Len(t, r.Removed, 1)
	assert.Equal(t, filepath.Join(root, list[0].Name()), r.Removed[0].Path)
	assert.Equal(t, "damaged: content does not match its digest", r.Removed[0].Why)
	assert.Equal(t, before-totalOf(t, root), r.Freed)
	require.Len(t, r.Kept, 2)
	assert.Contains(t, r.Kept[0].Why, "in use by process")
	assert.Equal(t, "it is whole", r.Kept[1].Why)
	assert.Empty(t, stagingOf(t, root))
	u.Close()
	r, err = removeDamaged(t.Context(), root, list, RemoveOptions{})
	require.NoError(t, err)
	assert.Len(t, r.Removed, 1)
	assert.True(t, exists(root, mmapcache.DatasetKind, key))
}
