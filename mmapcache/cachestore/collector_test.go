package cachestore

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache"
)

// justNote leaves a note of use without waiting for markers.
func justNote(t *testing.T, root string, names ...string) {
	t.Cleanup(durable.NoteUse(root, useDirOf(root), names).Close)
}

// A dataset that comes into use, or is pinned, once GC has marked it stays, and stays in its place all the time.
func TestGCKeepsDatasetsThatComeIntoUseOnceMarked(t *testing.T) {
	now := time.Now()
	for name, meanwhile := range map[string]func(t *testing.T, root, first string){
		"used": func(t *testing.T, root, first string) { justNote(t, root, mmapcache.DatasetKind+"/"+first) },
		"pinned": func(t *testing.T, root, first string) {
			require.NoError(t, os.WriteFile(usePath(root, first, pinSuffix), nil, 0o666))
		},
		"used and gone": func(t *testing.T, root, first string) { dateUse(t, root, first, now.Add(-defaultSharedKeep+1)) },
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
			r := gcUnder(ctx, t, root, now, GCOptions{MaxBytes: new(totalOf(t, root) - 1), Keep: new(defaultSharedKeep)})
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

// A process that opens or pins a marked dataset waits. If the remover saw its note the dataset stays; else it is gone.
func TestReadersWaitForMarkedDatasets(t *testing.T) {
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
						synctest.Wait() // until it has written its note or pin, and waits for the marker
						assert.Empty(t, done)
					}
					ctx := onceMarked(t, begin)
					if late { // after GC has read the notes
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

// The marker of a killed remover keeps a reader waiting no longer than its lease lasts. A remover that was only slow then
// removes nothing that it has not renamed away yet.
func TestMarkersEndWithTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := t.TempDir()
		key := plainToy(40).build(t, root, "")
		begin := time.Now()
		var stopped atomic.Bool
		stopped.Store(true)
		ctx := withSteps(t, func(step, path string) error {
			switch {
			case step == "beat" && stopped.Load():
				return syscall.EIO // so it has no heartbeat
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

// Readers of other datasets do not wait for a marker. Neither do readers that can leave no note.
func TestReadersIgnoreMarkersOfOtherDatasets(t *testing.T) {
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

// A dataset that was damaged when GC scanned it may have been built again when its turn comes.
func TestGCKeepsRepairedDatasets(t *testing.T) {
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

// The dataset that names a part may be published while the part is marked.
func TestGCKeepsPartsThatBecomeNamed(t *testing.T) {
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

// A dataset that was used since the scan is not removed for its age, but still by Remove.
func TestGCKeepsDatasetsUsedSinceTheScan(t *testing.T) {
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
	require.Error(t, c.checkUnneeded(it, fresh))
	c.requested = true
	require.NoError(t, c.checkUnneeded(it, fresh))
}

// While one process removes from a root, GC and Remove of other processes wait or fail.
func TestOneProcessRemovesAtATime(t *testing.T) {
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

// A process that was so slow that another one took its lease over removes nothing.
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

// A full disk has no room for a lease. GC frees space without one.
//
// Covers F18.
func TestGCOnAFullDiskGoesWithoutALease(t *testing.T) {
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

// On a full disk, without a marker, GC puts back a dataset that comes into use while it is renamed away.
//
// Covers F18.
func TestGCOnAFullDiskPutsBackWhatIsUsed(t *testing.T) {
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

// countdown is a context that ends after so many calls of Err.
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

// Wherever GC is stopped, every dataset that is left is whole, and the next GC finishes.
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

// Readers, converters and two collectors at once: a process that left a note before it looked keeps what it found.
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

// keyOf returns the key of a toy's directory.
func keyOf(t require.TestingT, kind, salt string) string {
	m, err := manifest.New(kind, map[string]string{"kind": kind, "salt": salt})
	require.NoError(t, err)
	return m.Key
}
