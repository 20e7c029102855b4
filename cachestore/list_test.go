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

	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache"
)

// twins builds two datasets that share a structure and arenas, and returns their keys.
func twins(t *testing.T, root string) (first, second string) {
	y := plainToy(40)
	first = y.build(t, root, "first")
	m, err := readManifest(root, mmapcache.DatasetKind, first, "")
	require.NoError(t, err)
	starts := y.part(t, root, mmapcache.PlacementKind, "second", func(b *mmapcache.Builder) error { return y.writeStarts(t, b) })
	second = y.part(t, root, mmapcache.DatasetKind, "second", func(b *mmapcache.Builder) error {
		for kind, part := range m.Parts {
			b.AddPart(&manifest.Manifest{Kind: kind, Key: part.Key, Digest: part.Digest})
		}
		b.AddPart(starts)
		return nil
	}).Key
	return first, second
}

// keysOf lists the directories of a root by kind.
func keysOf(t *testing.T, root string) map[string]int {
	list, err := List(root)
	require.NoError(t, err)
	n := map[string]int{}
	for _, e := range list {
		n[e.Kind]++
	}
	return n
}

func kindsOf(list []RemovedDirectory) (kinds []string) {
	for _, r := range list {
		kinds = append(kinds, r.Kind)
	}
	return kinds
}

func bytesOf(t *testing.T, dir string) (n int64) {
	for _, data := range snapshotOf(t, dir) {
		n += int64(len(data))
	}
	return n
}

func TestFind(t *testing.T) {
	root := t.TempDir()
	key := plainToy(40).build(t, root, "")
	t.Chdir(root)
	for _, name := range []string{
		key, key[:minPrefix], mmapcache.DatasetPath(root, key), mmapcache.DatasetPath(root, key) + "/",
		filepath.Join("dataset", key), "./dataset/" + key + "/.",
	} {
		gotRoot, gotKey, err := Find(root, name)
		require.NoError(t, err, name)
		assert.Equal(t, root, gotRoot, name)
		assert.Equal(t, key, gotKey, name)
	}
	t.Chdir(mmapcache.DatasetPath(root, key))
	_, gotKey, err := Find("elsewhere", ".")
	require.NoError(t, err)
	assert.Equal(t, key, gotKey)
}

func TestFindSaysWhyNot(t *testing.T) {
	root := t.TempDir()
	key := plainToy(40).build(t, root, "")
	for _, name := range []string{"", "0123456789", key[:minPrefix-1], mmapcache.DatasetPath(root, "0123456789"), root, filepath.Join(root, "structure", key)} {
		_, _, err := Find(root, name)
		assert.ErrorIs(t, err, mmapcache.ErrNoCache, name)
	}
	_, _, err := Find(filepath.Join(root, "nothing"), key)
	assert.ErrorIs(t, err, mmapcache.ErrNoCache)
	stranger := mmapcache.DatasetPath(root, key[:minPrefix]+"-copy")
	require.NoError(t, os.Mkdir(stranger, 0o777))
	_, _, err = Find(root, stranger)
	assert.ErrorIs(t, err, mmapcache.ErrNoCache, "somebody else's")
	_, _, err = Find(root, key[:minPrefix])
	assert.NoError(t, err)
	require.NoError(t, os.Mkdir(mmapcache.DatasetPath(root, key[:minPrefix]+strings.Repeat("0", 64-minPrefix)), 0o777))
	_, _, err = Find(root, key[:minPrefix])
	assert.ErrorContains(t, err, "more than one")
}

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

func TestSizeIsThatOfDatasetAndParts(t *testing.T) {
	root := t.TempDir()
	key := plainToy(40).build(t, root, "")
	n, err := Size(root, key)
	require.NoError(t, err)
	require.NoError(t, os.Remove(filepath.Join(root, readmeName)))
	assert.Equal(t, bytesOf(t, root), n)
}

func TestRemoveKeepsWhatOthersName(t *testing.T) {
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

// A dataset whose manifest cannot be read might name any part.
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
	require.NoError(t, durable.Options{}.Remove(root, mmapcache.PlacementKind+"/"+info.Directories[2].Manifest.Key, nil))
	_, err = Describe(root, key)
	assert.Error(t, err)
}

// TestPartsByThemselves: a part is named like a dataset, where parts may be, and verified alone.
func TestPartsByThemselves(t *testing.T) {
	root := t.TempDir()
	key := plainToy(40).build(t, root, "")
	list, err := List(root)
	require.NoError(t, err)
	require.Len(t, list, 4)
	whole := int64(0)
	for _, e := range list {
		whole += e.Bytes
		for _, name := range []string{e.Path, e.Key, e.Key[:minPrefix]} {
			foundRoot, kind, found, err := FindAny(root, name)
			require.NoError(t, err)
			assert.Equal(t, []string{root, e.Kind, e.Key}, []string{foundRoot, kind, found})
			_, _, err = Find(root, name)
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
	_, _, _, err = FindAny(root, key[:minPrefix-1])
	assert.ErrorIs(t, err, mmapcache.ErrNoCache)
}

// What keeps one from looking is said: it is not that there is no cache, nor that it is damaged.
func TestWhatCannotBeReachedIsNotMissing(t *testing.T) {
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
		_, _, err = d.findDataset(root, mmapcache.DatasetPath(root, key))
		assert.ErrorIs(t, err, cause)
		assert.NotErrorIs(t, err, mmapcache.ErrNoCache)
		d.ReadDir = func(path string) ([]fs.DirEntry, error) { return nil, fault(path) }
		_, _, err = d.findDataset(root, key)
		assert.ErrorIs(t, err, cause)
		assert.NotErrorIs(t, err, mmapcache.ErrNoCache)
		_, err = d.listRoot(root)
		assert.ErrorIs(t, err, cause)
	}
}
