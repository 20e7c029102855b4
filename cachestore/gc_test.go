package cachestore

import (
	"context"
	"encoding/json"
	flags "flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentx/agentx/internal/cachedir"
	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache"
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

// ageDirectory dates a directory of a cache.
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

func whole(t require.TestingT, root, key string) {
	v, err := mmapcache.Verify(contextOf(t), root, key)
	require.NoError(t, err)
	require.Empty(t, v.Damages)
}

// F18: a cache that gets a dataset a day stays within its bounds, and what was used last is there.
func TestF18GCBoundsWhatACacheTakes(t *testing.T) {
	root := t.TempDir()
	y, day := plainToy(40), time.Now()
	first := y.build(t, root, "")
	one := totalOf(t, root)
	limit := 3*one + one/2
	for k := range 20 {
		key := y.build(t, root, fmt.Sprint("day ", k))
		day = day.Add(24 * time.Hour)
		dateUse(t, root, key, day)
		dateUse(t, root, first, day) // which is used every day
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

// F18: so it does by age.
func TestF18GCByAge(t *testing.T) {
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

func TestGCOfNothing(t *testing.T) {
	root := filepath.Join(t.TempDir(), "nothing")
	for range 2 {
		r := gc(t, root, time.Time{}, GCOptions{MaxBytes: new(int64(0))})
		assert.Equal(t, newReport(false), r)
		entries, _ := os.ReadDir(root)
		assert.Empty(t, entries, "what is no cache is not touched")
		require.NoError(t, os.MkdirAll(root, 0o777))
	}
}

// Where nothing can be written nothing is removed, and a dry run says all the same what would be.
func TestGCWhereNothingCanBeWritten(t *testing.T) {
	root := t.TempDir()
	plainToy(40).build(t, root, "")
	require.NoError(t, os.Remove(filepath.Join(root, durable.StagingDir)))
	require.NoError(t, os.WriteFile(filepath.Join(root, durable.StagingDir), nil, 0o666)) // the superuser may write anywhere, but make no directory over a file
	r, err := GC(t.Context(), root, GCOptions{MaxBytes: new(int64(0))})
	assert.ErrorContains(t, err, root)
	assert.Nil(t, r)
	r, _ = GC(t.Context(), root, GCOptions{MaxBytes: new(int64(0)), DryRun: true})
	require.NotNil(t, r)
	assert.Len(t, r.Removed, 4)
	assert.Len(t, keysOf(t, root), 4)
}

// A report is what scripts read.
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

// Who may only read a shared root leaves no trace: there a dataset stays for a week after its last use.
func TestGCKeepsWhatWasUsedRecentlyInASharedRoot(t *testing.T) {
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

// What is not called like a directory of a cache is somebody else's: nobody lists it, minds it or removes it.
func TestStrangersAreLeftAlone(t *testing.T) {
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
	for _, bad := range []string{"backup", "..", "", key + "/", "../" + mmapcache.DatasetKind + "/" + key} {
		_, err := Remove(t.Context(), root, bad, RemoveOptions{Force: true})
		assert.ErrorIs(t, err, mmapcache.ErrNoCache, bad)
	}
}

// A symbolic link was put there by hand, perhaps to another disk: what it leads to counts, and it stays.
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
	assert.Empty(t, gc(t, root, time.Now().Add(1000*time.Hour), GCOptions{MaxBytes: new(int64(0))}).Removed, "while nobody can say what it names, all stays")
	require.NoError(t, os.Rename(unmounted, filepath.Join(disk, first)))
	_, err := Remove(t.Context(), root, first, RemoveOptions{})
	require.NoError(t, err, "by name it goes, with what it names")
	assert.Equal(t, map[string]int{mmapcache.ArenasKind: 1}, keysOf(t, root))
}

// newer makes the manifest of a directory one of a version to come.
func newer(t require.TestingT, dir string) {
	path := filepath.Join(dir, manifest.FileName)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	text := strings.Replace(string(data), `"manifest": 1`, `"manifest": 99`, 1)
	const line = ",\n  \"digest\": \""
	text = text[:strings.LastIndex(text, line)]
	require.NoError(t, os.WriteFile(path, []byte(text+line+manifest.Sum([]byte(text))+"\"\n}\n"), 0o666))
	_, err = manifest.Read(dir)
	require.ErrorContains(t, err, "version 99")
	require.NotErrorIs(t, err, manifest.ErrDamaged)
}

// A dataset of a newer agentx stays, whatever is asked for, with all that it might name.
func TestGCLeavesTheFutureAlone(t *testing.T) {
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

// A dataset in another format is one like any other: it says what it names, and this program or another has dated its use.
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

// Nobody can open a damaged dataset, so it goes; but not what may just be being written by a means that we do not know.
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

// A conversion publishes its parts before the dataset that names them.
func TestGCLeavesYoungAndNotedPartsAlone(t *testing.T) {
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

// justNote leaves a note of use, and does not look for markers yet.
func justNote(t *testing.T, root string, names ...string) {
	t.Cleanup(durable.NoteUse(root, useDirOf(root), names).Close)
}

// What comes into use, or is pinned, when it is marked already stays, and is in its place all the time.
func TestGCLeavesWhatIsNeededMeanwhile(t *testing.T) {
	now := time.Now()
	for name, meanwhile := range map[string]func(t *testing.T, root, first string){
		"used": func(t *testing.T, root, first string) { justNote(t, root, mmapcache.DatasetKind+"/"+first) },
		"pinned": func(t *testing.T, root, first string) {
			require.NoError(t, os.WriteFile(usePath(root, first, pinSuffix), nil, 0o666))
		},
		"used and gone": func(t *testing.T, root, first string) { dateUse(t, root, first, now.Add(-DefaultSharedKeep+1)) },
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			first, second := twins(t, root)
			dateUse(t, root, second, now.Add(-1000*time.Hour))
			ctx := onceMarked(t, func() {
				assert.True(t, marked(t, root, mmapcache.DatasetKind, first))
				meanwhile(t, root, first)
				whole(t, root, first)
			})
			dateUse(t, root, first, now.Add(-5000*time.Hour))
			r := gcUnder(ctx, t, root, now, GCOptions{MaxBytes: new(totalOf(t, root) - 1), Keep: new(DefaultSharedKeep)})
			whole(t, root, first)
			assert.Empty(t, stagingOf(t, root))
			require.Len(t, r.Kept, 1)
			assert.Equal(t, mmapcache.DatasetPath(root, first), r.Kept[0].Path)
		})
	}
}

// marked reports whether a directory is marked as about to be removed.
func marked(t *testing.T, root, kind, key string) bool {
	found, err := filepath.Glob(filepath.Join(root, durable.StagingDir, "gc.*", "*", kind+"-"+key+".removing"))
	require.NoError(t, err)
	return len(found) > 0
}

// Who begins to use or pin what is marked waits. When the remover has seen the note the dataset is there, else it is gone.
func TestReadersWaitForAMarker(t *testing.T) {
	for name, c := range map[string]struct {
		begin func(ctx context.Context, root, key string) error
	}{
		"opened": {func(ctx context.Context, root, key string) error {
			c, err := Open(ctx, root, key)
			if err == nil {
				err = c.Close()
			}
			return err
		}},
		"pinned": {func(ctx context.Context, root, key string) error { return Pin(ctx, root, key, "me") }},
	} {
		for _, late := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " late ", late), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					root := t.TempDir()
					key := plainToy(40).build(t, root, "")
					done := make(chan error, 1)
					begin := func() {
						go func() { done <- c.begin(t.Context(), root, key) }()
						synctest.Wait() // it has left its note, or pin, and waits for the marker
						assert.Empty(t, done)
					}
					ctx := onceMarked(t, begin)
					if late { // after the notes were read
						ctx = withSteps(t, func(step, path string) error {
							if step == "remove" && path == mmapcache.DatasetPath(root, key) {
								begin()
							}
							return nil
						})
					}
					gcUnder(ctx, t, root, time.Now(), GCOptions{MaxBytes: new(int64(0))})
					err := <-done
					if late {
						assert.ErrorIs(t, err, mmapcache.ErrNoCache)
						assert.NoFileExists(t, usePath(root, key, pinSuffix))
					} else {
						assert.NoError(t, err)
						whole(t, root, key)
					}
					assert.Empty(t, usersOf(t, root))
				})
			})
		}
	}
}

// The marker of a remover that was killed, wherever it was, keeps a reader waiting no longer than the lease does; and what
// was not renamed away yet is not removed by one that was only slow.
func TestAMarkerGoesWithTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := t.TempDir()
		key := plainToy(40).build(t, root, "")
		begin := time.Now()
		var stopped atomic.Bool
		stopped.Store(true)
		ctx := withSteps(t, func(step, path string) error {
			switch {
			case step == "beat" && stopped.Load():
				return syscall.EIO // so it does not beat
			case step == "remove" && path == mmapcache.DatasetPath(root, key):
				defer stopped.Store(false)
				c, err := Open(t.Context(), root, key)
				require.NoError(t, err, "it takes the lease over")
				t.Cleanup(func() { assert.NoError(t, c.Close()) })
				assert.Less(t, time.Since(begin), 4*durable.DefaultHeartbeat)
			}
			return nil
		})
		r, err := GC(ctx, root, GCOptions{MaxBytes: new(int64(0)), now: time.Now()})
		assert.ErrorIs(t, err, ErrLost)
		assert.Empty(t, r.Removed)
		whole(t, root, key)
		assert.Empty(t, stagingOf(t, root))
	})
}

// Nobody waits for the marker of something else, nor who can leave no note.
func TestMarkersOfOthersKeepNobodyWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := t.TempDir()
		first, second := twins(t, root)
		dateUse(t, root, first, time.Now().Add(-time.Hour))
		ctx := onceMarked(t, func() {
			begin := time.Now()
			c, err := Open(t.Context(), root, second)
			require.NoError(t, err)
			assert.NoError(t, c.Close())
			notes := filepath.Join(t.TempDir(), "notes")
			require.NoError(t, os.Rename(useDirOf(root), notes))
			require.NoError(t, os.WriteFile(useDirOf(root), nil, 0o666)) // as on a read-only file system
			c, err = Open(t.Context(), root, first)
			require.NoError(t, err)
			assert.NoError(t, c.Close())
			require.NoError(t, os.Remove(useDirOf(root)))
			require.NoError(t, os.Rename(notes, useDirOf(root)))
			assert.Zero(t, time.Since(begin))
		})
		gcUnder(ctx, t, root, time.Now(), GCOptions{MaxBytes: new(totalOf(t, root) - 1)})
		assert.False(t, exists(root, mmapcache.DatasetKind, first))
		whole(t, root, second)
	})
}

// What is no directory in the place of one goes as what is damaged does: by rm, and by gc when it is old enough. A link
// may lead to a disk that is not mounted, and goes by rm alone.
func TestGCRemovesWhatIsInTheWay(t *testing.T) {
	key := strings.Repeat("a", 64)
	for what, put := range map[string]func(path string) error{
		"file": func(path string) error { return os.WriteFile(path, nil, 0o666) },
		"pipe": func(path string) error { return mkfifo(t, path) },
		"link": func(path string) error { return os.Symlink("nowhere", path) },
	} {
		for _, kind := range mmapcache.Kinds() {
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

// What was damaged when it was looked at may have been made again when its turn comes.
func TestGCLeavesWhatIsWholeAgain(t *testing.T) {
	root := t.TempDir()
	first, second := twins(t, root)
	origin := filepath.Join(t.TempDir(), "root")
	require.NoError(t, os.CopyFS(origin, os.DirFS(root)))
	for _, key := range []string{first, second} {
		require.NoError(t, os.Truncate(filepath.Join(mmapcache.DatasetPath(root, key), manifest.FileName), 9))
	}
	healed := ""
	ctx := onceMarked(t, func() {
		for _, key := range []string{first, second} {
			if exists(root, mmapcache.DatasetKind, key) {
				healed = key
				require.NoError(t, os.RemoveAll(mmapcache.DatasetPath(root, key)))
				require.NoError(t, os.CopyFS(mmapcache.DatasetPath(root, key), os.DirFS(mmapcache.DatasetPath(origin, key))))
			}
		}
	})
	r := gcUnder(ctx, t, root, time.Now().Add(1000*time.Hour), forever())
	require.NotEmpty(t, r.Kept)
	assert.Equal(t, "it is whole again", r.Kept[0].Why)
	whole(t, root, healed)
}

// The dataset that names a part may come while the part is marked.
func TestGCLeavesAPartThatIsNamedMeanwhile(t *testing.T) {
	root := t.TempDir()
	first, _ := twins(t, root)
	away := filepath.Join(t.TempDir(), first)
	require.NoError(t, os.Rename(mmapcache.DatasetPath(root, first), away))
	ctx := onceMarked(t, func() { require.NoError(t, os.Rename(away, mmapcache.DatasetPath(root, first))) })
	r := gcUnder(ctx, t, root, time.Now().Add(1000*time.Hour), forever())
	assert.Empty(t, r.Removed)
	require.Len(t, r.Kept, 1)
	assert.Equal(t, "a dataset names it", r.Kept[0].Why)
	whole(t, root, first)
}

// What somebody has begun to use since it was looked at does not go by its old age, unless it was asked for by name.
func TestGCLeavesWhatWasUsedMeanwhile(t *testing.T) {
	root := t.TempDir()
	first, _ := twins(t, root)
	now := time.Now()
	dateUse(t, root, first, now.Add(-5*time.Hour))
	ctx := onceMarked(t, func() { dateUse(t, root, first, now.Add(-4*time.Hour)) })
	r := gcUnder(ctx, t, root, now, GCOptions{MaxAge: 3 * time.Hour})
	assert.Empty(t, r.Removed)
	require.Len(t, r.Kept, 1)
	assert.Equal(t, "used meanwhile", r.Kept[0].Why)
	whole(t, root, first)
	it := &item{kind: mmapcache.DatasetKind, key: first, used: now.Add(-5 * time.Hour)}
	c := newCollector(root, false)
	c.now = now
	require.Error(t, c.checkUnneeded(it))
	c.requested = true
	require.NoError(t, c.checkUnneeded(it))
}

// While one process removes something nobody else does.
func TestOneRemovesAtATime(t *testing.T) {
	root := t.TempDir()
	first, second := twins(t, root)
	now := time.Now()
	for _, e := range keysAndKinds(t, root) {
		ageDirectory(t, root, e[0], e[1], now.Add(-2*time.Hour))
	}
	dateUse(t, root, first, now.Add(-3*time.Hour))
	ctx := onceMarked(t, func() {
		justNote(t, root, mmapcache.DatasetKind+"/"+first)
		for _, wait := range []time.Duration{-1, time.Millisecond} {
			_, err := GC(t.Context(), root, GCOptions{Wait: wait})
			assert.ErrorIs(t, err, ErrRemoving)
			if wait > 0 {
				assert.ErrorContains(t, err, fmt.Sprintf("process %d on ", os.Getpid()))
			}
			_, err = Remove(t.Context(), root, second, RemoveOptions{Force: true, Wait: wait})
			assert.ErrorIs(t, err, ErrRemoving)
		}
		_, err := GC(t.Context(), root, GCOptions{DryRun: true})
		assert.NoError(t, err, "who only looks may")
	})
	gcUnder(ctx, t, root, now, GCOptions{MaxAge: time.Hour})
	whole(t, root, first)
	assert.Empty(t, stagingOf(t, root))
}

func keysAndKinds(t *testing.T, root string) (list [][2]string) {
	entries, err := List(root)
	require.NoError(t, err)
	for _, e := range entries {
		list = append(list, [2]string{e.Kind, e.Key})
	}
	return list
}

// Who has lost the lease, for he was so slow that another one took over, removes nothing.
func TestGCStopsWhenItsLeaseIsLost(t *testing.T) {
	root := t.TempDir()
	first, second := twins(t, root)
	dateUse(t, root, first, time.Now().Add(-time.Hour))
	ctx := onceMarked(t, func() {
		require.NoError(t, os.RemoveAll(filepath.Join(root, durable.StagingDir, "gc.000001")))
	})
	r, err := GC(ctx, root, GCOptions{MaxBytes: new(int64(0)), now: time.Now()})
	assert.ErrorIs(t, err, ErrLost)
	assert.Empty(t, r.Removed)
	whole(t, root, first)
	whole(t, root, second)
	assert.Empty(t, stagingOf(t, root))
}

// On a full disk no lease can be had, and room is made all the same.
func TestF18GCOnAFullDisk(t *testing.T) {
	for _, full := range []error{syscall.ENOSPC, syscall.EDQUOT} {
		root := t.TempDir()
		twins(t, root)
		refused := 0
		ctx := withSteps(t, func(name, path string) error {
			if filepath.Dir(path) == filepath.Join(root, durable.StagingDir) && (name == "claim" || name == "mkdir") {
				refused++
				return full
			}
			return nil
		})
		gcUnder(ctx, t, root, time.Now(), GCOptions{MaxBytes: new(int64(0))})
		assert.Equal(t, 1, refused, "the lease")
		assert.Empty(t, keysOf(t, root))
		assert.Empty(t, stagingOf(t, root))
	}
}

// On a full disk, where there is no marker, what comes into use while it is renamed away is put back.
func TestF18GCOnAFullDiskPutsBack(t *testing.T) {
	for _, refused := range []string{"claim", "mark"} {
		root := t.TempDir()
		key := plainToy(40).build(t, root, "")
		noted := false
		ctx := withSteps(t, func(name, _ string) error {
			if name == refused {
				return syscall.ENOSPC
			}
			if name == "check" && !noted && !exists(root, mmapcache.DatasetKind, key) {
				noted = true
				justNote(t, root, mmapcache.DatasetKind+"/"+key)
			}
			return nil
		})
		r := gcUnder(ctx, t, root, time.Now(), GCOptions{MaxBytes: new(int64(0))})
		require.True(t, noted)
		assert.Empty(t, r.Removed)
		whole(t, root, key)
		assert.Empty(t, stagingOf(t, root))
	}
}

// A project may have folders that are called like those of a cache.
func TestGCLeavesOtherFoldersAlone(t *testing.T) {
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

func TestRemoveRefusesWhatIsPinnedOrInUse(t *testing.T) {
	root := t.TempDir()
	key := plainToy(40).build(t, root, "")
	require.NoError(t, Pin(contextOf(t), root, key, "me"))
	for _, force := range []bool{false, true} {
		_, err := Remove(t.Context(), root, key, RemoveOptions{Force: force})
		assert.ErrorIs(t, err, ErrPinned)
		assert.ErrorContains(t, err, "pinned by me on ")
	}
	_, err := Unpin(root, key)
	require.NoError(t, err)
	u := use(t, root, key)
	_, err = Remove(t.Context(), root, key, RemoveOptions{})
	assert.ErrorIs(t, err, ErrInUse)
	assert.ErrorContains(t, err, fmt.Sprintf("in use by process %d on ", os.Getpid()))
	whole(t, root, key)
	r, err := Remove(t.Context(), root, key, RemoveOptions{Force: true})
	require.NoError(t, err)
	assert.Equal(t, []string{mmapcache.DatasetKind}, kindsOf(r.Removed))
	assert.Len(t, r.Kept, 3, "who reads the parts goes on reading them")
	assert.False(t, exists(root, mmapcache.DatasetKind, key))
	u.Close()
	r = gc(t, root, time.Now().Add(2*time.Hour), forever())
	assert.Len(t, r.Removed, 3)
	assert.Empty(t, keysOf(t, root))
	entries, err := os.ReadDir(useDirOf(root))
	require.NoError(t, err)
	assert.Empty(t, entries)
}

// countdown is a context that ends after so many looks at it.
type countdown struct {
	context.Context
	left int
}

func (c *countdown) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

// Wherever it is stopped, every dataset that is left is whole, and running it again finishes.
func TestGCCanBeStoppedAnywhere(t *testing.T) {
	origin := t.TempDir()
	twins(t, origin)
	plainToy(40).build(t, origin, "third")
	for n := 0; ; n++ {
		root := filepath.Join(t.TempDir(), "root")
		require.NoError(t, os.CopyFS(root, os.DirFS(origin)))
		now := time.Now().Add(1000 * time.Hour)
		_, err := GC(&countdown{t.Context(), n}, root, GCOptions{MaxBytes: new(int64(0)), now: now})
		keys, listErr := realDisk().keysOf(root, mmapcache.DatasetKind)
		require.NoError(t, listErr)
		for _, key := range keys {
			whole(t, root, key)
		}
		assert.Empty(t, gc(t, root, now, GCOptions{MaxBytes: new(int64(0))}).Kept)
		assert.Empty(t, keysOf(t, root))
		if err == nil {
			require.Greater(t, n, 10, "steps")
			return
		}
		require.ErrorIs(t, err, context.Canceled)
	}
}

// What cannot be made out to be no pin is one, and keeps nothing else.
func TestGCGoesOnBesideAStrangePin(t *testing.T) {
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

// Readers, converters and two sweepers at once: whoever has left a note before he looked, and found something, keeps it.
func TestGCBesideReadersAndBuilders(t *testing.T) {
	root := t.TempDir()
	y := plainToy(40)
	var work, sweepers sync.WaitGroup
	stop := make(chan struct{})
	for range 2 {
		sweepers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				_, err := GC(t.Context(), root, GCOptions{MaxBytes: new(int64(0)), Keep: new(time.Duration), now: time.Now().Add(50 * time.Minute)})
				assert.NoError(t, err)
			}
		})
	}
	for k := range 3 {
		work.Go(func() {
			for n := range 15 {
				salt := fmt.Sprint((n + k) % 4)
				key := keyOf(t, mmapcache.DatasetKind, salt)
				u := NoteUse(contextOf(t), root, mmapcache.DatasetKind+"/"+key, mmapcache.StructureKind+"/"+keyOf(t, mmapcache.StructureKind, salt), mmapcache.PlacementKind+"/"+keyOf(t, mmapcache.PlacementKind, salt), mmapcache.ArenasKind+"/"+keyOf(t, mmapcache.ArenasKind, salt))
				assert.Equal(t, key, y.build(t, root, salt))
				c, err := mmapcache.Open(root, key)
				if assert.NoError(t, err, "what was made under a note is there") {
					assert.NoError(t, c.Close())
				}
				u.Close()
			}
		})
	}
	work.Wait()
	close(stop)
	sweepers.Wait()
	assert.Empty(t, stagingOf(t, root))
}

// keyOf is the key that a toy's directory gets.
func keyOf(t require.TestingT, kind, salt string) string {
	m, err := manifest.New(kind, map[string]string{"kind": kind, "salt": salt})
	require.NoError(t, err)
	return m.Key
}

// quarry is a root from which estates are put together: parts by number, and a dataset for every way to join them.
type quarry struct {
	root     string
	parts    map[string][]string // keys by kind
	datasets map[[3]int]string   // key by structure, starts and arenas
}

func newQuarry(t *testing.T) *quarry {
	y := plainToy(40)
	q := &quarry{t.TempDir(), map[string][]string{}, map[[3]int]string{}}
	manifests := map[string][]*manifest.Manifest{}
	for k := range 2 {
		m := y.buildStructure(t, q.root, fmt.Sprint(k))
		manifests[mmapcache.StructureKind] = append(manifests[mmapcache.StructureKind], m)
		manifests[mmapcache.ArenasKind] = append(manifests[mmapcache.ArenasKind], y.buildArenas(t, q.root, fmt.Sprint(k)))
	}
	for k := range 3 {
		manifests[mmapcache.PlacementKind] = append(manifests[mmapcache.PlacementKind], y.part(t, q.root, mmapcache.PlacementKind, fmt.Sprint(k), func(b *mmapcache.Builder) error { return y.writeStarts(t, b) }))
	}
	for kind, list := range manifests {
		for _, m := range list {
			q.parts[kind] = append(q.parts[kind], m.Key)
		}
	}
	for i, s := range manifests[mmapcache.StructureKind] {
		for j, r := range manifests[mmapcache.PlacementKind] {
			for k, a := range manifests[mmapcache.ArenasKind] {
				q.datasets[[3]int{i, j, k}] = y.part(t, q.root, mmapcache.DatasetKind, fmt.Sprint(i, j, k), func(b *mmapcache.Builder) error {
					for _, m := range []*manifest.Manifest{s, r, a} {
						b.AddPart(m)
					}
					return nil
				}).Key
			}
		}
	}
	return q
}

// estate is a root in which anything may be the case, and what is known of it.
type estate struct {
	root     string
	now      time.Time
	datasets map[string]*holding // by key
	noted    map[string]bool     // "kind/key" in use by somebody who lives, or may
	young    map[string]bool     // parts made within the hour
	notes    int
	left     int // things that killed processes and removed datasets have left
	close    func()
}

// holding is a dataset of an estate.
type holding struct {
	parts   []string
	used    time.Time
	pinned  bool
	state   string // "whole", "cut", "empty" or "newer"
	isYoung bool
}

// leaveNote writes a note of use of somebody else.
func (e *estate) leaveNote(t *rapid.T, owner string, age time.Duration, names []string) {
	path := filepath.Join(useDirOf(e.root), owner+".use")
	require.NoError(t, os.MkdirAll(useDirOf(e.root), 0o777))
	require.NoError(t, os.WriteFile(path, []byte(strings.Join(names, "\n")+"\n"), 0o666))
	require.NoError(t, os.Chtimes(path, e.now.Add(-age), e.now.Add(-age)))
}

// killed is an owner like this process, but for its number, which no process has.
func killed(t require.TestingT) string {
	root, err := os.MkdirTemp("", "")
	require.NoError(t, err)
	defer os.RemoveAll(root)
	u := NoteUse(contextOf(t), root)
	entries, err := os.ReadDir(useDirOf(root))
	require.NoError(t, err)
	require.Len(t, entries, 1)
	u.Close()
	fields := strings.Split(strings.TrimSuffix(entries[0].Name(), ".use"), "_")
	fields[3] = "536870912"
	return strings.Join(fields, "_")
}

func (e *estate) drawNote(t *rapid.T, names []string) {
	e.notes++
	name := fmt.Sprint(e.notes)
	switch rapid.SampledFrom([]string{"", "", "", "live", "dead", "foreign", "silent"}).Draw(t, "note") {
	case "live":
		u := NoteUse(contextOf(t), e.root, names...)
		before := e.close
		e.close = func() { before(); u.Close() }
	case "foreign":
		e.leaveNote(t, "elsewhere_boot_4_12_"+name, 80*time.Minute, names)
	case "dead":
		e.leaveNote(t, killed(t)+name, 0, names)
		e.left++
		return
	case "silent":
		e.leaveNote(t, "elsewhere_boot_4_12_"+name, 100*time.Minute, names)
		e.left++
		return
	default:
		return
	}
	for _, n := range names {
		e.noted[n] = true
	}
}

func (e *estate) copy(t require.TestingT, q *quarry, name string) {
	if _, err := os.Stat(filepath.Join(e.root, name)); err != nil {
		require.NoError(t, os.CopyFS(filepath.Join(e.root, name), os.DirFS(filepath.Join(q.root, name))))
	}
}

func drawEstate(t *rapid.T, q *quarry) *estate {
	root, err := os.MkdirTemp("", "estate")
	require.NoError(t, err)
	e := &estate{root: root, now: time.Now().Truncate(time.Second), datasets: map[string]*holding{}, noted: map[string]bool{}, young: map[string]bool{}}
	e.close = func() { require.NoError(t, os.RemoveAll(root)) }
	hours := func(label string) time.Time {
		return e.now.Add(-time.Duration(rapid.SampledFrom([]float64{0, 0.5, 2, 5, 40, 300}).Draw(t, label) * float64(time.Hour)))
	}
	parts := map[string]bool{}
	for range rapid.IntRange(0, 6).Draw(t, "datasets") {
		at := [3]int{rapid.IntRange(0, 1).Draw(t, "structure"), rapid.IntRange(0, 2).Draw(t, "starts"), rapid.IntRange(0, 1).Draw(t, "arenas")}
		key := q.datasets[at]
		if e.datasets[key] != nil {
			continue
		}
		d := &holding{parts: []string{mmapcache.StructureKind + "/" + q.parts[mmapcache.StructureKind][at[0]], mmapcache.PlacementKind + "/" + q.parts[mmapcache.PlacementKind][at[1]], mmapcache.ArenasKind + "/" + q.parts[mmapcache.ArenasKind][at[2]]}}
		e.datasets[key] = d
		e.copy(t, q, mmapcache.DatasetKind+"/"+key)
		for _, part := range d.parts {
			e.copy(t, q, part)
			parts[part] = true
		}
		dir := mmapcache.DatasetPath(root, key)
		d.state = rapid.SampledFrom([]string{"whole", "whole", "whole", "whole", "whole", "cut", "empty", "newer"}).Draw(t, "state")
		switch d.state {
		case "cut":
			require.NoError(t, os.Truncate(filepath.Join(dir, manifest.FileName), 70))
		case "empty":
			require.NoError(t, os.Remove(filepath.Join(dir, manifest.FileName)))
		case "newer":
			newer(t, dir)
		}
		d.used = hours("made")
		d.isYoung = e.now.Sub(d.used) < time.Hour
		require.NoError(t, os.Chtimes(dir, d.used, d.used))
		if rapid.Bool().Draw(t, "recorded") {
			d.used = hours("used")
			dateUse(t, root, key, d.used)
		}
		if d.pinned = rapid.IntRange(0, 4).Draw(t, "pinned") == 0; d.pinned {
			require.NoError(t, Pin(contextOf(t), root, key, "me"))
		}
		names := []string{mmapcache.DatasetKind + "/" + key}
		if rapid.Bool().Draw(t, "with parts") {
			names = append(names, d.parts...)
		}
		e.drawNote(t, names)
	}
	for _, kind := range mmapcache.PartKinds() {
		for _, key := range q.parts[kind] {
			name := kind + "/" + key
			if rapid.IntRange(0, 3).Draw(t, "alone") == 0 {
				e.copy(t, q, name)
				parts[name] = true
				e.drawNote(t, []string{name})
			}
			if parts[name] {
				at := hours("part made")
				e.young[name] = e.now.Sub(at) < time.Hour
				ageDirectory(t, root, kind, key, at)
			}
		}
	}
	e.drawLeftovers(t)
	return e
}

// drawLeftovers leaves what nobody needs any more.
func (e *estate) drawLeftovers(t *rapid.T) {
	gone := strings.Repeat("a", 64)
	old := e.now.Add(-2 * time.Hour)
	for _, name := range []string{gone + ".used", gone + ".pin", "." + gone + ".pin.123"} {
		if rapid.IntRange(0, 3).Draw(t, name) == 0 {
			path := filepath.Join(useDirOf(e.root), name)
			require.NoError(t, os.MkdirAll(useDirOf(e.root), 0o777))
			require.NoError(t, os.WriteFile(path, []byte("{}"), 0o666))
			if rapid.Bool().Draw(t, "old") {
				require.NoError(t, os.Chtimes(path, old, old))
				e.left++
			}
		}
	}
	if rapid.IntRange(0, 3).Draw(t, "staging") == 0 {
		dir := filepath.Join(e.root, durable.StagingDir, killed(t))
		require.NoError(t, os.MkdirAll(dir, 0o777))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "f"), []byte("12345"), 0o666))
		e.left++
	}
}

// held says in plain words what keeps a dataset, "" if nothing does.
func (e *estate) held(key string, keep time.Duration) string {
	d := e.datasets[key]
	switch {
	case d.pinned:
		return "pinned"
	case e.noted[mmapcache.DatasetKind+"/"+key]:
		return "in use"
	case d.state == "newer":
		return "newer"
	case d.state != "whole" && d.isYoung:
		return "young"
	case d.state == "whole" && e.now.Sub(d.used) < keep:
		return "used"
	}
	return ""
}

// opaque reports whether a dataset is left that might name any part.
func (e *estate) opaque() bool {
	for key, d := range e.datasets {
		if d.state != "whole" && exists(e.root, mmapcache.DatasetKind, key) {
			return true
		}
	}
	return false
}

func (e *estate) named(part string) bool {
	for key, d := range e.datasets {
		if d.state == "whole" && exists(e.root, mmapcache.DatasetKind, key) && slices.Contains(d.parts, part) {
			return true
		}
	}
	return false
}

// GC never removes what is pinned, used or named; what is left is small enough or held; what is left is whole; and a dry
// run says exactly what a run does. In any estate, under any options.
func TestGCKeepsItsPromises(t *testing.T) {
	q := newQuarry(t)
	if checks := flags.Lookup("rapid.checks"); os.Getenv("AGENTX_LONG") == "" && checks.Value.String() == checks.DefValue {
		require.NoError(t, checks.Value.Set("30"))
		defer func() { require.NoError(t, checks.Value.Set(checks.DefValue)) }()
	}
	rapid.Check(t, func(t *rapid.T) {
		e := drawEstate(t, q)
		defer func() { e.close() }()
		before := totalOf(t, e.root)
		hour := func(label string, list ...float64) time.Duration {
			return time.Duration(rapid.SampledFrom(list).Draw(t, label) * float64(time.Hour))
		}
		o := GCOptions{MaxAge: hour("max age", 0, 0, 1, 10, 100), now: e.now}
		if rapid.Bool().Draw(t, "limited") {
			o.MaxBytes = new(rapid.Int64Range(0, before).Draw(t, "max bytes"))
		}
		keep := hour("keep", 0, 0, 1, 10, 1000)
		if keep > 0 || rapid.Bool().Draw(t, "keep given") {
			o.Keep = &keep
		}

		o.DryRun = true
		was := names(t, e.root)
		said := gc(t, e.root, e.now, o)
		delete(was, durable.StagingDir) // in which the time is looked up
		require.Equal(t, was, func() map[string]bool { n := names(t, e.root); delete(n, durable.StagingDir); return n }(), "a dry run changes nothing")
		o.DryRun = false
		r := gc(t, e.root, e.now, o)
		said.DryRun = false
		require.Equal(t, said, r)

		require.Len(t, r.Swept, e.left)
		require.Equal(t, totalOf(t, e.root), r.BytesAfter)
		require.Equal(t, r.BytesBefore-r.BytesAfter, r.Freed)
		e.checkDatasets(t, o, keep)
		e.checkParts(t, r)
		e.checkSize(t, o, keep, r)

		again := gc(t, e.root, e.now, o)
		require.Empty(t, again.Removed)
		require.Empty(t, again.Swept)
	})
}

// names lists all below a directory.
func names(t require.TestingT, dir string) map[string]bool {
	list := map[string]bool{}
	require.NoError(t, fs.WalkDir(os.DirFS(dir), ".", func(path string, _ fs.DirEntry, err error) error {
		list[path] = true
		return err
	}))
	return list
}

func (e *estate) checkDatasets(t *rapid.T, o GCOptions, keep time.Duration) {
	for key, d := range e.datasets {
		there, held := exists(e.root, mmapcache.DatasetKind, key), e.held(key, keep)
		switch {
		case held != "":
			require.True(t, there, "held: %s", held)
		case d.state != "whole":
			require.False(t, there, "nobody can open it")
		case o.MaxAge > 0 && e.now.Sub(d.used) > o.MaxAge:
			require.False(t, there, "too old")
		case o.MaxBytes == nil:
			require.True(t, there, "nobody asked for its removal")
		}
		if there && d.state == "whole" {
			whole(t, e.root, key)
		}
	}
}

func (e *estate) checkParts(t *rapid.T, r *GCReport) {
	gone := map[string]bool{}
	for _, m := range r.Removed {
		name := m.Kind + "/" + m.Key
		gone[name] = true
		require.False(t, exists(e.root, m.Kind, m.Key))
		require.False(t, e.noted[name], "in use")
		require.NotEmpty(t, m.Why)
		if m.Kind == mmapcache.DatasetKind {
			continue
		}
		require.False(t, e.named(name))
		require.False(t, e.opaque(), "it might be named")
		for key, d := range e.datasets { // a dataset before its parts
			if d.state == "whole" && slices.Contains(d.parts, name) {
				require.True(t, gone[mmapcache.DatasetKind+"/"+key])
			}
		}
	}
	for _, kind := range mmapcache.PartKinds() {
		keys, err := realDisk().keysOf(e.root, kind)
		require.NoError(t, err)
		for _, key := range keys {
			name := kind + "/" + key
			require.True(t, e.named(name) || e.noted[name] || e.young[name] || e.opaque(), "nothing needs %s", name)
		}
	}
}

func (e *estate) checkSize(t *rapid.T, o GCOptions, keep time.Duration, r *GCReport) {
	last, freed := time.Time{}, int64(0)
	for k, m := range r.Removed {
		if strings.HasPrefix(m.Why, "least recently used") {
			last, freed = e.datasets[m.Key].used, 0
			require.NotNil(t, o.MaxBytes)
		}
		if freed += m.Bytes; k == len(r.Removed)-1 && !last.IsZero() {
			require.Greater(t, r.BytesAfter+freed, *o.MaxBytes, "the last one need not have gone")
		}
	}
	for key := range e.datasets {
		if !exists(e.root, mmapcache.DatasetKind, key) || e.held(key, keep) != "" {
			continue
		}
		require.True(t, o.MaxBytes == nil || r.BytesAfter <= *o.MaxBytes, "%s could go", key)
		require.False(t, e.datasets[key].used.Before(last), "it was used before one that went")
	}
}

// What lies behind a link is not the cache's: whoever may write into a shared root must not make another's gc remove
// what it could not remove itself.
func TestGCRemovesNothingBehindALink(t *testing.T) {
	for _, name := range append(mmapcache.Kinds(), useDir, durable.StagingDir) {
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

// Pins that are no files are pins, and keep nobody waiting.
func TestPinsThatAreNoFiles(t *testing.T) {
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
