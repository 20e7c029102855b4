package cachestore

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache"
)

func TestSizeCountsDatasetAndParts(t *testing.T) {
	root := t.TempDir()
	key := plainToy(40).build(t, root, "")
	n, err := Size(root, key)
	require.NoError(t, err)
	require.NoError(t, os.Remove(filepath.Join(root, readmeName)))
	assert.Equal(t, bytesOf(t, root), n)
}

func TestDescribe(t *testing.T) {
	root := t.TempDir()
	key := plainToy(40).build(t, root, "")
	info, err := Describe(root, key)
	require.NoError(t, err)
	require.Len(t, info.Directories, 4)
	for k, kind := range []string{mmapcache.DatasetKind, mmapcache.StructureKind, mmapcache.PlacementKind, mmapcache.ArenasKind} {
		assert.Equal(t, kind, info.Directories[k].Manifest.Kind)
		assert.Equal(t, "host", info.Directories[k].Provenance.Host)
	}
	require.NoError(t, os.Remove(filepath.Join(info.Directories[2].Path, manifest.ProvenanceName)))
	info, err = Describe(root, key)
	require.NoError(t, err)
	assert.Nil(t, info.Directories[2].Provenance)
	removal := durable.Options{}.Removal(root)
	starts := mmapcache.PlacementKind + "/" + info.Directories[2].Manifest.Key
	require.NoError(t, removal.Remove(t.Context(), []string{starts}, nil)[starts])
	require.Empty(t, removal.Finish())
	_, err = Describe(root, key)
	assert.Error(t, err)
}
