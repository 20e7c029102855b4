package durable

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Holders names the newest holder of each lease, and takes no lease itself.
func TestHolders(t *testing.T) {
	posix(t, "it knows no dead processes")
	root := t.TempDir()
	none, err := Holders(filepath.Join(root, "nowhere"))
	require.NoError(t, err)
	assert.Empty(t, none)

	l := acquire(t, root, Waiting{}) // thing.000001
	far := as(func(o *owner) { o.host, o.boot, o.pid = "far", "b", 7 })
	dead := as(func(o *owner) { o.pid = deadPid })
	for _, path := range []string{
		"shards-abc.000003/" + dead.fileName(), "shards-abc.000004/" + far.fileName(), // taken over
		"gone.000001/" + dead.fileName(), "empty.000001", "strange.000001/stranger", far.fileName(),
	} {
		require.NoError(t, os.MkdirAll(filepath.Join(root, StagingDir, path), 0o777))
	}
	require.NoError(t, os.WriteFile(filepath.Join(root, StagingDir, "file.000001"), nil, 0o666))
	before := staging(t, root)
	holders, err := Holders(root)
	require.NoError(t, err)
	assert.Equal(t, map[string]Holder{
		"thing": {Who: thisProcess().describe()}, "shards-abc": {Who: "process 7 on far"}, "gone": {Who: dead.describe(), Dead: true},
	}, holders)
	assert.Equal(t, before, staging(t, root))
	require.NoError(t, l.Release())
}
