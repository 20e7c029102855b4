package mmapcache

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/manifest"
)

// buildManyShards writes a dataset of n shards, all with the traces of a toy, and returns its key. The shards have directories of
// their own, whose files are links to those of the first.
func buildManyShards(t testing.TB, y *toy, root string, n int) string {
	arenas := y.buildArenas(t, root, "")
	structure := y.buildStructure(t, root, "")
	starts := y.part(t, root, PlacementKind, "", func(b *Builder) error { return y.writeStarts(t, b) })
	own, err := StructureFactsOf(structure)
	require.NoError(t, err)
	var facts DatasetFacts
	for k := range n {
		facts.addShard(linked(t, root, structure, k), linked(t, root, starts, k), own)
	}
	return publishShards(t, root, "", facts, arenas)
}

// linked makes a directory with the files of another and a key of its own.
func linked(t testing.TB, root string, from *manifest.Manifest, number int) *manifest.Manifest {
	m, err := manifest.New(from.Kind, map[string]int{"number": number})
	require.NoError(t, err)
	m.Files, m.Facts = from.Files, from.Facts
	data, err := m.Encode()
	require.NoError(t, err)
	dir := filepath.Join(root, m.Kind, m.Key)
	require.NoError(t, os.Mkdir(dir, 0o777))
	require.NoError(t, os.WriteFile(filepath.Join(dir, manifest.FileName), data, 0o666))
	for _, f := range m.Files {
		require.NoError(t, os.Link(filepath.Join(root, from.Kind, from.Key, f.Name), filepath.Join(dir, f.Name)))
	}
	return m
}

// A dataset of 1,000 shards opens without its tables. Damage of one of them is no error for those who take other traces. Verify finds it.
//
// Covers D-12.
func TestManyShardsOpenLazily(t *testing.T) {
	root := t.TempDir()
	key := buildManyShards(t, manyToys(3), root, 1000)
	turns := shardFile(t, root, key, StructureKind, 700, "turns.arrow")
	data, err := os.ReadFile(turns)
	require.NoError(t, err)
	require.NoError(t, os.Remove(turns)) // it is a link
	bad := bytes.Clone(data)
	bad[len(bad)/2] ^= 1
	require.NoError(t, os.WriteFile(turns, bad, 0o666))

	d, opened := watched()
	c, err := d.openDataset(root, key)
	require.NoError(t, err)
	defer c.Close()
	require.Equal(t, 3000, c.Traces())
	require.Zero(t, opened("turns.arrow"))
	for _, i := range []int{0, 1, 2, 2099, 2103, 2999} {
		_, err := c.Render(i, Text)
		require.NoError(t, err, i)
	}
	require.Equal(t, 4, opened("turns.arrow"))
	_, err = c.Render(2100, Text)
	require.ErrorIs(t, err, ErrDamaged)
	require.ErrorContains(t, err, turns)
	v, err := Verify(t.Context(), root, key)
	require.NoError(t, err)
	require.Len(t, v.Damages, 1)
	assert.Equal(t, turns, v.Damages[0].File)
}

// What opening a dataset and reading some of its traces takes does not grow with the tables of the other shards. Nor does a pass over
// all of them.
//
// Covers D-4.
func TestMemoryOfManyShards(t *testing.T) {
	y := manyToys(1024)
	memory := func(shards int) (opened, passed, verified int64) {
		root := t.TempDir()
		key := buildManyShards(t, y, root, shards)
		before := heapInUse()
		c := open(t, root, key)
		for k := range 3 {
			_, err := c.Render(1024*k, Text)
			require.NoError(t, err)
		}
		opened = heapInUse() - before
		require.NoError(t, c.EachShard(func(first int, s *Structure) error {
			if first/1024%(shards/10) == 0 {
				passed = max(passed, heapInUse()-before)
			}
			return nil
		}))
		runtime.KeepAlive(c)
		before = heapInUse()
		d, looks := realDisk(), 0
		d.Open = func(path string) (fs.File, int64, error) {
			if looks++; looks%shards == 0 {
				verified = max(verified, heapInUse()-before)
			}
			return manifest.Open(path)
		}
		_, err := d.verifyDirectory(t.Context(), root, DatasetKind, key)
		require.NoError(t, err)
		return opened, passed, verified
	}
	fewOpened, fewPassed, fewVerified := memory(10)
	manyOpened, manyPassed, manyVerified := memory(60)
	const ofShard = 4 << 10 // what the manifest and Cache have of it, with room
	assert.Less(t, manyOpened, fewOpened+50*ofShard)
	assert.Less(t, manyPassed, fewPassed+50*ofShard)
	assert.Less(t, manyVerified, fewVerified+50*ofShard)
}

// heapInUse returns the bytes of the objects on the heap that are in use.
func heapInUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
