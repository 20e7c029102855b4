package cachestore

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/cachedir/faultdisk"
	"github.com/agentx/agentx/mmapcache"
)

func TestFind(t *testing.T) {
	root := t.TempDir()
	key := plainToy(40).build(t, root, "")
	t.Chdir(root)
	for _, name := range []string{
		key, key[:minPrefix], mmapcache.DatasetPath(root, key), mmapcache.DatasetPath(root, key) + "/",
		filepath.Join("dataset", key), "./dataset/" + key + "/.",
	} {
		got, err := Find(root, name)
		require.NoError(t, err, name)
		assert.Equal(t, Name{root, mmapcache.DatasetKind, key}, got, name)
	}
	t.Chdir(mmapcache.DatasetPath(root, key))
	got, err := Find("elsewhere", ".")
	require.NoError(t, err)
	assert.Equal(t, key, got.Key)
}

func TestFindErrors(t *testing.T) {
	root := t.TempDir()
	key := plainToy(40).build(t, root, "")
	for _, name := range []string{"", "0123456789", key[:minPrefix-1], mmapcache.DatasetPath(root, "0123456789"), root, filepath.Join(root, "structure", key)} {
		_, err := Find(root, name)
		assert.ErrorIs(t, err, mmapcache.ErrNoCache, name)
	}
	_, err := Find(filepath.Join(root, "nothing"), key)
	assert.ErrorIs(t, err, mmapcache.ErrNoCache)
	stranger := mmapcache.DatasetPath(root, key[:minPrefix]+"-copy")
	require.NoError(t, os.Mkdir(stranger, 0o777))
	_, err = Find(root, stranger)
	assert.ErrorIs(t, err, mmapcache.ErrNoCache, "a foreign directory")
	_, err = Find(root, key[:minPrefix])
	assert.NoError(t, err)
	require.NoError(t, os.Mkdir(mmapcache.DatasetPath(root, key[:minPrefix]+strings.Repeat("0", 64-minPrefix)), 0o777))
	_, err = Find(root, key[:minPrefix])
	assert.ErrorContains(t, err, "more than one")
}

// Find finds parts by path and key, and VerifyPart verifies them alone.
func TestFindFindsParts(t *testing.T) {
	root := t.TempDir()
	key := plainToy(40).build(t, root, "")
	list, err := List(root)
	require.NoError(t, err)
	require.Len(t, list, 4)
	whole := int64(0)
	for _, e := range list {
		whole += e.Bytes
		for _, name := range []string{e.Path, e.Key, e.Key[:minPrefix]} {
			found, err := Find(root, name, mmapcache.Kinds()...)
			require.NoError(t, err)
			assert.Equal(t, Name{root, e.Kind, e.Key}, found)
			_, err = Find(root, name)
			if e.Kind == mmapcache.DatasetKind {
				require.NoError(t, err)
			} else {
				assert.ErrorIs(t, err, mmapcache.ErrNoCache, "a part is no cache")
			}
		}
	}
	assert.Equal(t, whole, list[0].TotalBytes)
	for _, e := range list[1:] {
		assert.Equal(t, e.Bytes, e.TotalBytes)
		v, err := mmapcache.VerifyPart(t.Context(), root, e.Kind, e.Key)
		require.NoError(t, err)
		assert.Empty(t, v.Damages)
		m, err := readManifest(root, e.Kind, e.Key, "")
		require.NoError(t, err)
		file := filepath.Join(e.Path, m.Files[0].Name)
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		data[len(data)-1] ^= 1
		require.NoError(t, os.WriteFile(file, data, 0o666))
		v, err = mmapcache.VerifyPart(t.Context(), root, e.Kind, e.Key)
		require.NoError(t, err)
		require.Len(t, v.Damages, 1)
		assert.Equal(t, file, v.Damages[0].File)
		require.NoError(t, os.RemoveAll(e.Path))
		_, err = mmapcache.VerifyPart(t.Context(), root, e.Kind, e.Key)
		assert.ErrorIs(t, err, mmapcache.ErrNoCache)
	}
	_, err = Find(root, key[:minPrefix-1], mmapcache.Kinds()...)
	assert.ErrorIs(t, err, mmapcache.ErrNoCache)
}

// Find finds a dataset that another host has just published, although this client remembers that it was missing.
func TestFindLooksPastRememberedMisses(t *testing.T) {
	root := filepath.Join(t.TempDir(), "a", "root")
	key := plainToy(40).build(t, root, "")
	var ways []string
	for path := mmapcache.DatasetPath(root, key); path != filepath.Dir(filepath.Dir(root)); path = filepath.Dir(path) {
		ways = append(ways, path)
	}
	for _, missing := range append([][]string{ways}, singles(ways)...) {
		for _, name := range []string{key, key[:minPrefix], mmapcache.DatasetPath(root, key)} {
			c := &faultdisk.Client{Missing: map[string]bool{}}
			for _, path := range missing {
				c.Missing[path] = true
			}
			found, err := disk{c.Disk()}.find(root, name)
			require.NoError(t, err, "%s", missing)
			require.Equal(t, key, found.Key)
		}
	}
}

func singles(list []string) (sets [][]string) {
	for _, s := range list {
		sets = append(sets, []string{s})
	}
	return sets
}
