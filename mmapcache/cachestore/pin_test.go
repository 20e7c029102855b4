package cachestore

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/mmapcache"
)

// A pin that is not a regular file counts as a pin, and reading it does not block.
func TestPinsThatAreNotFiles(t *testing.T) {
	root := t.TempDir()
	key := plainToy(40).build(t, root, "")
	require.NoError(t, os.MkdirAll(useDirOf(root), 0o777))
	path := usePath(root, key, pinSuffix)
	require.NoError(t, mkfifo(t, path))
	pin, err := readPin(root, key)
	require.NoError(t, err)
	assert.Equal(t, "somebody", pin.Who)
	require.NoError(t, os.Remove(path))
	require.NoError(t, os.WriteFile(path, nil, 0o666))
	require.NoError(t, os.Truncate(path, 20<<30)) // a hole
	pin, err = readPin(root, key)
	require.NoError(t, err)
	assert.Equal(t, "somebody", pin.Who)
}

func TestPins(t *testing.T) {
	root := t.TempDir()
	first, second := twins(t, root)
	before := snapshotOf(t, root)
	assert.ErrorIs(t, Pin(contextOf(t), root, strings.Repeat("0", 64), "me"), mmapcache.ErrNoCache)
	assert.ErrorIs(t, Pin(contextOf(t), root, "nothing/"+first, "me"), mmapcache.ErrNoCache)
	assert.Equal(t, before, snapshotOf(t, root))
	was, err := Unpin(root, first)
	require.NoError(t, err)
	assert.False(t, was)
	require.NoError(t, Pin(contextOf(t), root, first, "me"))
	require.NoError(t, Pin(contextOf(t), root, first, "you"), "once more is fine")
	info, err := Describe(root, first)
	require.NoError(t, err)
	require.NotNil(t, info.Pin)
	assert.Equal(t, "you", info.Pin.Who)
	assert.NotEmpty(t, info.Pin.Host)
	assert.WithinDuration(t, time.Now(), info.Pin.When, time.Hour)
	list, err := List(root)
	require.NoError(t, err)
	for _, e := range list {
		want := e.Key != second && (e.Kind != mmapcache.PlacementKind || e.Key == partKey(t, root, first, mmapcache.PlacementKind))
		assert.Equal(t, want, e.Pinned, "%s %s: what a pinned dataset names is pinned", e.Kind, e.Key)
	}
	was, err = Unpin(root, first)
	require.NoError(t, err)
	assert.True(t, was)
	assert.False(t, entryOf(t, root, mmapcache.DatasetKind, first).Pinned)

	require.NoError(t, os.WriteFile(usePath(root, first, pinSuffix), []byte("{"), 0o666))
	assert.True(t, entryOf(t, root, mmapcache.DatasetKind, first).Pinned, "a pin that cannot be made out is one")
}
