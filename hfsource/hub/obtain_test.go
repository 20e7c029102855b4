package hub

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/internal/fakehub"
)

// writePythonCache writes files and a listing as the Python client does; without links as on a file system without them.
func (w *fixture) writePythonCache(links, listing bool, names ...string) {
	w.t.Helper()
	write := func(path string, b []byte) {
		require.NoError(w.t, os.MkdirAll(filepath.Dir(path), 0o777))
		require.NoError(w.t, os.WriteFile(path, b, 0o666))
	}
	write(w.repoPath("refs", "main"), []byte(w.commit))
	for _, name := range names {
		f := w.files[name]
		at := w.repoPath("snapshots", w.commit, name)
		if !links {
			write(at, f.Data)
			continue
		}
		write(w.repoPath("blobs", f.ETag()), f.Data)
		require.NoError(w.t, os.MkdirAll(filepath.Dir(at), 0o777))
		require.NoError(w.t, os.Symlink(strings.Repeat("../", strings.Count(name, "/")+2)+"blobs/"+f.ETag(), at))
	}
	if listing {
		var list []string
		for name, f := range w.files {
			e := fmt.Sprintf(`{"size": %d, "blob_id": %q`, len(f.Data), fakehub.GitDigest(f.Data))
			if f.LFS {
				e += fmt.Sprintf(`, "lfs_sha256": %q, "lfs_size": %d`, f.ETag(), len(f.Data))
			}
			list = append(list, fmt.Sprintf("%q: %s}", name, e))
		}
		write(w.repoPath("trees", w.commit+".json"), []byte(`{"format_version": 1, "files": {`+strings.Join(list, ", ")+`}}`))
	}
}

// moveToXet moves a blob to the directory that the Python client uses for Xet, and leaves a link to it.
func (w *fixture) moveToXet(name string) (store string) {
	w.t.Helper()
	f, blob := w.files[name], w.repoPath("blobs", w.files[name].ETag())
	hash := f.XetHash()
	shared := filepath.Join(w.home, "hub", "blobs")
	store = filepath.Join(shared, hash[:2], hash)
	require.NoError(w.t, os.MkdirAll(filepath.Dir(store), 0o777))
	require.NoError(w.t, os.Rename(blob, store))
	require.NoError(w.t, os.Chmod(store, 0o444))
	for path, text := range map[string]string{
		store + ".lock": "", store + ".refs": filepath.Base(w.repoPath()) + "/blobs/" + f.ETag() + "\n",
		filepath.Join(shared, ".huggingface-shared-blobs"): "1\n",
	} {
		require.NoError(w.t, os.WriteFile(path, []byte(text), 0o666))
	}
	require.NoError(w.t, os.Symlink("../../blobs/"+hash[:2]+"/"+hash, blob))
	return store
}

// A blob that came from Xet is a link to a file that repositories share.
func TestAdoptsXetBlobs(t *testing.T) {
	for _, offline := range []bool{false, true} {
		for _, listing := range []bool{false, true} {
			runInBubble(t, func(w *fixture) {
				w.writePythonCache(true, listing, cardName, data)
				w.moveToXet(data)
				if offline {
					w.env["HF_HUB_OFFLINE"] = "1"
					w.transport = forbidden{t}
				}
				for range 2 {
					s := w.mustFetch(ref)
					assert.Zero(t, s.BytesNetwork)
					assert.Equal(t, w.repoPath("snapshots", w.commit, data), s.Files[0].LocalPath)
				}
				assert.Empty(t, w.log())
				_, resolvers, cdn := w.hub.Calls()
				assert.Zero(t, resolvers+cdn)
			})
		}
	}
	runInBubble(t, func(w *fixture) { // damage in the shared file does not concern other repositories
		w.writePythonCache(true, true, cardName, data)
		store := w.moveToXet(data)
		wrong := content(300_000, 77)
		require.NoError(t, os.Chmod(store, 0o666))
		require.NoError(t, os.WriteFile(store, wrong, 0o666))
		s := w.mustFetch(ref)
		assert.Equal(t, FromNetwork, s.Files[0].Source)
		assert.Contains(t, w.log(), "hash mismatch")
		info, err := os.Lstat(w.blob())
		require.NoError(t, err)
		assert.True(t, info.Mode().IsRegular())
		got, err := os.ReadFile(store)
		require.NoError(t, err)
		assert.True(t, bytes.Equal(wrong, got), "it is not ours to mend")
	})
	runInBubble(t, func(w *fixture) { // the shared directory is a link that leads out
		w.writePythonCache(true, true, cardName, data)
		dir := filepath.Dir(w.moveToXet(data))
		elsewhere := filepath.Join(t.TempDir(), "elsewhere")
		require.NoError(t, os.Rename(dir, elsewhere))
		require.NoError(t, os.Symlink(elsewhere, dir))
		s := w.mustFetch(ref)
		assert.Equal(t, FromNetwork, s.Files[0].Source)
		assert.Contains(t, w.log(), "is not used: "+w.blob()+" is a link that leads out of the cache")
	})
}

func TestAdoptsFilesOfPythonClient(t *testing.T) {
	runInBubble(t, func(w *fixture) {
		w.writePythonCache(true, false, cardName, data)
		s := w.mustFetch(ref)
		assert.Equal(t, FromOtherProgram, s.Files[0].Source)
		assert.Zero(t, s.BytesNetwork)
		w.checkCalls(2, 0, 0) // the listing, once
		w.mustFetch(ref)
		w.checkCalls(1, 0, 0)
	})
	runInBubble(t, func(w *fixture) {
		w.writePythonCache(true, true, cardName, data)
		assert.Equal(t, FromOtherProgram, w.mustFetch(ref).Files[0].Source)
		w.checkCalls(1, 0, 0)
	})
	for _, listing := range []bool{true, false} { // copies without links: only the listing has their digests
		runInBubble(t, func(w *fixture) {
			w.writePythonCache(false, listing, cardName, data)
			s := w.mustFetch(ref)
			assert.Equal(t, FromOtherProgram, s.Files[0].Source)
			assert.Equal(t, w.repoPath("snapshots", w.commit, data), s.Files[0].LocalPath)
			_, resolvers, cdn := w.hub.Calls()
			assert.Zero(t, resolvers+cdn)
			w.mustFetch(ref)
		})
		runInBubble(t, func(w *fixture) { // offline
			w.writePythonCache(false, listing, cardName, data)
			w.env["HF_HUB_OFFLINE"] = "1"
			w.transport = forbidden{t}
			_, err := w.fetch(ref)
			assert.Equal(t, listing, err == nil, "%v", err)
		})
		runInBubble(t, func(w *fixture) {
			w.writePythonCache(true, listing, cardName, data)
			w.env["HF_HUB_OFFLINE"] = "1"
			w.transport = forbidden{t}
			s, err := w.fetch(ref)
			require.NoError(t, err)
			w.checkSnapshot(s)
		})
	}
	runInBubble(t, func(w *fixture) { // a copy that was changed since
		w.writePythonCache(false, true, cardName, data)
		require.NoError(t, os.WriteFile(w.repoPath("snapshots", w.commit, data), content(300_000, 77), 0o666))
		s := w.mustFetch(ref)
		assert.Equal(t, FromNetwork, s.Files[0].Source)
		assert.Contains(t, w.log(), "hash mismatch")
		w.mustFetch(ref)
	})
	runInBubble(t, func(w *fixture) { // only a part of it is there
		w.writePythonCache(true, true, cardName)
		s := w.mustFetch(ref)
		assert.Equal(t, FromNetwork, s.Files[0].Source)
		w.checkCalls(1, 1, 1)
	})
}

func TestDamagedBlobIsReplaced(t *testing.T) {
	for name, damage := range map[string]func([]byte) []byte{
		"bit": func(b []byte) []byte { b[5] ^= 1; return b }, "short": func(b []byte) []byte { return b[:len(b)-1] },
		"long": func(b []byte) []byte { return append(b, 0) }, "empty": func([]byte) []byte { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			runInBubble(t, func(w *fixture) {
				w.mustFetch(ref)
				require.NoError(t, os.WriteFile(w.blob(), damage(content(300_000, 1)), 0o666))
				s := w.mustFetch(ref)
				assert.Equal(t, FromNetwork, s.Files[0].Source)
				assert.Contains(t, w.log(), "hash mismatch")
				assert.Contains(t, w.log(), "is replaced by what the hub has")
				w.checkCalls(3, 3, 2)
			})
		})
	}
}

// With TrustCached the reader compares the digest, not Fetch.
func TestTrustCachedOpensNoBlob(t *testing.T) {
	runInBubble(t, func(w *fixture) {
		w.mustFetch(ref)
		lazy := func() *Snapshot {
			o := w.options()
			o.TrustCached = true
			s, err := Fetch(w.context(), Ref{Repo: repoName}, o)
			require.NoError(t, err)
			return s
		}
		w.durable.Step = func(name, path string) error {
			assert.False(t, name == "open" && path == w.blob(), "the data was opened")
			return nil
		}
		s := lazy()
		assert.Equal(t, w.files[data].ETag(), s.Files[0].SHA256)
		assert.EqualValues(t, 300_000, s.Files[0].Size)
		w.durable.Step = nil
		require.NoError(t, s.Close())
		s = lazy()
		w.checkSnapshot(s)
		require.NoError(t, s.Close())

		require.NoError(t, os.WriteFile(w.blob(), content(1000, 1), 0o666)) // another size is noticed
		s = lazy()
		assert.Equal(t, FromNetwork, s.Files[0].Source)
		w.checkSnapshot(s)
		require.NoError(t, s.Close())
	})
}

// Of two caches, the reference that was written last counts.
func TestLatestRefWins(t *testing.T) {
	runInBubble(t, func(w *fixture) {
		w.mustFetch(ref)
		old := w.commit
		other := filepath.Join(w.root, "hub", filepath.Base(w.repoPath()))
		require.NoError(t, os.CopyFS(other, os.DirFS(w.repoPath())))
		w.commitData(content(1000, 5))
		w.mustFetch(ref)
		w.env["HF_HUB_OFFLINE"] = "1"
		now := time.Now()
		require.NoError(t, os.Chtimes(w.repoPath("refs", "main"), now, now.Add(-time.Hour)))
		require.NoError(t, os.Chtimes(filepath.Join(other, "refs", "main"), now, now.Add(-time.Minute)))
		s, err := w.fetch(ref)
		require.NoError(t, err)
		assert.Equal(t, old, s.Commit)
		require.NoError(t, os.Chtimes(filepath.Join(other, "refs", "main"), now, now.Add(-2*time.Hour)))
		s, err = w.fetch(ref)
		require.NoError(t, err)
		assert.Equal(t, w.commit, s.Commit)
	})
}

func TestFileSizes(t *testing.T) {
	for _, size := range []int{0, 1, readSize - 1, readSize, readSize + 1, 2 * readSize} {
		for _, lfs := range []bool{true, false} {
			runInBubble(t, func(w *fixture) {
				w.files = map[string]fakehub.File{data: {Data: content(size, 4), LFS: lfs}}
				w.commit = w.hub.Commit(repoName, "main", w.files)
				w.mustFetch(ref)
				w.mustFetch(ref)
			})
		}
	}
}

// When the hub is down, or the server is not a hub, a verified local copy of the same commit is used.
func TestFallsBackToLocalCopy(t *testing.T) {
	for _, s := range []fakehub.Fault{fakehub.Status(503), fakehub.Status(429), fakehub.Drop, fakehub.Status(200), silent} {
		runInBubble(t, func(w *fixture) {
			w.mustFetch(ref)
			w.hub.On(fakehub.Match{Listener: "hub"}, s)
			got := w.mustFetch(ref)
			assert.Equal(t, ResolvedByLocalRef, got.Resolution)
			assert.Contains(t, w.log(), "using the last known commit")
		})
		runInBubble(t, func(w *fixture) { // without a listing, single files are found by their links
			w.writePythonCache(true, false, cardName, data)
			w.hub.On(fakehub.Match{Listener: "hub"}, s)
			w.mustFetch(ref)
		})
		runInBubble(t, func(w *fixture) {
			w.writePythonCache(true, false, cardName)
			w.hub.On(fakehub.Match{Listener: "hub"}, s)
			_, err := w.fetch(ref)
			require.Error(t, err)
			assert.NotEqual(t, ClassNotCached, classOf(err), "it says that the hub is down: %v", err)
		})
	}
}

// A dataset that moved on the hub has another commit: old bytes are not served under its name.
//
// Covers F3.
func TestMovedDatasetHasNewCommit(t *testing.T) {
	runInBubble(t, func(w *fixture) {
		first, old := w.mustFetch(ref), w.commit
		before := w.files
		w.commitData(content(300_000, 8)) // of the same size
		second := w.mustFetch(ref)
		assert.NotEqual(t, first.Commit, second.Commit)
		assert.NotEqual(t, first.Files[0].SHA256, second.Files[0].SHA256)
		w.files = before
		assert.Equal(t, first.Files[0].SHA256, w.mustFetch(ref + "@" + old).Files[0].SHA256)
	})
}

// A snapshot directory is not taken for a complete dataset.
//
// Covers F25.
func TestDirectoryIsNotASnapshot(t *testing.T) {
	runInBubble(t, func(w *fixture) {
		files := map[string]fakehub.File{"a.jsonl": {Data: content(5000, 1), LFS: true}, "b.jsonl": {Data: content(5000, 2), LFS: true}}
		w.files, w.commit = files, w.hub.Commit(repoName, "main", files)
		w.writePythonCache(true, false, "a.jsonl") // what a killed download leaves: reference, directory, the first file
		w.env["HF_HUB_OFFLINE"] = "1"
		_, err := w.fetch(ref)
		assert.Equal(t, ClassNotCached, classOf(err))
		assert.ErrorContains(t, err, "need not be all")
		w.mustFetch(ref + "/a.jsonl")
		_, err = w.fetch(ref + "/b.jsonl")
		assert.Equal(t, ClassNotCached, classOf(err))

		delete(w.env, "HF_HUB_OFFLINE")
		s := w.mustFetch(ref)
		require.Len(t, s.Files, 2)
		assert.Equal(t, FromNetwork, s.Files[1].Source)
	})
}

// Nothing is read from the snapshots of other repositories or commits.
//
// Covers F26.
func TestOtherSnapshotsAreNotRead(t *testing.T) {
	runInBubble(t, func(w *fixture) {
		w.mustFetch(ref)
		old, before := w.commit, w.files
		w.commitData(content(250_000, 8))
		w.mustFetch(ref) // a newer snapshot of another commit
		other := clone(w.files)
		other[data] = fakehub.File{Data: content(1000, 9), LFS: true}
		w.hub.Commit("other/corpus", "main", other)
		w.env["HF_HUB_OFFLINE"] = "1"
		_, err := w.fetch("hf://datasets/other/corpus")
		assert.Equal(t, ClassNotCached, classOf(err), "another corpus is not taken in its place")
		_, err = w.fetch(ref + "@" + strings.Repeat("1", 40))
		assert.Equal(t, ClassNotCached, classOf(err), "nor another commit")
		w.files = before
		s := w.mustFetch(ref + "@" + old)
		assert.Equal(t, old, s.Commit)
	})
}

func TestWaitsForAnotherProcess(t *testing.T) {
	runInBubble(t, func(w *fixture) {
		locks := filepath.Join(w.home, "hub", ".locks", filepath.Base(w.repoPath()))
		never := func() (bool, error) { return false, nil }
		lease, err := durable.Acquire(w.t.Context(), locks, w.files[data].ETag(), never, durable.Waiting{})
		require.NoError(t, err)
		o := w.options()
		o.Wait = -1
		_, err = Fetch(w.context(), Ref{Repo: repoName}, o)
		require.Error(t, err)
		assert.ErrorIs(t, err, durable.ErrBusy)
		assert.ErrorContains(t, err, data)

		var done sync.WaitGroup
		reports := 0
		done.Go(func() {
			o := w.options()
			o.OnWait = func(string, time.Duration) { reports++ }
			s, err := Fetch(w.context(), Ref{Repo: repoName}, o)
			if assert.NoError(t, err) {
				assert.Equal(t, FromNetwork, s.Files[0].Source)
				assert.NoError(t, s.Close())
			}
		})
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.Positive(t, reports)
		require.NoError(t, lease.Release())
		done.Wait()
	})
}

// Several files are downloaded at a time, each once. The result has the order of the selection.
func TestManyFiles(t *testing.T) {
	runInBubble(t, func(w *fixture) {
		w.files = map[string]fakehub.File{}
		for k := range 40 {
			w.files[fmt.Sprintf("d/%02d.jsonl", k)] = fakehub.File{Data: content(1000+k, byte(k)), LFS: k%2 == 0}
		}
		w.commit = w.hub.Commit(repoName, "main", w.files)
		var mu sync.Mutex
		var done, total int64
		r, err := Parse(ref)
		require.NoError(t, err)
		o := w.options()
		o.Progress = func(n, of int64) {
			mu.Lock()
			defer mu.Unlock()
			done, total = done+n, of
		}
		s, err := Fetch(w.context(), r, o)
		require.NoError(t, err)
		w.checkSnapshot(s)
		for k, f := range s.Files {
			assert.Equal(t, fmt.Sprintf("d/%02d.jsonl", k), f.Path)
		}
		assert.Equal(t, total, done)
		assert.Equal(t, total, s.BytesNetwork)
		require.NoError(t, s.Close())
	})
	runInBubble(t, func(w *fixture) { // one failure cancels the others, and names the file
		w.files = map[string]fakehub.File{}
		for k := range 20 {
			w.files[fmt.Sprintf("%02d.jsonl", k)] = fakehub.File{Data: content(1000+k, byte(k)), LFS: true}
		}
		w.commit = w.hub.Commit(repoName, "main", w.files)
		w.hub.On(fakehub.Match{Path: "07.jsonl"}, fakehub.Refuse(404, "EntryNotFound", ""))
		_, err := w.fetch(ref)
		require.Error(t, err)
		assert.ErrorContains(t, err, "07.jsonl")
		w.checkRef(w.repoPath())
	})
}

// A process that waits for the download of another reports its progress.
func TestWaitersSeeProgress(t *testing.T) {
	runInBubble(t, func(w *fixture) {
		w.hub.On(onFile, fakehub.Times(1, fakehub.Slow(20)))
		var done sync.WaitGroup
		done.Go(func() { _, err := w.fetch(ref); assert.NoError(t, err) })
		time.Sleep(10500 * time.Millisecond)
		var mu sync.Mutex
		seen := int64(0)
		o := w.options()
		o.Progress = func(n, _ int64) {
			mu.Lock()
			defer mu.Unlock()
			seen += n
		}
		for range 2 {
			done.Go(func() {
				s, err := Fetch(w.context(), Ref{Repo: repoName}, o)
				if assert.NoError(t, err) {
					assert.NoError(t, s.Close())
				}
			})
		}
		time.Sleep(5 * time.Second)
		mu.Lock()
		assert.GreaterOrEqual(t, seen, int64(2*13))
		assert.Less(t, seen, int64(2*20))
		mu.Unlock()
		done.Wait()
		assert.EqualValues(t, 600_000, seen)
	})
}

// Sizes below 0 and beyond maxFile are refused.
func TestAbsurdSizes(t *testing.T) {
	for _, size := range []string{"9223372036854775807", "-1", "1e30", `"5"`} {
		runInBubble(t, func(w *fixture) {
			w.hub.On(onTree, func(http.HandlerFunc) http.HandlerFunc {
				return func(rw http.ResponseWriter, _ *http.Request) {
					fmt.Fprintf(rw, `[{"type": "file", "path": "traces.jsonl", "oid": %q, "size": %s}]`, strings.Repeat("a", 40), size)
				}
			})
			_, err := w.fetch(ref)
			require.Error(t, err)
			assert.Contains(t, []Class{ClassNotHub, ClassNotFound}, classOf(err), "%v", err)
			w.checkNothingPublished()
		})
	}
}

// Files with the same content are downloaded once, and have the same source.
func TestEqualFilesShareOneDownload(t *testing.T) {
	runInBubble(t, func(w *fixture) {
		same := fakehub.File{Data: content(5000, 1), LFS: true}
		w.files = map[string]fakehub.File{"a.jsonl": same, "b.jsonl": same, "c.jsonl": same}
		w.commit = w.hub.Commit(repoName, "main", w.files)
		s := w.mustFetch(ref)
		require.Len(t, s.Files, 3)
		for _, f := range s.Files {
			assert.Equal(t, FromNetwork, f.Source, f.Path)
		}
		assert.EqualValues(t, 5000, s.BytesNetwork)
		for _, f := range w.mustFetch(ref).Files {
			assert.Equal(t, FromCache, f.Source, f.Path)
		}
	})
}

// Offline, the error about a damaged copy says what to do.
func TestOfflineDamageSaysWhatToDo(t *testing.T) {
	runInBubble(t, func(w *fixture) {
		w.mustFetch(ref)
		require.NoError(t, os.WriteFile(w.blob(), content(300_000, 77), 0o666))
		w.env["HF_HUB_OFFLINE"] = "1"
		_, err := w.fetch(ref)
		assert.Equal(t, ClassNotCached, classOf(err))
		assert.ErrorContains(t, err, data+": offline, and the copy in the cache is damaged: its digest is not the one that the hub names: commit "+w.commit)
		assert.Equal(t, "once without HF_HUB_OFFLINE: that downloads it", Hint(err))
	})
}
