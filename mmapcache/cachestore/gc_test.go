package cachestore

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/mmapcache/internal/cachedir"
)

// gc runs GC at a given time.
func gc(t require.TestingT, root string, now time.Time, o GCOptions) *GCReport {
	return gcUnder(contextOf(t), t, root, now, o)
}

func gcUnder(ctx context.Context, t require.TestingT, root string, now time.Time, o GCOptions) *GCReport {
	o.now = now
	r, err := GC(ctx, root, o)
	require.NoError(t, err)
	return r
}

func forever() GCOptions { return GCOptions{} }

// ageDirectory sets the modification time of a directory of a cache.
func ageDirectory(t require.TestingT, root, kind, key string, at time.Time) {
	require.NoError(t, os.Chtimes(filepath.Join(root, kind, key), at, at))
}

func totalOf(t require.TestingT, root string) (n int64) {
	list, err := List(root)
	require.NoError(t, err)
	for _, e := range list {
		n += e.Bytes
	}
	return n
}

func exists(root, kind, key string) bool {
	_, err := os.Lstat(filepath.Join(root, kind, key))
	return err == nil
}

// whole checks that a dataset and its parts are there, unchanged.
func whole(t require.TestingT, root, key string) {
	v, err := mmapcache.Verify(contextOf(t), root, key)
	require.NoError(t, err)
	require.Empty(t, v.Damages)
}

// partsIn lists the parts that a dataset names.
func partsIn(t require.TestingT, root, key string) []mmapcache.Reference {
	m, err := manifest.Read(mmapcache.DatasetPath(root, key))
	require.NoError(t, err)
	parts, err := mmapcache.PartsOf(m)
	require.NoError(t, err)
	return parts
}

// A root that gets a dataset a day stays within MaxBytes, and keeps the most recently used datasets.
//
// Covers F18.
func TestGCFreesLeastRecentlyUsedDatasets(t *testing.T) {
	root := t.TempDir()
	y, day := plainToy(40), time.Now()
	first := y.build(t, root, "")
	one := totalOf(t, root)
	limit := 3*one + one/2
	for k := range 20 {
		key := y.build(t, root, fmt.Sprint("day ", k))
		day = day.Add(24 * time.Hour)
		dateUse(t, root, key, day)
		dateUse(t, root, first, day) // used every day
		r := gc(t, root, day.Add(time.Second), GCOptions{MaxBytes: &limit})
		assert.Equal(t, totalOf(t, root), r.BytesAfter)
		require.LessOrEqual(t, totalOf(t, root), limit)
		assert.Empty(t, gc(t, root, day, GCOptions{MaxBytes: &r.BytesAfter}).Removed, "what is no larger may stay")
		whole(t, root, key)
		whole(t, root, first)
	}
	assert.Equal(t, map[string]int{mmapcache.DatasetKind: 3, mmapcache.StructureKind: 3, mmapcache.PlacementKind: 3, mmapcache.ArenasKind: 3}, keysOf(t, root))
	notes, err := os.ReadDir(useDirOf(root))
	require.NoError(t, err)
	assert.Len(t, notes, 3, "nothing is left of what was removed")
}

// GC frees the datasets that were not used for MaxAge, and their parts.
//
// Covers F18.
func TestGCFreesDatasetsByAge(t *testing.T) {
	root := t.TempDir()
	first, second := twins(t, root)
	now := time.Now()
	dateUse(t, root, first, now.Add(-8*24*time.Hour))
	dateUse(t, root, second, now.Add(-6*24*time.Hour))
	r := gc(t, root, now, GCOptions{MaxAge: 9 * 24 * time.Hour})
	assert.Empty(t, r.Removed)
	assert.Empty(t, r.Kept)
	r = gc(t, root, now, GCOptions{MaxAge: 7 * 24 * time.Hour})
	assert.Equal(t, []string{mmapcache.DatasetKind, mmapcache.PlacementKind}, kindsOf(r.Removed), "the dataset, then what nothing else needs")
	assert.Equal(t, "not used for 8d", r.Removed[0].Why)
	whole(t, root, second)
}

func TestGCOfAnEmptyRoot(t *testing.T) {
	root := filepath.Join(t.TempDir(), "nothing")
	for range 2 {
		r := gc(t, root, time.Time{}, GCOptions{MaxBytes: new(int64(0))})
		assert.Equal(t, newReport(false), r)
		entries, _ := os.ReadDir(root)
		assert.Empty(t, entries, "what is no cache is not touched")
		require.NoError(t, os.MkdirAll(root, 0o777))
	}
}

// GC removes nothing from a root that it cannot write. A dry run still reports what would be removed.
func TestGCInAReadOnlyRoot(t *testing.T) {
	root := t.TempDir()
	plainToy(40).build(t, root, "")
	require.NoError(t, os.Remove(filepath.Join(root, durable.StagingDir)))
	require.NoError(t, os.WriteFile(filepath.Join(root, durable.StagingDir), nil, 0o666)) // root may write anywhere, but cannot make a directory over a file
	r, err := GC(t.Context(), root, GCOptions{MaxBytes: new(int64(0))})
	assert.ErrorContains(t, err, root)
	assert.Nil(t, r)
	r, _ = GC(t.Context(), root, GCOptions{MaxBytes: new(int64(0)), DryRun: true})
	require.NotNil(t, r)
	assert.Len(t, r.Removed, 4)
	assert.Len(t, keysOf(t, root), 4)
}

// Scripts read the report as JSON.
func TestGCReport(t *testing.T) {
	root := t.TempDir()
	first, second := twins(t, root)
	require.NoError(t, Pin(contextOf(t), root, second, "me"))
	size := totalOf(t, root)
	r := gc(t, root, time.Time{}, GCOptions{MaxBytes: new(int64(0)), DryRun: true})
	data, err := json.Marshal(r)
	require.NoError(t, err)
	var got map[string]any
	require.NoError(t, json.Unmarshal(data, &got))
	starts := sizeOf(root, mmapcache.PlacementKind, partKey(t, root, first, mmapcache.PlacementKind))
	dataset := sizeOf(root, mmapcache.DatasetKind, first)
	assert.Equal(t, map[string]any{
		"removed": []any{
			map[string]any{"path": mmapcache.DatasetPath(root, first), "kind": mmapcache.DatasetKind, "key": first, "bytes": float64(dataset), "why": "least recently used, 0s ago"},
			map[string]any{"path": filepath.Join(root, mmapcache.PlacementKind, partKey(t, root, first, mmapcache.PlacementKind)), "kind": mmapcache.PlacementKind, "key": partKey(t, root, first, mmapcache.PlacementKind), "bytes": float64(starts), "why": "no dataset names it any more"},
		},
		"kept":         []any{map[string]any{"path": mmapcache.DatasetPath(root, second), "why": got["kept"].([]any)[0].(map[string]any)["why"]}},
		"swept":        []any{},
		"bytes_before": float64(size), "bytes_after": float64(size - starts - dataset), "freed": float64(starts + dataset), "dry_run": true,
	}, got)
	assert.Contains(t, r.Kept[0].Why, "pinned by me on ")
}

// A reader that may not write a shared root leaves no note. So a dataset stays there for a week after its last use.
func TestGCKeepsRecentlyUsedDatasetsInSharedRoots(t *testing.T) {
	root := t.TempDir()
	key := plainToy(40).build(t, root, "")
	now := time.Now()
	dateUse(t, root, key, now.Add(-6*24*time.Hour))
	require.True(t, cachedir.IsLocal(root), "this test wants a local file system for temporary files")
	assert.False(t, isShared(root))
	MarkShared(root)
	assert.True(t, isShared(root))
	assert.True(t, isShared("/proc"), "a file system that is not known to be local")
	assert.False(t, cachedir.IsLocal(filepath.Join(root, "nothing")), "nor is one that cannot be told")
	for _, o := range []GCOptions{{MaxBytes: new(int64(0))}, {MaxAge: time.Hour}} {
		r := gc(t, root, now, o)
		assert.Empty(t, r.Removed)
		require.Len(t, r.Kept, 1)
		assert.Equal(t, "used 6d ago, less than 7d", r.Kept[0].Why)
	}
	o := GCOptions{MaxBytes: new(int64(0)), Keep: new(time.Duration)}
	*o.Keep = 7 * 24 * time.Hour
	assert.Empty(t, gc(t, root, now, o).Removed)
	o.DryRun, *o.Keep = true, 0
	assert.Len(t, gc(t, root, now, o).Removed, 4, "--keep 0 says otherwise")
	o.DryRun, o.Keep = false, nil
	assert.Len(t, gc(t, root, now.Add(25*time.Hour), o).Removed, 4, "a week has passed")
}

// List and GC leave names alone that are none of a cache's.
func TestGCLeavesForeignFilesAlone(t *testing.T) {
	root := t.TempDir()
	key := plainToy(40).build(t, root, "")
	old := time.Now().Add(-1000 * time.Hour)
	strangers := []string{"notes.txt", "other/" + key + "/manifest.json", "dataset/notes.txt", "dataset/backup/manifest.json", "structure/.hidden",
		"starts/" + key[:63] + "/x", "arenas/" + strings.ToUpper(key) + "/x", ".use/notes.txt", ".use/notes.used", ".staging/notes/x"}
	for _, name := range strangers {
		path := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o777))
		require.NoError(t, os.WriteFile(path, []byte("mine"), 0o666))
		require.NoError(t, os.Chtimes(path, old, old))
		require.NoError(t, os.Chtimes(filepath.Dir(path), old, old))
	}
	assert.Len(t, keysOf(t, root), 4)
	list, err := List(root)
	require.NoError(t, err)
	assert.Len(t, list, 4)
	whole(t, root, key)
	r := gc(t, root, time.Now(), forever())
	assert.Empty(t, r.Removed)
	assert.Empty(t, r.Kept)
	assert.Empty(t, r.Swept)
	assert.Len(t, gc(t, root, time.Now(), GCOptions{MaxBytes: new(int64(0))}).Removed, 4, "nor do they keep anything from going")
	left := snapshotOf(t, root)
	delete(left, filepath.Join(root, readmeName))
	assert.Len(t, left, len(strangers))
	for _, name := range strangers {
		assert.Equal(t, "mine", left[filepath.Join(root, name)], name)
	}
	for _, bad := range []string{"backup", "..", "", key + "/", "../../" + mmapcache.DatasetKind + "/" + key} {
		_, err := Remove(t.Context(), root, bad, RemoveOptions{Force: true})
		assert.ErrorIs(t, err, mmapcache.ErrNoCache, bad)
	}
}

// GC keeps a dataset that is a symbolic link, made by hand, and the parts that it names.
func TestGCLeavesLinksAlone(t *testing.T) {
	root, disk := t.TempDir(), t.TempDir()
	first, second := twins(t, root)
	for _, name := range []string{mmapcache.DatasetKind + "/" + first, mmapcache.ArenasKind + "/" + partKey(t, root, first, mmapcache.ArenasKind)} {
		require.NoError(t, os.Rename(filepath.Join(root, name), filepath.Join(disk, filepath.Base(name))))
		require.NoError(t, os.Symlink(filepath.Join(disk, filepath.Base(name)), filepath.Join(root, name)))
	}
	whole(t, root, first)
	r := gc(t, root, time.Now().Add(1000*time.Hour), GCOptions{MaxBytes: new(int64(0))})
	assert.Equal(t, []string{mmapcache.DatasetKind, mmapcache.PlacementKind}, kindsOf(r.Removed))
	assert.False(t, exists(root, mmapcache.DatasetKind, second))
	whole(t, root, first)
	unmounted := filepath.Join(disk, "unmounted")
	require.NoError(t, os.Rename(filepath.Join(disk, first), unmounted))
	assert.Empty(t, gc(t, root, time.Now().Add(1000*time.Hour), GCOptions{MaxBytes: new(int64(0))}).Removed, "all stays while the names of its parts cannot be read")
	require.NoError(t, os.Rename(unmounted, filepath.Join(disk, first)))
	_, err := Remove(t.Context(), root, first, RemoveOptions{})
	require.NoError(t, err, "by name it goes, with what it names")
	assert.Equal(t, map[string]int{mmapcache.ArenasKind: 1}, keysOf(t, root))
}

// newer gives the manifest of a directory a future version.
func newer(t require.TestingT, dir string) {
	path := filepath.Join(dir, manifest.FileName)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	text := regexp.MustCompile(`"manifest": [12]`).ReplaceAllString(string(data), `"manifest": 99`)
	const line = ",\n  \"digest\": \""
	text = text[:strings.LastIndex(text, line)]
	require.NoError(t, os.WriteFile(path, []byte(text+line+manifest.Sum([]byte(text))+"\"\n}\n"), 0o666))
	_, err = manifest.Read(dir)
	require.ErrorContains(t, err, "version 99")
	require.NotErrorIs(t, err, manifest.ErrDamaged)
}

// A dataset of a newer agentx stays under any options, with all parts that it might name.
func TestGCKeepsPartsThatNewerManifestsMayName(t *testing.T) {
	root := t.TempDir()
	first, second := twins(t, root)
	newer(t, mmapcache.DatasetPath(root, first))
	r := gc(t, root, time.Now().Add(1000*time.Hour), GCOptions{MaxBytes: new(int64(0)), MaxAge: time.Hour})
	assert.Equal(t, []string{mmapcache.DatasetKind}, kindsOf(r.Removed))
	assert.Equal(t, second, r.Removed[0].Key)
	assert.Equal(t, map[string]int{mmapcache.DatasetKind: 1, mmapcache.StructureKind: 1, mmapcache.PlacementKind: 2, mmapcache.ArenasKind: 1}, keysOf(t, root))
	require.Len(t, r.Kept, 5, "and the report says so")
	assert.Equal(t, "dataset "+first+", which cannot be read, may name it", r.Kept[0].Why)
	assert.Contains(t, r.Kept[1].Why, "version 99")
	_, err := Remove(t.Context(), root, first, RemoveOptions{Force: true})
	assert.ErrorContains(t, err, "version 99")
}

// GC treats a dataset in another cache format like any other: its manifest names its parts, and its last use is recorded.
func TestGCOfAnotherFormat(t *testing.T) {
	root := t.TempDir()
	first, _ := twins(t, root)
	m, err := readManifest(root, mmapcache.DatasetKind, first, "")
	require.NoError(t, err)
	b, err := mmapcache.NewBuilder(withoutSync(t), root, mmapcache.DatasetKind, map[string]int{"format": mmapcache.Format + 1})
	require.NoError(t, err)
	for kind, part := range m.Parts {
		b.AddPart(&manifest.Manifest{Kind: kind, Key: part.Key, Digest: part.Digest})
	}
	_, err = b.Publish(t.Context(), mmapcache.Provenance{})
	require.NoError(t, err)
	key := b.Key()
	_, err = mmapcache.Open(root, key)
	require.ErrorContains(t, err, "format")
	e := entryOf(t, root, mmapcache.DatasetKind, key)
	assert.Empty(t, e.Damaged, "another format is no damage")
	assert.Contains(t, e.Unreadable, "made in cache format")
	_, err = Remove(t.Context(), root, first, RemoveOptions{})
	require.NoError(t, err)
	later := time.Now().Add(100 * time.Hour)
	assert.Empty(t, gc(t, root, later, forever()).Removed, "what it names stays")
	r := gc(t, root, later, GCOptions{MaxAge: 10 * time.Hour})
	assert.Len(t, r.Removed, 6)
	assert.Empty(t, keysOf(t, root))
}

// GC removes damaged datasets, except young ones, which another program may just be writing.
func TestGCRemovesDamagedDatasets(t *testing.T) {
	root := t.TempDir()
	first, second := twins(t, root)
	now := time.Now()
	require.NoError(t, os.Truncate(filepath.Join(mmapcache.DatasetPath(root, first), manifest.FileName), 9))
	require.NoError(t, os.Remove(filepath.Join(mmapcache.DatasetPath(root, second), manifest.FileName)))
	ageDirectory(t, root, mmapcache.DatasetKind, first, now.Add(-59*time.Minute))
	ageDirectory(t, root, mmapcache.DatasetKind, second, now.Add(-59*time.Minute))
	r := gc(t, root, now, GCOptions{MaxBytes: new(int64(0))})
	assert.Empty(t, r.Removed)
	require.NoError(t, Pin(contextOf(t), root, first, "me"))
	r = gc(t, root, now.Add(2*time.Minute), forever())
	require.Len(t, r.Removed, 1)
	assert.Equal(t, second, r.Removed[0].Key)
	_, err := Unpin(root, first)
	require.NoError(t, err)
	r = gc(t, root, now.Add(2*time.Minute), forever())
	assert.Equal(t, []string{mmapcache.DatasetKind}, kindsOf(r.Removed), "its parts are young")
	r = gc(t, root, now.Add(2*time.Hour), forever())
	assert.Len(t, r.Removed, 4)
	assert.Empty(t, keysOf(t, root))
}

// A conversion publishes parts before the dataset that names them, so GC keeps young parts.
func TestGCKeepsYoungAndUsedParts(t *testing.T) {
	root, y, now := t.TempDir(), plainToy(40), time.Now()
	key := y.buildStructure(t, root, "").Key
	ageDirectory(t, root, mmapcache.StructureKind, key, now.Add(-59*time.Minute))
	r := gc(t, root, now, GCOptions{MaxBytes: new(int64(0))})
	assert.Empty(t, r.Removed)
	assert.Len(t, r.Kept, 1)
	ageDirectory(t, root, mmapcache.StructureKind, key, now.Add(-61*time.Minute))
	u := NoteUse(contextOf(t), root, mmapcache.StructureKind+"/"+key)
	r = gc(t, root, now, GCOptions{MaxBytes: new(int64(0))})
	assert.Empty(t, r.Removed)
	require.Len(t, r.Kept, 1)
	assert.Contains(t, r.Kept[0].Why, "in use by process")
	u.Close()
	assert.Len(t, gc(t, root, now, forever()).Removed, 1)
}

// A file in the place of a directory counts as damaged: Remove removes it, and GC once it is old enough. A link may lead to
// a disk that is not mounted, so only Remove removes it.
func TestGCRemovesFilesInThePlaceOfDirectories(t *testing.T) {
	key := strings.Repeat("a", 64)
	for what, put := range map[string]func(path string) error{
		"file": func(path string) error { return os.WriteFile(path, nil, 0o666) },
		"pipe": func(path string) error { return mkfifo(t, path) },
		"link": func(path string) error { return os.Symlink("nowhere", path) },
	} {
		for _, kind := range append(mmapcache.PartKinds(), mmapcache.DatasetKind) {
			t.Run(what+" "+kind, func(t *testing.T) {
				root := t.TempDir()
				path := filepath.Join(root, kind, key)
				require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o777))
				require.NoError(t, put(path))
				r, err := GC(t.Context(), root, GCOptions{now: time.Now()})
				require.NoError(t, err)
				assert.Empty(t, r.Removed, "it is young")
				r, err = GC(t.Context(), root, GCOptions{now: time.Now().Add(2 * time.Hour)})
				require.NoError(t, err)
				if what == "link" {
					assert.Empty(t, r.Removed)
					require.NoError(t, os.Remove(path))
				} else {
					assert.Len(t, r.Removed, 1)
				}
				if kind == mmapcache.DatasetKind {
					require.NoError(t, put(path))
					_, err := Remove(t.Context(), root, key, RemoveOptions{})
					require.NoError(t, err)
				}
				_, err = os.Lstat(path)
				assert.ErrorIs(t, err, fs.ErrNotExist)
			})
		}
	}
}

// A project may have folders named like those of a cache. GC touches nothing there.
func TestGCTouchesNothingOutsideACache(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"dataset/cifar/a", "structure/b", "arenas/" + strings.Repeat("a", 63) + "/c", ".staging/next/d", ".use/e.used", ".use/f"} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o777))
		require.NoError(t, os.WriteFile(filepath.Join(root, name), nil, 0o666))
	}
	times := func() map[string]time.Time {
		list := map[string]time.Time{}
		for name := range names(t, root) {
			info, err := os.Stat(filepath.Join(root, name))
			require.NoError(t, err)
			list[name] = info.ModTime()
		}
		return list
	}
	long := time.Now().Add(-1000 * time.Hour)
	for name := range names(t, root) {
		require.NoError(t, os.Chtimes(filepath.Join(root, name), long, long))
	}
	before := times()
	r := gc(t, root, time.Time{}, GCOptions{MaxBytes: new(int64(0))})
	assert.Equal(t, newReport(false), r)
	assert.Equal(t, before, times())

	for _, ours := range []string{".staging/" + killed(t) + "/x", ".use/" + killed(t) + ".use", ".use/" + strings.Repeat("0", 64) + ".pin"} {
		path := filepath.Join(root, ours)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o777))
		require.NoError(t, os.WriteFile(path, nil, 0o666))
		require.NoError(t, os.Chtimes(path, long, long))
		assert.Len(t, gc(t, root, time.Time{}, forever()).Swept, 1, ours)
	}
}

// A pin that cannot be read counts as a pin of its dataset, and keeps nothing else.
func TestGCGoesOnAfterAPinItCannotRead(t *testing.T) {
	root := t.TempDir()
	first, second := twins(t, root)
	require.NoError(t, os.Mkdir(useDirOf(root), 0o777))
	require.NoError(t, os.Mkdir(usePath(root, first, pinSuffix), 0o777))
	r, err := GC(t.Context(), root, GCOptions{MaxBytes: new(int64(0))})
	require.NoError(t, err)
	assert.Equal(t, second, r.Removed[0].Key)
	whole(t, root, first)
	require.NotEmpty(t, r.Kept)
	assert.Contains(t, r.Kept[0].Why, "pinned by somebody")
}

// GC follows no link: a user who may write into a shared root must not make the GC of another user remove that one's files.
func TestGCFollowsNoLinkedKindDirectory(t *testing.T) {
	for _, name := range append(mmapcache.PartKinds(), mmapcache.DatasetKind, useDir, durable.StagingDir) {
		root, elsewhere := t.TempDir(), t.TempDir()
		key := plainToy(40).build(t, root, "")
		precious := filepath.Join(elsewhere, strings.Repeat("a", 64))
		require.NoError(t, os.Mkdir(precious, 0o777))
		old := time.Now().Add(-1000 * time.Hour)
		require.NoError(t, os.Chtimes(precious, old, old))
		require.NoError(t, os.RemoveAll(filepath.Join(root, name)))
		require.NoError(t, os.Symlink(elsewhere, filepath.Join(root, name)))
		_, err := GC(t.Context(), root, GCOptions{MaxBytes: new(int64(0))})
		require.ErrorContains(t, err, "a symbolic link", name)
		if name != mmapcache.DatasetKind {
			_, err = Remove(t.Context(), root, key, RemoveOptions{Force: true})
			require.ErrorContains(t, err, "a symbolic link", name)
		}
		assert.DirExists(t, precious, name)
	}
}

func TestGCRefusesOptionsOutOfRange(t *testing.T) {
	require.NoError(t, GCOptions{MaxBytes: new(int64(0)), Keep: new(time.Duration), Wait: -1}.Validate())
	for want, o := range map[string]GCOptions{
		"max bytes -1: want 0 or more": {MaxBytes: new(int64(-1))},
		"max age -1ns: want 0 or more": {MaxAge: -1},
		"keep -1h0m0s: want 0 or more": {Keep: new(-time.Hour)},
	} {
		_, err := GC(t.Context(), t.TempDir(), o)
		assert.EqualError(t, err, want)
	}
}
