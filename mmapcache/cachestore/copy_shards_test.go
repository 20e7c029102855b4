package cachestore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache"
)

// Of a dataset of shards only those are copied that the target lacks.
func TestCopyOfSharedShards(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	first, second := kin(t, from)
	c, err := Copy(withoutSync(t), from, to, first, CopyOptions{})
	require.NoError(t, err)
	assert.Equal(t, &ShardCount{Total: 3}, c.Shards)
	assert.False(t, c.Hit())
	size, err := Size(from, first)
	require.NoError(t, err)
	assert.Equal(t, size, c.Bytes)
	before := totalOf(t, to)

	last, total, goal := int64(0), int64(-1), int64(0)
	c = copyAll(t, from, to, second, CopyOptions{Progress: func(done, of int64) {
		assert.Greater(t, done, last)
		last, total = done, of
	}})
	assert.Equal(t, &ShardCount{Total: 3, Found: 2}, c.Shards)
	assert.Equal(t, []string{mmapcache.ArenasKind}, hitsOf(c))
	assert.ElementsMatch(t, []string{mmapcache.ArenasKind, mmapcache.DatasetKind}, slices.Collect(maps.Keys(c.Directories)))
	assert.Equal(t, totalOf(t, to)-before, c.Bytes)
	for _, part := range partsIn(t, from, second) {
		if part.Key == keyOf(t, part.Kind, "d") {
			m, err := readManifest(from, part.Kind, part.Key, "")
			require.NoError(t, err)
			goal += m.Size()
		}
	}
	assert.Equal(t, []int64{goal, goal}, []int64{last, total}, "the bytes of one shard")

	c = copyAll(t, from, to, second, CopyOptions{})
	assert.True(t, c.Hit())
	assert.Equal(t, &ShardCount{Total: 3, Found: 3}, c.Shards)
	assert.Zero(t, c.Bytes)

	require.NoError(t, os.RemoveAll(filepath.Join(to, mmapcache.PlacementKind, keyOf(t, mmapcache.PlacementKind, "b"))))
	c = copyAll(t, from, to, second, CopyOptions{})
	assert.False(t, c.Hit(), "the dataset is there, and one of its shards was not")
	assert.Equal(t, &ShardCount{Total: 3, Found: 2}, c.Shards)
	assert.Error(t, CopyOptions{Workers: -1}.Validate())
}

// A copy of shards that is stopped at any step leaves whole directories, no dataset and nothing else. The next one goes on with the
// shards that are missing.
func TestCopyOfShardsGoesOn(t *testing.T) {
	from := t.TempDir()
	key := plainToy(40).buildShards(t, from, "a", "b", "c", "a")
	whole := publishedIn(t, from)
	seen := map[int]bool{} // numbers of shards that were there already
	for _, workers := range []int{1, 0} {
		for stop := int64(1); ; stop += 11 {
			to, steps := t.TempDir(), atomic.Int64{}
			ctx, cancel := context.WithCancel(t.Context())
			_, err := Copy(durable.WithOptions(ctx, durable.Options{Sync: unsynced.Sync, Step: func(string, string) error {
				if steps.Add(1) == stop {
					cancel()
				}
				return nil
			}}), from, to, key, CopyOptions{Workers: workers})
			cancel()
			checkWholeOrAbsent(t, whole, to)
			noStaging(t, to)
			if steps.Load() < stop {
				require.NoError(t, err)
				break
			}
			if err == nil {
				continue // stopped after the dataset
			}
			require.ErrorIs(t, err, context.Canceled)
			there := 0
			for _, salt := range []string{"a", "b", "c", "a"} {
				if exists(to, mmapcache.StructureKind, keyOf(t, mmapcache.StructureKind, salt)) && exists(to, mmapcache.PlacementKind, keyOf(t, mmapcache.PlacementKind, salt)) {
					there++
				}
			}
			seen[there] = true
			c := copyAll(t, from, to, key, CopyOptions{Workers: workers})
			require.Equal(t, &ShardCount{Total: 4, Found: there}, c.Shards)
		}
	}
	assert.Greater(t, len(seen), 3)
}

// Every step on disk of a copy of shards fails in turn, with several workers: the others stop, and what is published is whole.
func TestEveryFailingStepOfACopyOfShards(t *testing.T) {
	from := t.TempDir()
	key := plainToy(40).buildShards(t, from, "a", "b", "c")
	whole := publishedIn(t, from)
	for fail := int64(1); ; fail += 7 {
		to, steps := t.TempDir(), atomic.Int64{}
		step := func() error {
			if steps.Add(1) == fail {
				return errFull
			}
			return nil
		}
		_, err := Copy(durable.WithOptions(t.Context(), durable.Options{
			Step: func(name, path string) error {
				if name == "beat" || name == "release" {
					return nil
				}
				return step()
			},
			Sync: func(*os.File) error { return step() },
		}), from, to, key, CopyOptions{})
		checkWholeOrAbsent(t, whole, to)
		noStaging(t, to)
		if err == nil {
			require.Less(t, steps.Load(), fail)
			require.Greater(t, fail, int64(60))
			return
		}
		require.ErrorIs(t, err, errFull, "step %d", fail)
	}
}

// Several shards are copied at once, as many as there are workers, and no more.
func TestCopyOfSeveralShardsAtOnce(t *testing.T) {
	for workers, want := range map[int]int{1: 1, 3: 3, 0: partsAtOnce} {
		synctest.Test(t, func(t *testing.T) {
			from, to := t.TempDir(), t.TempDir()
			salts := strings.Split("abcdefghijkl", "")
			key := plainToy(40).buildShards(t, from, salts...)
			var mu sync.Mutex
			running, most := 0, 0
			add := func(n int) {
				mu.Lock()
				defer mu.Unlock()
				running += n
				most = max(most, running)
			}
			ctx := withSteps(t, func(name, path string) error {
				if name == "rename" && filepath.Base(filepath.Dir(path)) != mmapcache.DatasetKind {
					add(1)
					time.Sleep(time.Second) // until all that run have come here
					add(-1)
				}
				return nil
			})
			c := copyAllUnder(ctx, t, from, to, key, CopyOptions{Workers: workers})
			assert.Equal(t, want, most)
			assert.Equal(t, &ShardCount{Total: len(salts)}, c.Shards)
		})
	}
}

// Two copies of one dataset of shards to one root copy every directory once, together.
func TestConcurrentCopiesOfShards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from, to := t.TempDir(), t.TempDir()
		key := plainToy(40).buildShards(t, from, strings.Split("abcdefghijkl", "")...)
		var written, waits atomic.Int64
		var done sync.WaitGroup
		for range 2 {
			done.Go(func() {
				c, err := Copy(withSteps(t, func(name, _ string) error {
					if name == "rename" {
						time.Sleep(time.Second)
					}
					return nil
				}), from, to, key, CopyOptions{OnWait: func(string, time.Duration) { waits.Add(1) }})
				if assert.NoError(t, err) {
					written.Add(c.Bytes)
				}
			})
		}
		done.Wait()
		size, err := Size(from, key)
		require.NoError(t, err)
		assert.Equal(t, size, written.Load())
		assert.Positive(t, waits.Load())
		assert.Equal(t, publishedIn(t, from), publishedIn(t, to))
		noStaging(t, to)
	})
}

// Damage of one shard is an error that names its file. Neither that directory nor the dataset is published, and the copy goes on
// once the source is whole again.
func TestCopyOfADamagedShard(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	key := plainToy(40).buildShards(t, from, "a", "b", "c")
	whole := publishedIn(t, from)
	for _, name := range []string{"turns.arrow", manifest.FileName} {
		path := filepath.Join(from, mmapcache.StructureKind, keyOf(t, mmapcache.StructureKind, "b"), name)
		good, err := os.ReadFile(path)
		require.NoError(t, err)
		spoils["flip"](t, path, good)
		_, err = Copy(withoutSync(t), from, to, key, CopyOptions{})
		require.ErrorIs(t, err, manifest.ErrDamaged)
		require.ErrorContains(t, err, path)
		require.NoError(t, os.WriteFile(path, good, 0o666))
		checkWholeOrAbsent(t, whole, to)
		assert.False(t, exists(to, mmapcache.DatasetKind, key))
		noStaging(t, to)
	}
	copyAll(t, from, to, key, CopyOptions{})
}

// A dataset whose shards lead elsewhere is damaged, and nothing of it is copied.
func TestCopyRefusesShardsThatLeadElsewhere(t *testing.T) {
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "to")
	key := plainToy(40).buildShards(t, from, "a", "b")
	rewrite(t, from, mmapcache.DatasetKind, key, func(m *manifest.Manifest) {
		m.Facts = []byte(strings.Replace(string(m.Facts), keyOf(t, mmapcache.PlacementKind, "b"), "../../x", 1))
	})
	_, err := Copy(withoutSync(t), from, to, key, CopyOptions{})
	require.ErrorIs(t, err, manifest.ErrDamaged)
	assert.ErrorContains(t, err, filepath.Join(mmapcache.DatasetPath(from, key), manifest.FileName))
	assert.NoDirExists(t, to)
}

// each stops at the first error, and when its context ends, and returns only when all calls have.
func TestEachStops(t *testing.T) {
	failed := errors.New("failed")
	for atOnce := range 4 {
		var calls, running atomic.Int64
		err := each(t.Context(), 100, atOnce+1, func(ctx context.Context, k int) error {
			calls.Add(1)
			running.Add(1)
			defer running.Add(-1)
			if k == 5 {
				return fmt.Errorf("%d: %w", k, failed)
			}
			if k > 5 {
				<-ctx.Done()
			}
			return context.Cause(ctx)
		})
		assert.ErrorIs(t, err, failed)
		assert.LessOrEqual(t, calls.Load(), int64(6+atOnce))
		assert.Zero(t, running.Load())
	}
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	err := each(ctx, 10, 1, func(context.Context, int) error { calls++; cancel(); return nil })
	assert.ErrorIs(t, err, context.Canceled)
	assert.Equal(t, 1, calls)
}
