package cachestore

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache"
)

func TestList(t *testing.T) {
	root := t.TempDir()
	none, err := List(filepath.Join(root, "nothing"))
	require.NoError(t, err)
	assert.NotNil(t, none)
	assert.Empty(t, none)

	first, second := twins(t, root)
	young := filepath.Join(mmapcache.DatasetPath(root, first), manifest.ProvenanceName)
	require.NoError(t, os.WriteFile(young, []byte(`{"created":"2030-01-01T00:00:00Z","sources":[{"path":"a"},{"path":"b"}]}`), 0o666))
	require.NoError(t, os.Mkdir(mmapcache.DatasetPath(root, ".hidden"), 0o777))
	require.NoError(t, os.WriteFile(mmapcache.DatasetPath(root, "file"), nil, 0o666))
	empty := strings.Repeat("0", 64)
	require.NoError(t, os.Mkdir(mmapcache.DatasetPath(root, empty), 0o777))
	require.NoError(t, os.Mkdir(mmapcache.DatasetPath(root, "backup"), 0o777))
	list, err := List(root)
	require.NoError(t, err)
	var kinds, keys []string
	for _, e := range list {
		kinds = append(kinds, e.Kind)
		keys = append(keys, e.Key)
	}
	assert.Equal(t, []string{mmapcache.DatasetKind, mmapcache.DatasetKind, mmapcache.DatasetKind, mmapcache.ArenasKind, mmapcache.PlacementKind, mmapcache.PlacementKind, mmapcache.StructureKind}, kinds)
	assert.Equal(t, []string{empty, second, first}, keys[:3], "by age, undated first")
	assert.NotEmpty(t, list[0].Damaged)
	assert.Empty(t, list[1].Damaged)
	assert.Equal(t, "in", list[1].Source)
	assert.Equal(t, "a and 1 more", list[2].Source)
	assert.Equal(t, bytesOf(t, list[3].Path), list[3].Bytes)
}

// Manifests leaves out what cannot be read, and what has another's name.
func TestManifests(t *testing.T) {
	root := t.TempDir()
	none, err := Manifests(root, mmapcache.PlacementKind)
	require.NoError(t, err)
	assert.Empty(t, none)
	twins(t, root)
	keys, err := realDisk().keysOf(root, mmapcache.PlacementKind)
	require.NoError(t, err)
	require.Len(t, keys, 2)
	dir := filepath.Join(root, mmapcache.PlacementKind)
	require.NoError(t, os.CopyFS(filepath.Join(dir, strings.Repeat("0", 64)), os.DirFS(filepath.Join(dir, keys[0]))))
	require.NoError(t, os.Mkdir(filepath.Join(dir, strings.Repeat("1", 64)), 0o777))
	list, err := Manifests(root, mmapcache.PlacementKind)
	require.NoError(t, err)
	require.Len(t, list, 2)
	for k, m := range list {
		assert.Equal(t, []string{mmapcache.PlacementKind, keys[k]}, []string{m.Kind, m.Key})
	}
}

// List and Find report what cannot be reached as unreachable, neither as missing nor as damaged.
func TestUnreachableIsNotMissing(t *testing.T) {
	root := t.TempDir()
	key := plainToy(40).build(t, root, "")
	for _, cause := range []error{syscall.EACCES, syscall.EIO, syscall.ESTALE, syscall.ETIMEDOUT} {
		d := realDisk()
		fault := func(path string) error { return &fs.PathError{Op: "open", Path: path, Err: cause} }
		d.Stat = func(path string) (fs.FileInfo, error) { return nil, fault(path) }
		d.Open = func(path string) (fs.File, int64, error) { return nil, 0, fault(path) }
		entries, err := d.listRoot(root)
		require.NoError(t, err)
		require.Len(t, entries, 4)
		for _, e := range entries {
			assert.Empty(t, e.Damaged, cause)
			assert.Contains(t, e.Unreadable, cause.Error())
		}
		_, err = d.find(root, mmapcache.DatasetPath(root, key))
		assert.ErrorIs(t, err, cause)
		assert.NotErrorIs(t, err, mmapcache.ErrNoCache)
		d.ReadDir = func(path string) ([]fs.DirEntry, error) { return nil, fault(path) }
		_, err = d.find(root, key)
		assert.ErrorIs(t, err, cause)
		assert.NotErrorIs(t, err, mmapcache.ErrNoCache)
		_, err = d.listRoot(root)
		assert.ErrorIs(t, err, cause)
	}
}
