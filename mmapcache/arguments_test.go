package mmapcache_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/cachetest"
	"github.com/agentx/agentx/mmapcache"
)

// An argument that names nothing is an error, not a panic.
func TestRenderRefusesWhatDoesNotExist(t *testing.T) {
	c := cachetest.Demo(t)
	structure, err := mmapcache.OpenStructure(c.Root, c.Manifest.Parts[mmapcache.StructureKind].Key)
	require.NoError(t, err)
	defer structure.Close()
	for _, i := range []int{-1, c.Traces()} {
		_, err = c.Render(i, mmapcache.Text)
		require.ErrorContains(t, err, "out of range [0,16)")
		_, err = c.Digest(i, "m")
		require.ErrorContains(t, err, "out of range [0,16)")
	}
	_, err = c.Render(0, mmapcache.IDs+1)
	require.ErrorContains(t, err, "encoding 2: want 0 (text) or 1 (ids)")
	_, _, err = c.Sample(mmapcache.IDs+1, 1)
	require.ErrorContains(t, err, "encoding 2: want 0 (text) or 1 (ids)")
	_, err = structure.Render(0, mmapcache.Text)
	require.ErrorContains(t, err, "opened without prompts")
}
