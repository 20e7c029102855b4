package cachestore

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache"
)

func TestRemoveRefusesPinnedAndUsedDatasets(t *testing.T) {
	root := t.TempDir()
	key := plainToy(40).build(t, root, "")
	require.NoError(t, Pin(contextOf(t), root, key, "me"))
	for _, force := range []bool{false, true} {
		_, err := Remove(t.Context(), root, key, RemoveOptions{Force: force})
		assert.ErrorIs(t, err, ErrPinned)
		assert.ErrorContains(t, err, "pinned by me on ")
	}
	_, err := Unpin(root, key)
	require.NoError(t, err)
	u := use(t, root, key)
	_, err = Remove(t.Context(), root, key, RemoveOptions{})
	assert.ErrorIs(t, err, ErrInUse)
	assert.ErrorContains(t, err, fmt.Sprintf("in use by process %d on ", os.Getpid()))
	whole(t, root, key)
	r, err := Remove(t.Context(), root, key, RemoveOptions{Force: true})
	require.NoError(t, err)
	assert.Equal(t, []string{mmapcache.DatasetKind}, kindsOf(r.Removed))
	assert.Len(t, r.Kept, 3, "who reads the parts goes on reading them")
	assert.False(t, exists(root, mmapcache.DatasetKind, key))
	u.Close()
	r = gc(t, root, time.Now().Add(2*time.Hour), forever())
	assert.Len(t, r.Removed, 3)
	assert.Empty(t, keysOf(t, root))
	entries, err := os.ReadDir(useDirOf(root))
	require.NoError(t, err)
	assert.Empty(t, entries)
}

func TestRemoveKeepsSharedParts(t *testing.T) {
	root := t.TempDir()
	first, second := twins(t, root)
	before := bytesOf(t, root)
	r, err := Remove(t.Context(), root, first, RemoveOptions{})
	require.NoError(t, err)
	assert.Equal(t, before-bytesOf(t, root), r.Freed)
	assert.Equal(t, r.BytesAfter, r.BytesBefore-r.Freed)
	assert.Equal(t, []string{mmapcache.DatasetKind, mmapcache.PlacementKind}, kindsOf(r.Removed), "the dataset first")
	assert.Equal(t, map[string]int{mmapcache.DatasetKind: 1, mmapcache.PlacementKind: 1, mmapcache.StructureKind: 1, mmapcache.ArenasKind: 1}, keysOf(t, root))
	v, err := mmapcache.Verify(t.Context(), root, second)
	require.NoError(t, err)
	assert.Empty(t, v.Damages)

	_, err = Remove(t.Context(), root, second, RemoveOptions{})
	require.NoError(t, err)
	assert.Empty(t, keysOf(t, root))
	require.NoError(t, os.Remove(filepath.Join(root, readmeName)))
	assert.Empty(t, snapshotOf(t, root))
	assert.Empty(t, stagingOf(t, root))
	_, err = Remove(t.Context(), root, second, RemoveOptions{})
	assert.ErrorIs(t, err, mmapcache.ErrNoCache)
}

// Remove keeps parts that a dataset may name whose manifest cannot be read.
func TestRemoveKeepsPartsThatADamagedDatasetMightName(t *testing.T) {
	root := t.TempDir()
	first, second := twins(t, root)
	require.NoError(t, os.Remove(filepath.Join(mmapcache.DatasetPath(root, second), manifest.FileName)))
	_, err := Remove(t.Context(), root, first, RemoveOptions{})
	require.NoError(t, err)
	assert.Equal(t, map[string]int{mmapcache.DatasetKind: 1, mmapcache.PlacementKind: 2, mmapcache.StructureKind: 1, mmapcache.ArenasKind: 1}, keysOf(t, root))
}

func TestRemoveOfADamagedDatasetLeavesItsParts(t *testing.T) {
	root := t.TempDir()
	key := plainToy(40).build(t, root, "")
	require.NoError(t, os.Truncate(filepath.Join(mmapcache.DatasetPath(root, key), manifest.FileName), 5))
	r, err := Remove(t.Context(), root, key, RemoveOptions{})
	require.NoError(t, err)
	assert.Positive(t, r.Freed)
	assert.Equal(t, map[string]int{mmapcache.PlacementKind: 1, mmapcache.StructureKind: 1, mmapcache.ArenasKind: 1}, keysOf(t, root))
}

func TestRemoveOfADatasetWhosePartsAreGone(t *testing.T) {
	root := t.TempDir()
	key := plainToy(40).build(t, root, "")
	require.NoError(t, os.RemoveAll(filepath.Join(root, mmapcache.PlacementKind)))
	_, err := Remove(t.Context(), root, key, RemoveOptions{})
	require.NoError(t, err)
	assert.Empty(t, keysOf(t, root))
}
