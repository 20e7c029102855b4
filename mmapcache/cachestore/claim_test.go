package cachestore

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/mmapcache"
)

// A name that would leave its folder, or is none, is refused before anything is written.
func TestClaimRefusesNamesThatAreNoDirectory(t *testing.T) {
	root := t.TempDir()
	for _, c := range [][2]string{
		{mmapcache.DatasetKind, ""}, {mmapcache.DatasetKind, ".."}, {mmapcache.DatasetKind, "../../x"}, {mmapcache.DatasetKind, "a/b"},
		{mmapcache.DatasetKind, ".hidden"}, {"", "abc"}, {"../../dataset", "abc"}, {"other", "abc"},
	} {
		lease, m, err := Claim(withoutSync(t), root, c[0], c[1], ClaimOptions{})
		require.ErrorContains(t, err, "cachestore: claim ", "%q", c)
		require.Nil(t, lease)
		require.Nil(t, m)
	}
	entries, err := os.ReadDir(root)
	require.NoError(t, err)
	require.Empty(t, entries)
}
