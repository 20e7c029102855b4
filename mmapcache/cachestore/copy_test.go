package cachestore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
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

	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/mmapcache/internal/cachedir"
	"github.com/agentx/agentx/mmapcache/internal/cachedir/faultdisk"
)

// publishedIn reads every file of the directories of a cache root, by its path below the root.
func publishedIn(t *testing.T, root string) map[string]string {
	files := map[string]string{}
	for _, kind := range append(mmapcache.PartKinds(), mmapcache.DatasetKind) {
		dir := filepath.Join(root, kind)
		if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		for path, data := range snapshotOf(t, dir) {
			below, err := filepath.Rel(root, path)
			require.NoError(t, err)
			files[below] = data
		}
	}
	return files
}

// checkWholeOrAbsent checks that a root has some directories of a source, each whole, and no dataset without its parts.
func checkWholeOrAbsent(t *testing.T, source map[string]string, root string) {
	t.Helper()
	got := publishedIn(t, root)
	dirs, all := map[string]bool{}, map[string]bool{}
	for path := range got {
		dirs[filepath.Dir(path)] = true
	}
	for path := range source {
		all[filepath.Dir(path)] = true
	}
	for path, data := range source {
		if dirs[filepath.Dir(path)] {
			require.Equal(t, data, got[path], path)
			delete(got, path)
		}
		if strings.HasPrefix(path, mmapcache.DatasetKind) && dirs[filepath.Dir(path)] {
			require.Len(t, dirs, len(all))
		}
	}
	require.Empty(t, got)
}

// noStaging checks that the staging directory is empty.
func noStaging(t *testing.T, root string) {
	t.Helper()
	if _, err := os.Lstat(filepath.Join(root, durable.StagingDir)); err == nil {
		require.Empty(t, stagingOf(t, root))
	}
}

// copyAll copies a dataset and compares the copy with the source, byte by byte.
func copyAll(t *testing.T, from, to, key string, o CopyOptions) *CopyResult {
	t.Helper()
	return copyAllUnder(withoutSync(t), t, from, to, key, o)
}

func copyAllUnder(ctx context.Context, t *testing.T, from, to, key string, o CopyOptions) *CopyResult {
	t.Helper()
	c, err := Copy(ctx, from, to, key, o)
	require.NoError(t, err)
	require.Equal(t, publishedIn(t, from), publishedIn(t, to))
	noStaging(t, to)
	return c
}

func hitsOf(c *CopyResult) (kinds []string) {
	for _, kind := range append(mmapcache.PartKinds(), mmapcache.DatasetKind) {
		if c.Directories[kind].Hit {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

func TestCopy(t *testing.T) {
	from, to, again := t.TempDir(), filepath.Join(t.TempDir(), "deep", "root"), t.TempDir()
	key := plainToy(40).build(t, from, "")
	before := publishedIn(t, from)
	var last, most, all int64
	c := copyAllUnder(t.Context(), t, from, to, key, CopyOptions{Progress: func(done, total int64) {
		assert.GreaterOrEqual(t, done, last)
		last, most = done, total
	}})
	size, err := Size(from, key)
	require.NoError(t, err)
	info, err := Describe(from, key)
	require.NoError(t, err)
	for _, d := range info.Directories {
		all += d.Manifest.Size()
		assert.Equal(t, PartHit{Key: d.Manifest.Key}, c.Directories[d.Manifest.Kind])
	}
	assert.Equal(t, []int64{all, all}, []int64{last, most})
	assert.Equal(t, key, c.Key)
	assert.Equal(t, mmapcache.DatasetPath(to, key), c.Path)
	assert.Equal(t, size, c.Bytes)
	assert.False(t, c.Hit())
	assert.Len(t, c.Directories, 4)
	v, err := mmapcache.Verify(t.Context(), to, key)
	require.NoError(t, err)
	assert.Empty(t, v.Damages)
	assert.Empty(t, v.Notes)
	assert.FileExists(t, filepath.Join(to, readmeName))

	assert.False(t, copyAll(t, to, again, key, CopyOptions{}).Hit(), "a copy of a copy")
	assert.Equal(t, before, publishedIn(t, from))
	assert.Equal(t, before, publishedIn(t, again))
}

// Copy leaves existing directories alone and writes nothing for them.
func TestCopyFindsExistingDirectories(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	first, second := twins(t, from)
	_, err := Copy(withoutSync(t), from, to, first, CopyOptions{})
	require.NoError(t, err)
	c := copyAll(t, from, to, second, CopyOptions{})
	assert.Equal(t, []string{mmapcache.StructureKind, mmapcache.ArenasKind}, hitsOf(c), "parts that they share")
	assert.False(t, c.Hit())

	stamp := filepath.Join(mmapcache.DatasetPath(to, first), manifest.ProvenanceName)
	require.NoError(t, os.WriteFile(stamp, []byte(`{"host":"first"}`), 0o666))
	before := publishedIn(t, to)
	for _, key := range []string{first, second} {
		c, err := Copy(withSteps(t, func(name, path string) error {
			return fmt.Errorf("%s of %s", name, path)
		}), from, to, key, CopyOptions{})
		require.NoError(t, err)
		assert.True(t, c.Hit())
		assert.Zero(t, c.Bytes)
	}
	assert.Equal(t, before, publishedIn(t, to))
}

func TestCopyToItself(t *testing.T) {
	root := t.TempDir()
	key := plainToy(40).build(t, root, "")
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(root, link))
	t.Chdir(root)
	for _, to := range []string{root, root + "/", ".", link, filepath.Join(root, "starts", "..")} {
		_, err := Copy(withoutSync(t), root, to, key, CopyOptions{})
		assert.ErrorIs(t, err, ErrSameRoot, to)
	}
	_, err := Copy(withoutSync(t), root, filepath.Join(root, "starts"), key, CopyOptions{})
	assert.ErrorContains(t, err, "lies inside the cache")
}

// A copy of a missing dataset changes nothing in either root.
func TestCopyOfAMissingDataset(t *testing.T) {
	dir := t.TempDir()
	key := plainToy(40).build(t, filepath.Join(dir, "from"), "")
	before := snapshotOf(t, dir)
	for _, name := range []string{strings.Repeat("0", 64), "", ".", "../../" + mmapcache.DatasetKind + "/" + key} {
		_, err := Copy(t.Context(), filepath.Join(dir, "from"), filepath.Join(dir, "to"), name, CopyOptions{})
		assert.ErrorIs(t, err, mmapcache.ErrNoCache, name)
	}
	_, err := Copy(t.Context(), filepath.Join(dir, "nowhere"), filepath.Join(dir, "to"), key, CopyOptions{})
	assert.ErrorIs(t, err, mmapcache.ErrNoCache)
	assert.NoDirExists(t, filepath.Join(dir, "nowhere"))
	assert.NoDirExists(t, filepath.Join(dir, "to"))
	_, err = Copy(t.Context(), filepath.Join(dir, "from"), filepath.Join(mmapcache.DatasetPath(filepath.Join(dir, "from"), key), manifest.FileName), key, CopyOptions{})
	assert.Error(t, err, "a file is no root")
	assert.Equal(t, before, snapshotOf(t, dir))
}

// spoils are ways to damage a file, given its path and content.
var spoils = map[string]func(t *testing.T, path string, good []byte){
	"flip": func(t *testing.T, path string, good []byte) {
		bad := bytes.Clone(good)
		bad[len(bad)/2] ^= 1
		require.NoError(t, os.WriteFile(path, bad, 0o666))
	},
	"cut": func(t *testing.T, path string, good []byte) {
		require.NoError(t, os.WriteFile(path, good[:len(good)-1], 0o666))
	},
	"grow": func(t *testing.T, path string, good []byte) {
		require.NoError(t, os.WriteFile(path, append(bytes.Clone(good), 0), 0o666))
	},
	"remove":    func(t *testing.T, path string, _ []byte) {},
	"pipe":      func(t *testing.T, path string, _ []byte) { require.NoError(t, mkfifo(t, path)) },
	"directory": func(t *testing.T, path string, _ []byte) { require.NoError(t, os.Mkdir(path, 0o777)) },
	"link": func(t *testing.T, path string, good []byte) { // even to the right content
		target := filepath.Join(t.TempDir(), "target")
		require.NoError(t, os.WriteFile(target, good, 0o666))
		require.NoError(t, os.Symlink(target, path))
	},
	"dead link": func(t *testing.T, path string, _ []byte) { require.NoError(t, os.Symlink(path+"-gone", path)) },
}

// Damage of the source is an error that names the file. Neither that directory nor the dataset is published.
func TestCopyFindsEveryDamageOfItsSource(t *testing.T) {
	y, from := plainToy(40), t.TempDir()
	y.corpus = append(y.corpus, 12, 13, 30)
	key := y.build(t, from, "")
	whole := publishedIn(t, from)
	seen := map[string]bool{} // of each kind the manifest and one file
	for _, path := range filesOf(t, from, key) {
		which := fmt.Sprint(filepath.Dir(path), filepath.Base(path) == manifest.FileName)
		if seen[which] {
			continue
		}
		seen[which] = true
		good, err := os.ReadFile(path)
		require.NoError(t, err)
		to := ""
		for name, spoil := range spoils {
			to = t.TempDir()
			require.NoError(t, os.Remove(path))
			spoil(t, path, good)
			_, err = hasty(sourceDisk()).copy(withoutSync(t), from, to, key, CopyOptions{})
			require.ErrorIs(t, err, manifest.ErrDamaged, "%s of %s", name, path)
			require.ErrorContains(t, err, path, name)
			require.NotContains(t, err.Error(), durable.StagingDir, "%s of %s: it is not the copy that is damaged", name, path)
			if filepath.Base(path) != manifest.FileName && (name == "cut" || name == "grow") {
				require.ErrorContains(t, err, "the manifest says", "seen before it is read")
			}
			kind := filepath.Base(filepath.Dir(filepath.Dir(path)))
			require.NoDirExists(t, filepath.Join(to, kind, filepath.Base(filepath.Dir(path))), "%s of %s", name, path)
			require.NoDirExists(t, mmapcache.DatasetPath(to, key))
			checkWholeOrAbsent(t, whole, to)
			noStaging(t, to)
			require.NoError(t, os.RemoveAll(path))
			require.NoError(t, os.WriteFile(path, good, 0o666))
		}
		copyAll(t, from, to, key, CopyOptions{})
	}
}

// A whole part that is not the one that the dataset names is damage.
func TestCopyRefusesPartsThatTheDatasetDoesNotName(t *testing.T) {
	from := t.TempDir()
	key := plainToy(40).build(t, from, "")
	m, err := readManifest(from, mmapcache.DatasetKind, key, "")
	require.NoError(t, err)
	for kind, part := range m.Parts {
		to, dir := t.TempDir(), filepath.Join(from, kind, part.Key)
		good, err := os.ReadFile(filepath.Join(dir, manifest.FileName))
		require.NoError(t, err)
		makeOther(t, dir)
		_, err = Copy(withoutSync(t), from, to, key, CopyOptions{})
		require.ErrorIs(t, err, manifest.ErrDamaged)
		assert.ErrorContains(t, err, filepath.Join(dir, manifest.FileName))
		assert.Empty(t, publishedIn(t, to))
		require.NoError(t, os.WriteFile(filepath.Join(dir, manifest.FileName), good, 0o666))
	}
}

// A file of the source that grows while it is read is damage. Copy does not read on for ever.
func TestCopyOfAFileThatGrows(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	key := plainToy(40).build(t, from, "")
	files := filesOf(t, from, key)
	size, err := Size(from, key)
	require.NoError(t, err)
	_, err = Copy(withoutSync(t), from, to, key, CopyOptions{Progress: func(done, _ int64) {
		require.Less(t, done, size)
		for _, path := range files {
			f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
			require.NoError(t, err)
			_, err = f.Write(make([]byte, 2*chunk))
			require.NoError(t, errors.Join(err, f.Close()))
		}
	}})
	require.ErrorIs(t, err, manifest.ErrDamaged)
	assert.ErrorContains(t, err, from)
	assert.Empty(t, publishedIn(t, to))
	noStaging(t, to)
}

// On NFS another host may replace a file: every call to the source in turn returns ESTALE, once or always.
func TestCopyRetriesStaleFiles(t *testing.T) {
	from := t.TempDir()
	key := plainToy(40).build(t, from, "")
	whole := publishedIn(t, from)
	for n := 1; ; n++ {
		last := false
		for _, forGood := range []bool{false, true} {
			s := &faultdisk.Stale{Fails: func(call int) error {
				if call == n || forGood && call > n {
					return syscall.ESTALE
				}
				return nil
			}}
			d := hasty(sourceDisk())
			d.Open = func(path string) (fs.File, int64, error) {
				if err := s.Fail(path); err != nil {
					return nil, 0, err
				}
				f, size, err := openPlain(path)
				return faultdisk.StaleFile{File: f, Stale: s}, size, err
			}
			to := begun(t, from)
			_, err := d.copy(withoutSync(t), from, to, key, CopyOptions{})
			if forGood && err == nil {
				continue // an error, unless the file is a provenance
			} else if forGood {
				require.True(t, errors.Is(err, manifest.ErrDamaged) || errors.Is(err, syscall.ESTALE), "%v", err)
				checkWholeOrAbsent(t, whole, to)
			} else {
				require.NoError(t, err, "call %d", n)
				require.Equal(t, whole, publishedIn(t, to))
			}
			noStaging(t, to)
			last = s.Calls < n
		}
		if last {
			require.Greater(t, n, 10)
			return
		}
	}
}

// A provenance is copied as it is. If it cannot be read, or is a link, the copy has none.
func TestCopyOfProvenance(t *testing.T) {
	from := t.TempDir()
	key := plainToy(40).build(t, from, "")
	path := filepath.Join(mmapcache.DatasetPath(from, key), manifest.ProvenanceName)
	good, err := os.ReadFile(path)
	require.NoError(t, err)
	copied := func(name string) string {
		to := t.TempDir()
		_, err := Copy(withoutSync(t), from, to, key, CopyOptions{})
		require.NoError(t, err, name)
		noStaging(t, to)
		v, err := mmapcache.Verify(t.Context(), to, key)
		require.NoError(t, err)
		require.Empty(t, v.Damages)
		data, err := os.ReadFile(filepath.Join(mmapcache.DatasetPath(to, key), manifest.ProvenanceName))
		if errors.Is(err, fs.ErrNotExist) {
			return "none"
		}
		require.NoError(t, err)
		return string(data)
	}
	assert.Equal(t, string(good), copied("good"))
	for name, spoil := range spoils {
		require.NoError(t, os.RemoveAll(path))
		spoil(t, path, good)
		want := "none"
		if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() {
			data, err := os.ReadFile(path)
			require.NoError(t, err)
			want = string(data)
		}
		assert.Equal(t, want, copied(name), name)
	}
	require.NoError(t, os.RemoveAll(path))
	require.NoError(t, os.WriteFile(path, nil, 0o666))
	assert.Empty(t, copied("empty"))
	require.NoError(t, os.Truncate(path, cachedir.MaxProvenance+1)) // a hole
	assert.Equal(t, "none", copied("long"))
}

// Copy reads the target back before it publishes: each file in turn is changed on the way.
func TestCopyVerifiesOnArrival(t *testing.T) {
	from := t.TempDir()
	key := plainToy(40).build(t, from, "")
	whole := publishedIn(t, from)
	for n := 1; ; n++ {
		to, files, bad := t.TempDir(), 0, ""
		seen := map[string]bool{}
		_, err := Copy(durable.WithOptions(t.Context(), durable.Options{Sync: func(f *os.File) error {
			if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() || seen[f.Name()] {
				return err
			}
			seen[f.Name()] = true
			if files++; files != n {
				return nil
			}
			bad = f.Name()
			data, err := os.ReadFile(bad)
			require.NoError(t, err)
			data[len(data)/2] ^= 4
			return os.WriteFile(bad, data, 0)
		}}), from, to, key, CopyOptions{})
		if files < n {
			require.NoError(t, err)
			assert.Len(t, whole, files, "every file")
			break
		}
		require.ErrorIs(t, err, manifest.ErrDamaged, bad)
		require.ErrorContains(t, err, bad)
		require.NoDirExists(t, mmapcache.DatasetPath(to, key))
		checkWholeOrAbsent(t, whole, to)
		noStaging(t, to)
	}
}

// begun returns a root that has the structure and the arenas of another one.
func begun(t *testing.T, from string) string {
	to := t.TempDir()
	for _, kind := range []string{mmapcache.StructureKind, mmapcache.ArenasKind} {
		require.NoError(t, os.CopyFS(filepath.Join(to, kind), os.DirFS(filepath.Join(from, kind))))
	}
	return to
}

var errFull = errors.New("no space left")

// Every step on disk fails in turn: published directories are whole, nothing else is left, and the next copy finishes.
func TestEveryFailingStepOfCopy(t *testing.T) {
	from := t.TempDir()
	key := plainToy(40).build(t, from, "")
	whole := publishedIn(t, from)
	for _, damaged := range []bool{false, true} {
		for fail := 1; ; fail++ {
			to, steps := begun(t, from), 0
			if damaged { // cut, so that Copy must replace it
				for path := range whole {
					if strings.HasPrefix(path, mmapcache.PlacementKind) || strings.HasPrefix(path, mmapcache.DatasetKind) {
						require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(to, path)), 0o777))
						require.NoError(t, os.WriteFile(filepath.Join(to, path), []byte("cut"), 0o666))
					}
				}
			}
			step := func() error {
				if steps++; steps == fail {
					return errFull
				}
				return nil
			}
			_, err := Copy(durable.WithOptions(t.Context(), durable.Options{
				Step: func(name, path string) error {
					if name == "beat" || name == "release" { // these cause only a warning
						return nil
					}
					return step()
				},
				Sync: func(*os.File) error { return step() },
			}), from, to, key, CopyOptions{})
			if steps < fail {
				require.NoError(t, err)
				require.Greater(t, fail, 40)
				require.Equal(t, whole, publishedIn(t, to))
				noStaging(t, to)
				break
			}
			require.ErrorIs(t, err, errFull, "step %d", fail)
			noStaging(t, to)
			if !damaged {
				checkWholeOrAbsent(t, whole, to)
			}
			if fail%5 == 0 { // for speed
				copyAll(t, from, to, key, CopyOptions{})
			}
		}
	}
}

// A copy that is stopped at any step, or between two chunks, leaves whole directories and nothing else.
func TestCopyStopsWithItsContext(t *testing.T) {
	from := t.TempDir()
	key := plainToy(40).build(t, from, "")
	whole := publishedIn(t, from)
	for stop := 1; ; stop++ {
		to, done := begun(t, from), 0
		ctx, cancel := context.WithCancel(t.Context())
		step := func() {
			if done++; done == stop {
				cancel()
			}
		}
		steps := durable.Options{Step: func(string, string) error { step(); return nil }, Sync: unsynced.Sync}
		_, err := Copy(durable.WithOptions(ctx, steps), from, to, key, CopyOptions{Progress: func(_, _ int64) { step() }})
		cancel()
		if err == nil {
			require.Equal(t, whole, publishedIn(t, to))
		} else {
			require.ErrorIs(t, err, context.Canceled)
		}
		if done < stop {
			require.NoError(t, err)
			require.Greater(t, stop, 30)
			break
		}
		if stop == 1 {
			require.Error(t, err)
			require.NoDirExists(t, filepath.Join(to, mmapcache.PlacementKind))
		}
		checkWholeOrAbsent(t, whole, to)
		noStaging(t, to)
		copyAll(t, from, to, key, CopyOptions{})
	}
}

// A stopped copy does not read the rest of a long file.
func TestCopyStopsBetweenChunks(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	key := plainToy(chunk).build(t, from, "")
	ctx, cancel := context.WithCancel(t.Context())
	last, stopped := int64(0), false
	_, err := Copy(durable.WithOptions(ctx, unsynced), from, to, key, CopyOptions{Progress: func(done, _ int64) {
		require.False(t, stopped, "it reads on")
		if stopped = done-last == chunk; stopped {
			cancel()
		}
		last = done
	}})
	require.ErrorIs(t, err, context.Canceled)
	require.True(t, stopped)
	assert.NoDirExists(t, filepath.Join(to, mmapcache.ArenasKind))
	noStaging(t, to)
}

// Of several processes that copy the same to one root, one copies and the others wait for it.
func TestConcurrentCopiesCopyOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from, to := t.TempDir(), t.TempDir()
		key := plainToy(40).build(t, from, "")
		waiting := make(chan struct{})
		var others sync.Once
		o := CopyOptions{OnWait: func(holder string, _ time.Duration) {
			if strings.Contains(holder, fmt.Sprint("process ", os.Getpid())) { // the holder may not have written its name yet
				others.Do(func() { close(waiting) })
			}
		}}
		ctx := withSteps(t, func(name, path string) error {
			if name == "rename" && strings.HasPrefix(path, filepath.Join(to, mmapcache.StructureKind)) {
				<-waiting // until another copy waits for this one
			}
			return nil
		})
		var all []*CopyResult
		var mu sync.Mutex
		var done sync.WaitGroup
		for range 5 {
			done.Go(func() {
				c, err := Copy(ctx, from, to, key, o)
				assert.NoError(t, err)
				mu.Lock()
				all = append(all, c)
				mu.Unlock()
			})
		}
		done.Wait()
		made, written := map[string]int{}, int64(0)
		for _, c := range all {
			written += c.Bytes
			for kind, d := range c.Directories {
				if !d.Hit {
					made[kind]++
				}
			}
		}
		size, err := Size(from, key)
		require.NoError(t, err)
		assert.Equal(t, size, written)
		assert.Equal(t, map[string]int{mmapcache.StructureKind: 1, mmapcache.PlacementKind: 1, mmapcache.ArenasKind: 1, mmapcache.DatasetKind: 1}, made)
		assert.Equal(t, publishedIn(t, from), publishedIn(t, to))
		noStaging(t, to)
	})
}

// A copy that may not wait fails and names the process that holds the lease.
func TestCopyThatMayNotWait(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	key := plainToy(40).build(t, from, "")
	lease, existing, err := Claim(withoutSync(t), to, mmapcache.DatasetKind, key, ClaimOptions{})
	require.NoError(t, err)
	require.Nil(t, existing)
	_, err = Copy(withoutSync(t), from, to, key, CopyOptions{Wait: -1})
	require.ErrorIs(t, err, ErrBusy)
	assert.ErrorContains(t, err, fmt.Sprint("process ", os.Getpid()))
	require.NoError(t, lease.Release())
	assert.Equal(t, []string{mmapcache.StructureKind, mmapcache.PlacementKind, mmapcache.ArenasKind}, hitsOf(copyAll(t, from, to, key, CopyOptions{})))
}

// What a killed copy left is replaced. A copy that was only slow uses what the other one made.
func TestCopyIsTakenOver(t *testing.T) {
	from := t.TempDir()
	key := plainToy(40).build(t, from, "")
	m, err := readManifest(from, mmapcache.DatasetKind, key, "")
	require.NoError(t, err)
	t.Run("dead", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			to := t.TempDir()
			claim := filepath.Join(to, durable.StagingDir, mmapcache.ArenasKind+"-"+m.Parts[mmapcache.ArenasKind].Key+".000001")
			half := filepath.Join(claim, "host_boot_1_2_0123456789abcdef")
			require.NoError(t, os.MkdirAll(half, 0o777))
			require.NoError(t, os.WriteFile(filepath.Join(half, "tokens.u32"), []byte("half"), 0o666))
			c := copyAll(t, from, to, key, CopyOptions{})
			assert.Empty(t, hitsOf(c))
		})
	})
	// The slow copy stops at a step of one directory until another copy has finished.
	for _, at := range []string{"create tokens.u32", "written tokens.u32", "create manifest.json", "sync tokens.u32", "rename " + m.Parts[mmapcache.ArenasKind].Key} {
		t.Run(at, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				to := t.TempDir()
				stopped, ended := make(chan struct{}), make(chan struct{})
				var slow, silent atomic.Bool
				var warnings []string
				step := func(name, path string) error {
					switch {
					case name == "beat" && silent.Load():
						return errFull // no heartbeat
					case name+" "+filepath.Base(path) == at && strings.Contains(path, m.Parts[mmapcache.ArenasKind].Key) && slow.CompareAndSwap(false, true):
						silent.Store(true)
						close(stopped)
						<-ended
						silent.Store(false)
					}
					return nil
				}
				var done sync.WaitGroup
				done.Go(func() {
					ctx := durable.WithOptions(t.Context(), durable.Options{Step: step, Sync: func(f *os.File) error { return step("written", f.Name()) }})
					c, err := Copy(ctx, from, to, key, CopyOptions{
						Warn: func(format string, a ...any) { warnings = append(warnings, fmt.Sprintf(format, a...)) },
					})
					if assert.NoError(t, err) {
						assert.Equal(t, []string{mmapcache.ArenasKind, mmapcache.DatasetKind}, hitsOf(c))
					}
				})
				<-stopped
				c := copyAll(t, from, to, key, CopyOptions{})
				assert.Equal(t, []string{mmapcache.StructureKind, mmapcache.PlacementKind}, hitsOf(c))
				close(ended)
				done.Wait()
				require.Len(t, warnings, 1)
				assert.Contains(t, warnings[0], ErrLost.Error())
				assert.Equal(t, publishedIn(t, from), publishedIn(t, to))
				noStaging(t, to)
			})
		})
	}
}

// Two contents under one key are an error of the program that made one of them: Copy keeps the existing one and fails.
func TestCopyKeepsOtherContent(t *testing.T) {
	from := t.TempDir()
	key := plainToy(40).build(t, from, "")
	m, err := readManifest(from, mmapcache.DatasetKind, key, "")
	require.NoError(t, err)
	for _, kind := range append(mmapcache.PartKinds(), mmapcache.DatasetKind) {
		to := t.TempDir()
		of := m.Parts[kind].Key
		if kind == mmapcache.DatasetKind {
			of = key
		}
		dir := filepath.Join(to, kind, of)
		require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join(from, kind, of))))
		makeOther(t, dir)
		before := publishedIn(t, to)
		_, err = Copy(withoutSync(t), from, to, key, CopyOptions{})
		require.ErrorContains(t, err, dir+": content differs from", kind)
		assert.ErrorContains(t, err, "cache rm")
		assert.Equal(t, before, publishedIn(t, to), "nothing is copied for what cannot be")
	}
}

// A process without a lease may publish during a copy: before the copy has the lease, or after.
func TestCopyFindsDirectoriesPublishedMeanwhile(t *testing.T) {
	from, source := t.TempDir(), t.TempDir()
	key := plainToy(40).build(t, from, "")
	require.NoError(t, os.CopyFS(source, os.DirFS(from)))
	whole := publishedIn(t, from)
	m, err := readManifest(from, mmapcache.DatasetKind, key, "")
	require.NoError(t, err)
	for _, kind := range append(mmapcache.PartKinds(), mmapcache.DatasetKind) {
		of := m.Parts[kind].Key
		if kind == mmapcache.DatasetKind {
			of = key
		}
		for step, path := range map[string]string{
			"claim": filepath.Join(durable.StagingDir, kind+"-"+of+".000001"), "rename": filepath.Join(kind, of),
		} {
			meet := func(change func(dir string)) (string, error) {
				to, met := t.TempDir(), false
				_, err := Copy(withSteps(t, func(name, at string) error {
					if name == step && at == filepath.Join(to, path) && !met {
						met = true
						dir := filepath.Join(to, kind, of)
						require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join(source, kind, of))))
						change(dir)
					}
					return nil
				}), from, to, key, CopyOptions{})
				require.True(t, met)
				noStaging(t, to)
				return to, err
			}
			to, err := meet(func(dir string) {
				require.NoError(t, os.WriteFile(filepath.Join(dir, manifest.ProvenanceName), []byte(`{"host":"other"}`), 0o666))
			})
			require.NoError(t, err, "the same")
			p, err := mmapcache.ReadProvenance(filepath.Join(to, kind, of))
			require.NoError(t, err)
			assert.Equal(t, "other", p.Host, "it stays")

			to, err = meet(func(dir string) { require.NoError(t, os.Truncate(filepath.Join(dir, manifest.FileName), 5)) })
			require.NoError(t, err, "damaged")
			assert.Equal(t, whole, publishedIn(t, to))

			to, err = meet(func(dir string) { makeOther(t, dir) })
			require.ErrorContains(t, err, "content differs from", "at %s of %s", step, kind)
			other, err := manifest.Read(filepath.Join(to, kind, of))
			require.NoError(t, err)
			assert.JSONEq(t, otherFacts, string(other.Facts), "it stays")
		}
	}
}

const otherFacts = `{"other":true}`

// makeOther gives a directory other content under the same key.
func makeOther(t *testing.T, dir string) {
	other, err := manifest.Read(dir)
	require.NoError(t, err)
	other.Facts = []byte(otherFacts)
	data, err := other.Encode()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, manifest.FileName), data, 0o666))
}

// Directories of the target with files of a wrong size are copied again.
func TestCopyRepairsItsTarget(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	key := plainToy(40).build(t, from, "")
	copyAll(t, from, to, key, CopyOptions{})
	for _, path := range filesOf(t, to, key) {
		for _, name := range []string{"cut", "grow", "remove"} {
			good, err := os.ReadFile(path)
			require.NoError(t, err)
			require.NoError(t, os.Remove(path))
			spoils[name](t, path, good)
			c := copyAll(t, from, to, key, CopyOptions{})
			assert.Len(t, hitsOf(c), 3, "%s of %s", name, path)
		}
	}
}

// Copy publishes a dataset only if the parts that it names still exist.
func TestCopyPublishesNoDatasetOfRemovedParts(t *testing.T) {
	from := t.TempDir()
	key := plainToy(40).build(t, from, "")
	m, err := readManifest(from, mmapcache.DatasetKind, key, "")
	require.NoError(t, err)
	for kind, part := range m.Parts {
		to := t.TempDir()
		dir := filepath.Join(to, kind, part.Key)
		_, err := Copy(withSteps(t, func(name, path string) error {
			if name == "claim" && strings.Contains(path, mmapcache.DatasetKind+"-") {
				require.DirExists(t, dir)
				require.NoError(t, os.RemoveAll(dir))
			}
			return nil
		}), from, to, key, CopyOptions{})
		require.ErrorContains(t, err, dir+": it was removed or replaced meanwhile")
		assert.NoDirExists(t, mmapcache.DatasetPath(to, key))
		noStaging(t, to)
		c := copyAll(t, from, to, key, CopyOptions{})
		assert.Len(t, hitsOf(c), 2)
	}
}

// During a copy the parts are noted as in use, and afterwards the dataset is recorded as used.
func TestCopyNotesWhatItUses(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	key := plainToy(40).build(t, from, "")
	seen := 0
	copyAll(t, from, to, key, CopyOptions{Progress: func(_, _ int64) {
		for _, root := range []string{from, to} {
			kinds := map[string]bool{}
			for name := range usersOf(t, root) {
				kind, _, _ := strings.Cut(name, "/")
				kinds[kind] = true
			}
			require.ElementsMatch(t, append(mmapcache.PartKinds(), mmapcache.DatasetKind), slices.Collect(maps.Keys(kinds)))
		}
		seen++
	}})
	assert.Positive(t, seen)
	for _, root := range []string{from, to} {
		assert.Empty(t, usersOf(t, root))
		assert.NotNil(t, lastUse(root, key))
	}
}

// Copy refuses names in a manifest that lead out of its directory.
func TestCopyRefusesPathsOutOfADirectory(t *testing.T) {
	y, from := plainToy(40), t.TempDir()
	m, err := readManifest(from, mmapcache.DatasetKind, y.build(t, from, ""), "")
	require.NoError(t, err)
	starts := m.Parts[mmapcache.PlacementKind]
	dataset := func(salt string, change func(*manifest.Manifest)) string {
		key := y.part(t, from, mmapcache.DatasetKind, salt, func(*mmapcache.Builder) error { return nil }).Key
		rewrite(t, from, mmapcache.DatasetKind, key, func(d *manifest.Manifest) {
			d.Parts = maps.Clone(m.Parts)
			change(d)
		})
		return key
	}
	for salt, change := range map[string]func(*manifest.Manifest){
		"key": func(d *manifest.Manifest) {
			d.Parts[mmapcache.PlacementKind] = manifest.Part{Key: "../../starts/" + starts.Key, Digest: starts.Digest}
		},
		"kind":    func(d *manifest.Manifest) { d.Parts["../../starts"] = starts },
		"fewer":   func(d *manifest.Manifest) { delete(d.Parts, mmapcache.PlacementKind) },
		"unknown": func(d *manifest.Manifest) { d.Files = []manifest.File{{Name: "lost", Size: 0}} },
		"file":    func(d *manifest.Manifest) { d.Files = []manifest.File{{Name: "../../file", Size: 0}} },
	} {
		dir := t.TempDir()
		key := dataset(salt, change)
		_, err := Copy(withoutSync(t), from, filepath.Join(dir, "to"), key, CopyOptions{})
		require.ErrorIs(t, err, manifest.ErrDamaged, salt)
		assert.Empty(t, snapshotOf(t, dir), salt)
	}
}

// A copy into a directory that a group shares is open to the group, whatever the umask, and so is a pin in it.
func TestCopyKeepsThePermissionsOfItsTarget(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	key := plainToy(40).build(t, from, "")
	require.NoError(t, os.Chmod(to, 0o770|fs.ModeSetgid))
	require.NoError(t, umasked(t, 0o077, func() error {
		copyAllUnder(withSteps(t, func(name, path string) error {
			if name == "rename" { // at this step other processes of the group read and write the staging directory
				checkOpenToGroup(t, to)
			}
			return nil
		}), t, from, to, key, CopyOptions{})
		return Pin(t.Context(), to, key, "tests")
	}))
	checkOpenToGroup(t, to)
}

func checkOpenToGroup(t *testing.T, root string) {
	require.NoError(t, filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		require.NoError(t, err)
		if strings.HasPrefix(e.Name(), "beat.") {
			return nil // renaming a file needs permission only for its directory
		}
		info, err := e.Info()
		require.NoError(t, err)
		want := fs.FileMode(0o660)
		if e.IsDir() {
			want = 0o770
		}
		require.Equal(t, want, info.Mode().Perm(), path)
		return nil
	}))
}
