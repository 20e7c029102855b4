package cachestore

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache"
)

func TestCheckRoot(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	root := filepath.Join(base, "root")
	key := plainToy(40).build(t, root, "")
	copied := filepath.Join(base, "copied") // without a staging directory
	require.NoError(t, os.CopyFS(filepath.Join(copied, mmapcache.DatasetKind, key), os.DirFS(mmapcache.DatasetPath(root, key))))
	alone := filepath.Join(base, "alone")
	require.NoError(t, os.CopyFS(alone, os.DirFS(mmapcache.DatasetPath(root, key))))
	damaged := filepath.Join(base, "damaged", mmapcache.PlacementKind, "key")
	require.NoError(t, os.MkdirAll(damaged, 0o777))
	require.NoError(t, os.WriteFile(filepath.Join(damaged, manifest.FileName), nil, 0o666))
	other := filepath.Join(base, "other")
	require.NoError(t, os.MkdirAll(filepath.Join(other, mmapcache.DatasetKind), 0o777))
	require.NoError(t, os.WriteFile(filepath.Join(other, manifest.FileName), []byte(`{"name":"another program's"}`), 0o666))
	link := filepath.Join(base, "link")
	require.NoError(t, os.Symlink(filepath.Join(root, mmapcache.PlacementKind), link))
	out := filepath.Join(root, mmapcache.DatasetKind, "out")
	require.NoError(t, os.Symlink(other, out))

	t.Chdir(root)
	for path, outer := range map[string]string{
		mmapcache.DatasetPath(root, key):                                root,
		filepath.Join(mmapcache.DatasetPath(root, key), "deep", "down"): root,
		filepath.Join(root, mmapcache.StructureKind):                    root,
		filepath.Join(root, mmapcache.ArenasKind, "not", "there"):       root,
		filepath.Join(root, durable.StagingDir):                         root,
		filepath.Join(root, durable.StagingDir, "x"):                    root,
		useDirOf(root):                           root,
		filepath.Join(useDirOf(root), "x"):       root,
		filepath.Join("dataset", "..", "starts"): root,
		link:                                     root,
		filepath.Join(link, "not", "there"):      root,
		filepath.Join(copied, mmapcache.DatasetKind, key):           copied,
		filepath.Join(copied, mmapcache.DatasetKind, key, "x", "y"): copied,
		alone:                       alone,
		filepath.Join(alone, "x"):   alone,
		filepath.Join(damaged, "x"): filepath.Join(base, "damaged"),
	} {
		err := CheckRoot(path)
		assert.EqualError(t, err, fmt.Sprintf("cache root %s lies inside the cache %s: use another directory", path, outer))
	}
	for _, path := range []string{
		root, ".", "", filepath.Join(root, "mine"), filepath.Join(root, "mine", mmapcache.DatasetKind), filepath.Join(base, "not", "there"), "/",
		other, filepath.Join(other, mmapcache.DatasetKind), filepath.Join(other, mmapcache.DatasetKind, "x"), out, base, copied,
	} {
		assert.NoError(t, CheckRoot(path), path)
	}
}
