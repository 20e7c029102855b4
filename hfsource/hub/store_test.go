package hub

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/internal/fakehub"
)

func TestTwoRepositoriesWithEqualBlobs(t *testing.T) {
	runInBubble(t, func(w *fixture) {
		w.hub.Commit("other/repo", "main", w.files)
		a := w.mustFetch(ref)
		b := w.mustFetch("hf://datasets/other/repo")
		assert.Equal(t, FromNetwork, b.Files[0].Source)
		assert.NotEqual(t, a.Files[0].LocalPath, b.Files[0].LocalPath)
		assert.Equal(t, a.Files[0].SHA256, b.Files[0].SHA256)
	})
}

func TestDiskFull(t *testing.T) {
	runInBubble(t, func(w *fixture) {
		written := 0
		full := true
		w.durable.Step = func(name, path string) error {
			if name == "write" && strings.Contains(path, w.files[data].ETag()) {
				if written++; written > 3 && full {
					return syscall.ENOSPC
				}
			}
			return nil
		}
		e := w.mustFail(ref, ClassLocalDisk, "no space in "+filepath.Join(w.home, "hub"), data)
		assert.Contains(t, e.Hint, "continues from there")
		full = false
		s := w.mustFetch(ref)
		assert.Less(t, s.BytesNetwork, int64(300_000), "what was there was used")
	})
	runInBubble(t, func(w *fixture) { // before the download
		d := &download{store: openStore(w.home, datasets, repoName, durable.Options{}), fileJob: &fileJob{want: entry{Size: 1 << 60}}}
		defer d.store.close()
		err := d.checkSpace()
		assert.Equal(t, ClassLocalDisk, classOf(err))
		assert.ErrorContains(t, err, "no space in "+w.home)
		d.want.Size = 1000
		assert.NoError(t, d.checkSpace())
	})
}

// A cache that cannot be written is read, and downloads go below the cache root.
func TestReadOnlyCache(t *testing.T) {
	readOnly := func(w *fixture) {
		w.durable.Step = func(name, path string) error {
			if name != "open" && strings.HasPrefix(path, w.home) {
				return syscall.EROFS
			}
			return nil
		}
	}
	runInBubble(t, func(w *fixture) { // present
		w.mustFetch(ref)
		readOnly(w)
		w.mustFetch(ref)
		w.checkCalls(3, 2, 1)
		assert.Empty(t, w.log())
		assert.NoDirExists(t, filepath.Join(w.root, "hub"), "nothing is left to be noted")
	})
	runInBubble(t, func(w *fixture) { // present except for the listing, which is written to the second cache
		w.writePythonCache(true, false, cardName, data)
		readOnly(w)
		assert.Equal(t, FromOtherProgram, w.mustFetch(ref).Files[0].Source)
		w.checkCalls(2, 0, 0)
		w.mustFetch(ref)
		w.checkCalls(1, 0, 0)
	})
	runInBubble(t, func(w *fixture) { // absent
		readOnly(w)
		s := w.mustFetch(ref)
		assert.Equal(t, FromNetwork, s.Files[0].Source)
		assert.True(t, strings.HasPrefix(s.Files[0].LocalPath, filepath.Join(w.root, "hub")), s.Files[0].LocalPath)
		assert.Contains(t, w.log(), "nothing can be written in "+filepath.Join(w.home, "hub"))
		w.checkCalls(2, 2, 1)
		assert.Equal(t, FromCache, w.mustFetch(ref).Files[0].Source)
		w.checkCalls(1, 0, 0)
		w.env["HF_HUB_OFFLINE"] = "1"
		w.mustFetch(ref)
	})
	runInBubble(t, func(w *fixture) { // absent, and no cache can be written
		w.root = ""
		readOnly(w)
		_, err := w.fetch(ref)
		assert.Equal(t, ClassLocalDisk, classOf(err))
		assert.ErrorContains(t, err, filepath.Join(w.home, "hub"))
		assert.Contains(t, Hint(err), "HF_HUB_CACHE")
	})
	runInBubble(t, func(w *fixture) { // no home at all
		delete(w.env, "HF_HOME")
		s := w.mustFetch(ref)
		assert.True(t, strings.HasPrefix(s.Files[0].LocalPath, filepath.Join(w.root, "hub")))
		w.root = ""
		_, err := w.fetch(ref)
		assert.Equal(t, ClassLocalDisk, classOf(err))
	})
	runInBubble(t, func(w *fixture) { // a file is where the cache should be
		require.NoError(t, os.WriteFile(filepath.Join(w.home, "hub"), nil, 0o666))
		s := w.mustFetch(ref)
		assert.True(t, strings.HasPrefix(s.Files[0].LocalPath, filepath.Join(w.root, "hub")))
	})
}

// When any step on the disk fails, nothing incomplete is published, and the next run succeeds.
func TestEveryStepFailsOnce(t *testing.T) {
	steps := 0
	runInBubble(t, func(w *fixture) {
		w.durable.Step = func(name, _ string) error {
			if name != "release" { // the lease would stay until it expires
				steps++
			}
			return nil
		}
		w.mustFetch(ref)
	})
	require.Greater(t, steps, 20)
	for k := range steps {
		runInBubble(t, func(w *fixture) {
			count := 0
			w.durable.Step = func(name, _ string) error {
				if name == "release" {
					return nil
				}
				if count++; count == k+1 {
					return errors.New("planted")
				}
				return nil
			}
			s, err := w.fetch(ref)
			if err == nil {
				w.checkContent(s)
			}
			w.durable.Step = nil
			if b, err := os.ReadFile(w.blob()); err == nil {
				require.Equal(t, w.files[data].ETag(), fakehub.Digest(b))
			}
			w.mustFetch(ref)
		})
	}
}

// The reference is written before everything else of its commit: "hf cache prune" removes commits without one at any time.
func TestRefIsWrittenFirst(t *testing.T) {
	runInBubble(t, func(w *fixture) {
		var order []string // paths in the order in which they appear
		w.durable.Step = func(name, path string) error {
			w.checkRef(w.repoPath())
			if name == "rename" || name == "link" {
				order = append(order, strings.Trim(strings.TrimPrefix(path, w.repoPath()), "/"))
			}
			return nil
		}
		w.mustFetch(ref)
		w.checkRef(w.repoPath())
		blob, link := slices.Index(order, "blobs/"+w.files[data].ETag()), slices.Index(order, "snapshots/"+w.commit+"/"+data)
		assert.Equal(t, []string{"refs/main", "trees/" + w.commit + ".json"}, order[:2])
		assert.Less(t, 1, blob)
		assert.Less(t, blob, link)
		assert.Equal(t, len(order)-1, link)
	})
}

// What "hf cache prune" removes during a download is not downloaded again: the partial file, and everything of a pinned
// commit, which has no reference.
func TestRemovedPartialFile(t *testing.T) {
	for _, all := range []bool{false, true} {
		runInBubble(t, func(w *fixture) {
			removed := 0
			w.hub.On(onFile, fakehub.Times(1, fakehub.CutAndCall(200_000, func() {
				synctest.Wait()
				removed++
				assert.NoError(t, os.Remove(w.blob()+partialSuffix))
				if all {
					assert.NoError(t, os.RemoveAll(w.repoPath()))
				}
			})))
			s := w.mustFetch(ref + "@" + w.commit)
			assert.Equal(t, 1, removed)
			assert.EqualValues(t, 300_000, s.BytesNetwork)
			assert.Empty(t, w.log())
		})
	}
}

// A process that lost its lease because it was slow changes neither the partial file of the new holder nor its blob.
func TestTakenOverHolderChangesNothing(t *testing.T) {
	runInBubble(t, func(w *fixture) {
		w.hub.On(onFile, fakehub.Times(1, fakehub.Corrupt(290_000))) // the slow process receives wrong bytes
		stopped, goOn := make(chan bool), make(chan bool)
		faulty := w.durable
		n := 0
		faulty.Step = func(name, path string) error {
			if name == "beat" {
				return errors.New("this process is stopped")
			}
			if name == "write" && strings.Contains(path, w.files[data].ETag()) {
				if n++; n == 2 {
					close(stopped)
					<-goOn
				}
			}
			return nil
		}
		var slow sync.WaitGroup
		slow.Go(func() {
			s, err := Fetch(durable.WithOptions(w.t.Context(), faulty), Ref{Repo: repoName}, w.options())
			if assert.NoError(t, err, "it goes on with what the other one has made") {
				assert.NoError(t, s.Close())
			}
		})
		<-stopped
		s := w.mustFetchUnchecked(ref) // waits three heartbeats, copies what is there, and goes on
		w.checkContent(s)
		close(goOn)
		slow.Wait()
		b, err := os.ReadFile(w.blob())
		require.NoError(t, err)
		assert.Equal(t, w.files[data].ETag(), fakehub.Digest(b))
		assert.Empty(t, leftovers(t, w.home))
	})
}

// mustFetchUnchecked is mustFetch while another process still downloads.
func (w *fixture) mustFetchUnchecked(input string) *Snapshot {
	s, err := w.fetch(input)
	require.NoError(w.t, err)
	return s
}

func TestSweep(t *testing.T) {
	runInBubble(t, func(w *fixture) {
		w.mustFetch(ref)
		old := w.repoPath("blobs", strings.Repeat("a", 64)+partialSuffix)
		young := w.repoPath("blobs", strings.Repeat("b", 64)+partialSuffix)
		foreign := w.repoPath("blobs", strings.Repeat("c", 64)+".12345678.incomplete")
		for _, path := range []string{old, young, foreign} {
			require.NoError(t, os.WriteFile(path, []byte("x"), 0o666))
		}
		ago := realNow(t).Add(-8 * 24 * time.Hour)
		require.NoError(t, os.Chtimes(old, ago, ago))
		require.NoError(t, os.Chtimes(foreign, ago, ago))
		dead := filepath.Join(w.home, "hub", ".locks", filepath.Base(w.repoPath()), durable.StagingDir, strings.Repeat("d", 64)+".000001")
		require.NoError(t, os.Mkdir(dead, 0o777))
		require.NoError(t, os.Chtimes(dead, ago, ago))
		require.NoError(t, os.Remove(w.blob())) // so that the cache is written
		_, err := w.fetch(ref)
		require.NoError(t, err)
		assert.NoFileExists(t, old)
		assert.FileExists(t, young)
		assert.FileExists(t, foreign, "the Python client's own")
		assert.NoDirExists(t, dead)
	})
}

// realNow returns the time of the file system, which is not that of the synctest bubble.
func realNow(t *testing.T) time.Time {
	f, err := os.CreateTemp(t.TempDir(), "")
	require.NoError(t, err)
	info, err := f.Stat()
	require.NoError(t, errors.Join(err, f.Close()))
	return info.ModTime()
}
