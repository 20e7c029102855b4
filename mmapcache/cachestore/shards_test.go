package cachestore

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache"
)

// kin builds two datasets of three shards that share all but one, and returns their keys.
func kin(t *testing.T, root string) (first, second string) {
	y := plainToy(40)
	return y.buildShards(t, root, "a", "b", "c"), y.buildShards(t, root, "a", "d", "b")
}

// A shard that two datasets name is listed and counted once, and stays until both are removed.
func TestRemoveKeepsSharedShards(t *testing.T) {
	root := t.TempDir()
	first, second := kin(t, root)
	before := bytesOf(t, root)
	r, err := Remove(t.Context(), root, first, RemoveOptions{})
	require.NoError(t, err)
	assert.Equal(t, []string{mmapcache.DatasetKind, mmapcache.StructureKind, mmapcache.PlacementKind}, kindsOf(r.Removed), "of the shards one alone")
	assert.Equal(t, before-bytesOf(t, root), r.Freed)
	assert.Equal(t, map[string]int{mmapcache.DatasetKind: 1, mmapcache.StructureKind: 3, mmapcache.PlacementKind: 3, mmapcache.ArenasKind: 1}, keysOf(t, root))
	whole(t, root, second)
	_, err = Remove(t.Context(), root, second, RemoveOptions{})
	require.NoError(t, err)
	assert.Empty(t, keysOf(t, root))
}

// GC keeps the shards of a dataset in another format, which the version of its manifest tells, and those that a damaged dataset
// may name.
func TestGCKeepsShardsOfDatasetsThatItCannotOpen(t *testing.T) {
	root, now := t.TempDir(), time.Now()
	first, second := kin(t, root)
	m, err := readManifest(root, mmapcache.DatasetKind, first, "")
	require.NoError(t, err)
	facts, err := mmapcache.DatasetFactsOf(m)
	require.NoError(t, err)
	key := plainToy(40).publish(t, root, mmapcache.DatasetKind, map[string]int{"format": mmapcache.Format + 1}, func(b *mmapcache.Builder) error {
		b.AddPart(&manifest.Manifest{Kind: mmapcache.ArenasKind, Key: m.Parts[mmapcache.ArenasKind].Key, Digest: m.Parts[mmapcache.ArenasKind].Digest})
		return b.NameShards(facts)
	}).Key
	assert.Contains(t, entryOf(t, root, mmapcache.DatasetKind, key).Unreadable, "made in cache format")
	r, err := Remove(t.Context(), root, first, RemoveOptions{})
	require.NoError(t, err)
	assert.Equal(t, []string{mmapcache.DatasetKind}, kindsOf(r.Removed))
	assert.Empty(t, gc(t, root, now.Add(1000*time.Hour), forever()).Removed)

	rewrite(t, root, mmapcache.DatasetKind, key, func(m *manifest.Manifest) { m.Facts = []byte(`{"shards":[{"structure":{"key":"../../x"}}]}`) })
	for _, e := range keysAndKinds(t, root) {
		ageDirectory(t, root, e[0], e[1], now.Add(-2*time.Hour))
	}
	ageDirectory(t, root, mmapcache.DatasetKind, key, now.Add(-time.Minute))
	r = gc(t, root, now, forever())
	assert.Empty(t, r.Removed)
	assert.Len(t, r.Kept, 3)
	assert.Equal(t, "damaged, but made less than an hour ago", r.Kept[0].Why)
	for _, k := range r.Kept[1:] {
		assert.Equal(t, fmt.Sprintf("dataset %s, which cannot be read, may name it", key), k.Why)
	}
	whole(t, root, second)
}

// Everything that a dataset of shards names is noted as in use with it, and stays if the dataset is removed.
func TestNoteOfADatasetOfShards(t *testing.T) {
	root := t.TempDir()
	first, _ := kin(t, root)
	u := NoteDataset(contextOf(t), root, first)
	assert.Len(t, usersOf(t, root), 8)
	r, err := Remove(t.Context(), root, first, RemoveOptions{Force: true})
	require.NoError(t, err)
	assert.Equal(t, []string{mmapcache.DatasetKind}, kindsOf(r.Removed))
	assert.Len(t, r.Kept, 2)
	u.Close()
	assert.Len(t, gc(t, root, time.Now().Add(2*time.Hour), forever()).Removed, 2)
}

// Directories that a builder adds to its note count from then on.
func TestUseThatGrows(t *testing.T) {
	root := t.TempDir()
	m := plainToy(40).buildStructure(t, root, "")
	u := NoteUse(contextOf(t), root)
	u.Add(contextOf(t), mmapcache.StructureKind+"/"+m.Key)
	assert.Empty(t, gc(t, root, time.Now().Add(time.Hour+time.Minute), forever()).Removed)
	u.Close()
	assert.Len(t, gc(t, root, time.Now().Add(time.Hour+time.Minute), forever()).Removed, 1)
}

// A survey counts every part once, and those that no dataset names.
func TestSurvey(t *testing.T) {
	root := t.TempDir()
	first, second := kin(t, root)
	one := plainToy(40).build(t, root, "one")
	orphan := plainToy(40).buildStructure(t, root, "nobody's")
	o, err := Survey(root)
	require.NoError(t, err)
	require.Len(t, o.Datasets, 3)
	own := int64(0)
	for _, e := range o.Datasets {
		size, err := Size(root, e.Key)
		require.NoError(t, err)
		assert.Equal(t, size, e.TotalBytes)
		assert.Equal(t, map[string]int{first: 3, second: 3, one: 0}[e.Key], e.Shards)
		own += e.Bytes
	}
	assert.Equal(t, 8+1+3+1, o.Parts.Count)
	assert.Equal(t, totalOf(t, root), own+o.Parts.Bytes)
	assert.Equal(t, Total{1, sizeOf(root, mmapcache.StructureKind, orphan.Key)}, o.Unnamed)
	assert.True(t, entryOf(t, root, mmapcache.StructureKind, orphan.Key).Unnamed)
	assert.False(t, entryOf(t, root, mmapcache.ArenasKind, partKey(t, root, one, mmapcache.ArenasKind)).Unnamed)

	rewrite(t, root, mmapcache.DatasetKind, first, func(m *manifest.Manifest) { m.Facts = []byte(`{"shards":[]}`) })
	assert.Contains(t, entryOf(t, root, mmapcache.DatasetKind, first).Damaged, "damaged")
	o, err = Survey(root)
	require.NoError(t, err)
	assert.Zero(t, o.Unnamed, "it may be named by what is damaged")
}

// A file that the input has twice is one shard on disk.
func TestShardThatADatasetNamesTwice(t *testing.T) {
	root := t.TempDir()
	key := plainToy(40).buildShards(t, root, "a", "b", "a")
	size, err := Size(root, key)
	require.NoError(t, err)
	assert.Equal(t, size, totalOf(t, root))
	e := entryOf(t, root, mmapcache.DatasetKind, key)
	assert.Equal(t, []int64{size, 3}, []int64{e.TotalBytes, int64(e.Shards)})
	_, err = Remove(t.Context(), root, key, RemoveOptions{})
	require.NoError(t, err)
	assert.Empty(t, keysOf(t, root))
}

// A remover that is killed between any two steps leaves nothing that looks whole and is not, also where the renames are lost that
// were not yet synced. It syncs each directory of a kind once, however many shards there are.
func TestRemoverOfShardsKilledAtAnyStep(t *testing.T) {
	root := filepath.Join(t.TempDir(), "root")
	first, second := plainToy(40).buildShards(t, root, "a", "b", "c", "d"), plainToy(40).buildShards(t, root, "b")
	syncs, kills := map[string]int{}, 0
	kill := func() {
		for _, lost := range []func(kind string) bool{
			func(string) bool { return false },
			func(kind string) bool { return kind == mmapcache.DatasetKind },
			func(string) bool { return true },
		} {
			copied := filepath.Join(t.TempDir(), "root")
			require.NoError(t, os.CopyFS(copied, os.DirFS(root)))
			undoRenames(t, copied, func(kind string) bool { return syncs[kind] == 0 && lost(kind) })
			requireAllWhole(t, copied)
			whole(t, copied, second)
		}
		kills++
	}
	killed := durable.Options{Sync: unsynced.Sync, Heartbeat: time.Hour, Step: func(step, path string) error { // no beat is between two steps
		kill()
		if kind := filepath.Base(path); step == "sync" && slices.Contains(mmapcache.Kinds(), kind) {
			defer func() { syncs[kind]++ }() // those renames are on disk now
		}
		return nil
	}}
	_, err := Remove(durable.WithOptions(t.Context(), killed), root, first, RemoveOptions{})
	require.NoError(t, err)
	kill()
	assert.Greater(t, kills, 30, "steps")
	assert.Equal(t, map[string]int{mmapcache.DatasetKind: 1, mmapcache.StructureKind: 1, mmapcache.PlacementKind: 1}, syncs, "another dataset names the arenas")
	whole(t, root, second)
	assert.Empty(t, stagingOf(t, root))
}

// undoRenames renames what a remover has renamed away back, of the kinds that are lost.
func undoRenames(t *testing.T, root string, lost func(kind string) bool) {
	found, err := filepath.Glob(filepath.Join(root, durable.StagingDir, "gc.*", "*", "*", manifest.FileName))
	require.NoError(t, err)
	for _, path := range found {
		m, err := manifest.Read(filepath.Dir(path))
		require.NoError(t, err)
		if lost(m.Kind) {
			require.NoError(t, os.Rename(filepath.Dir(path), filepath.Join(root, m.Kind, m.Key)))
		}
	}
}

// requireAllWhole checks every byte of every directory of a root.
func requireAllWhole(t *testing.T, root string) {
	for _, kind := range mmapcache.PartKinds() {
		keys, err := realDisk().keysOf(root, kind)
		require.NoError(t, err)
		for _, key := range keys {
			v, err := mmapcache.VerifyPart(t.Context(), root, kind, key)
			require.NoError(t, err)
			require.Empty(t, v.Damages)
		}
	}
	keys, err := realDisk().keysOf(root, mmapcache.DatasetKind)
	require.NoError(t, err)
	for _, key := range keys {
		whole(t, root, key)
	}
}

// A removal that is stopped after the dataset leaves the other shards, which the next GC frees.
func TestRemoveStopsBetweenShards(t *testing.T) {
	root := t.TempDir()
	key := plainToy(40).buildShards(t, root, "a", "b", "c")
	ctx, cancel := context.WithCancel(contextOf(t))
	defer cancel()
	r, err := Remove(durable.WithOptions(ctx, durable.Options{Sync: unsynced.Sync, Step: func(name, path string) error {
		if name == "remove" && filepath.Base(filepath.Dir(path)) == mmapcache.StructureKind {
			cancel()
		}
		return nil
	}}), root, key, RemoveOptions{})
	require.ErrorIs(t, err, context.Canceled)
	assert.Equal(t, []string{mmapcache.DatasetKind, mmapcache.StructureKind}, kindsOf(r.Removed), "what it has begun it finishes")
	assert.Empty(t, stagingOf(t, root))
	assert.Len(t, gc(t, root, time.Now().Add(2*time.Hour), forever()).Removed, 6)
	assert.Empty(t, keysOf(t, root))
}

// What is missing of the shards of a dataset, or damaged, is said of each. Looking changes nothing and reads no file of a shard.
func TestLookAtShards(t *testing.T) {
	root := t.TempDir()
	key := plainToy(40).buildShards(t, root, "a", "b", "c", "d", "e", "a")
	dir := func(kind, salt string) string { return filepath.Join(root, kind, keyOf(t, kind, salt)) }
	look := func() *Shards {
		info, err := Describe(root, key)
		require.NoError(t, err)
		require.Len(t, info.Directories, 2, "the dataset and its arenas")
		s, err := LookAtShards(t.Context(), root, info.Directories[0].Manifest)
		require.NoError(t, err)
		return s
	}
	s := look()
	assert.Equal(t, []int{6, 6, 0, 0, 0}, []int{s.Total, s.Whole, s.Missing, s.Damaged, s.Unreadable})
	own := int64(0)
	for _, part := range partsIn(t, root, key)[:10] { // the sixth shard is the first
		m, err := readManifest(root, part.Kind, part.Key, "")
		require.NoError(t, err)
		own += m.Size()
	}
	assert.Equal(t, own, s.Bytes)
	assert.Equal(t, 5*7, s.Files)
	assert.Equal(t, 5, s.List[5].First)

	require.NoError(t, os.RemoveAll(dir(mmapcache.PlacementKind, "b")))
	require.NoError(t, os.Truncate(filepath.Join(dir(mmapcache.StructureKind, "c"), "turns.arrow"), 7))
	require.NoError(t, os.RemoveAll(dir(mmapcache.PlacementKind, "c")))
	makeOther(t, dir(mmapcache.PlacementKind, "d"))
	newer(t, dir(mmapcache.StructureKind, "e"))
	before := snapshotOf(t, root)
	s = look()
	assert.Equal(t, []int{6, 2, 1, 2, 1}, []int{s.Total, s.Whole, s.Missing, s.Damaged, s.Unreadable})
	for k, want := range []struct{ state, why string }{
		{ShardWhole, ""}, {ShardMissing, dir(mmapcache.PlacementKind, "b")}, {ShardDamaged, "turns.arrow"}, {ShardDamaged, "not the manifest that the dataset names"},
		{ShardUnreadable, "version 99"}, {ShardWhole, ""},
	} {
		assert.Equal(t, want.state, s.List[k].State, k)
		assert.Contains(t, s.List[k].Why, want.why)
	}
	assert.Empty(t, s.List[0].Why)
	assert.Equal(t, before, snapshotOf(t, root))

	one, err := Describe(root, plainToy(40).build(t, root, "one"))
	require.NoError(t, err)
	require.Len(t, one.Directories, 4)
	none, err := LookAtShards(t.Context(), root, one.Directories[0].Manifest)
	require.NoError(t, err)
	assert.Nil(t, none, "it is no list of shards")
}

// Of the parts that cannot be removed the first ten are named, and the others counted.
func TestGCCountsItsErrors(t *testing.T) {
	root := t.TempDir()
	key := plainToy(40).buildShards(t, root, "a", "b", "c", "d", "e", "f")
	r, err := GC(withSteps(t, func(name, path string) error {
		if name == "remove" && filepath.Base(filepath.Dir(path)) != mmapcache.DatasetKind {
			return errFull
		}
		return nil
	}), root, GCOptions{MaxBytes: new(int64(0))})
	require.ErrorIs(t, err, errFull)
	assert.Contains(t, err.Error(), "\n3 more errors")
	assert.Equal(t, 10, strings.Count(err.Error(), errFull.Error()))
	assert.Equal(t, []string{mmapcache.DatasetKind}, kindsOf(r.Removed))
	assert.Len(t, r.Kept, 13)
	assert.False(t, exists(root, mmapcache.DatasetKind, key))
}
