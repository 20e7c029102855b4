package hub

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
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

	"github.com/agentx/agentx/hfsource/hub/fakehub"
	"github.com/agentx/agentx/internal/durable"
)

// python lays files out as the Python client does; without links as it does where there are none.
func (w *world) python(links, listing bool, names ...string) {
	w.t.Helper()
	write := func(path string, b []byte) {
		require.NoError(w.t, os.MkdirAll(filepath.Dir(path), 0o777))
		require.NoError(w.t, os.WriteFile(path, b, 0o666))
	}
	write(w.place("refs", "main"), []byte(w.commit))
	for _, name := range names {
		f := w.files[name]
		at := w.place("snapshots", w.commit, name)
		if !links {
			write(at, f.Data)
			continue
		}
		write(w.place("blobs", f.ETag()), f.Data)
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
		write(w.place("trees", w.commit+".json"), []byte(`{"format_version": 1, "files": {`+strings.Join(list, ", ")+`}}`))
	}
}

// share moves a blob to where the Python client keeps what came from Xet, for all repositories, and leaves a link to it.
func (w *world) share(name string) (store string) {
	w.t.Helper()
	f, blob := w.files[name], w.place("blobs", w.files[name].ETag())
	hash := f.XetHash()
	shared := filepath.Join(w.home, "hub", "blobs")
	store = filepath.Join(shared, hash[:2], hash)
	require.NoError(w.t, os.MkdirAll(filepath.Dir(store), 0o777))
	require.NoError(w.t, os.Rename(blob, store))
	require.NoError(w.t, os.Chmod(store, 0o444))
	for path, text := range map[string]string{
		store + ".lock": "", store + ".refs": filepath.Base(w.place()) + "/blobs/" + f.ETag() + "\n",
		filepath.Join(shared, ".huggingface-shared-blobs"): "1\n",
	} {
		require.NoError(w.t, os.WriteFile(path, []byte(text), 0o666))
	}
	require.NoError(w.t, os.Symlink("../../blobs/"+hash[:2]+"/"+hash, blob))
	return store
}

// A blob that came from Xet is a link to one that repositories share.
func TestAdoptsXetBlobs(t *testing.T) {
	for _, offline := range []bool{false, true} {
		for _, listing := range []bool{false, true} {
			bubble(t, func(w *world) {
				w.python(true, listing, cardName, data)
				w.share(data)
				if offline {
					w.env["HF_HUB_OFFLINE"] = "1"
					w.transport = forbidden{t}
				}
				for range 2 {
					s := w.good(ref)
					assert.Zero(t, s.BytesNetwork)
					assert.Equal(t, w.place("snapshots", w.commit, data), s.Files[0].LocalPath)
				}
				assert.Empty(t, w.noticed())
				_, resolvers, cdn := w.hub.Calls()
				assert.Zero(t, resolvers+cdn)
			})
		}
	}
	bubble(t, func(w *world) { // another repository has no part in it when the shared one is wrong
		w.python(true, true, cardName, data)
		store := w.share(data)
		wrong := content(300_000, 77)
		require.NoError(t, os.Chmod(store, 0o666))
		require.NoError(t, os.WriteFile(store, wrong, 0o666))
		s := w.good(ref)
		assert.Equal(t, FromNetwork, s.Files[0].Source)
		assert.Contains(t, w.noticed(), "hash mismatch")
		info, err := os.Lstat(w.blob())
		require.NoError(t, err)
		assert.True(t, info.Mode().IsRegular())
		got, err := os.ReadFile(store)
		require.NoError(t, err)
		assert.True(t, bytes.Equal(wrong, got), "it is not ours to mend")
	})
	bubble(t, func(w *world) { // the directory that is shared is a link that leads out
		w.python(true, true, cardName, data)
		dir := filepath.Dir(w.share(data))
		elsewhere := filepath.Join(t.TempDir(), "elsewhere")
		require.NoError(t, os.Rename(dir, elsewhere))
		require.NoError(t, os.Symlink(elsewhere, dir))
		s := w.good(ref)
		assert.Equal(t, FromNetwork, s.Files[0].Source)
		assert.Contains(t, w.noticed(), "is not used: "+w.blob()+" is a link that leads out of the cache")
	})
}

func TestAdoptsFilesOfPythonClient(t *testing.T) {
	bubble(t, func(w *world) {
		w.python(true, false, cardName, data)
		s := w.good(ref)
		assert.Equal(t, FromOtherProgram, s.Files[0].Source)
		assert.Zero(t, s.BytesNetwork)
		w.calls(2, 0, 0) // the listing, once
		w.good(ref)
		w.calls(1, 0, 0)
	})
	bubble(t, func(w *world) {
		w.python(true, true, cardName, data)
		assert.Equal(t, FromOtherProgram, w.good(ref).Files[0].Source)
		w.calls(1, 0, 0)
	})
	for _, listing := range []bool{true, false} { // copies: only the listing says what they should be
		bubble(t, func(w *world) {
			w.python(false, listing, cardName, data)
			s := w.good(ref)
			assert.Equal(t, FromOtherProgram, s.Files[0].Source)
			assert.Equal(t, w.place("snapshots", w.commit, data), s.Files[0].LocalPath)
			_, resolvers, cdn := w.hub.Calls()
			assert.Zero(t, resolvers+cdn)
			w.good(ref)
		})
		bubble(t, func(w *world) { // without the network
			w.python(false, listing, cardName, data)
			w.env["HF_HUB_OFFLINE"] = "1"
			w.transport = forbidden{t}
			_, err := w.try(ref)
			assert.Equal(t, listing, err == nil, "%v", err)
		})
		bubble(t, func(w *world) {
			w.python(true, listing, cardName, data)
			w.env["HF_HUB_OFFLINE"] = "1"
			w.transport = forbidden{t}
			s, err := w.try(ref)
			require.NoError(t, err)
			w.check(s)
		})
	}
	bubble(t, func(w *world) { // a copy that was changed since
		w.python(false, true, cardName, data)
		require.NoError(t, os.WriteFile(w.place("snapshots", w.commit, data), content(300_000, 77), 0o666))
		s := w.good(ref)
		assert.Equal(t, FromNetwork, s.Files[0].Source)
		assert.Contains(t, w.noticed(), "hash mismatch")
		w.good(ref)
	})
	bubble(t, func(w *world) { // only a part of it is there
		w.python(true, true, cardName)
		s := w.good(ref)
		assert.Equal(t, FromNetwork, s.Files[0].Source)
		w.calls(1, 1, 1)
	})
}

func TestDamagedBlobIsReplaced(t *testing.T) {
	for name, damage := range map[string]func([]byte) []byte{
		"bit": func(b []byte) []byte { b[5] ^= 1; return b }, "short": func(b []byte) []byte { return b[:len(b)-1] },
		"long": func(b []byte) []byte { return append(b, 0) }, "empty": func([]byte) []byte { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				w.good(ref)
				require.NoError(t, os.WriteFile(w.blob(), damage(content(300_000, 1)), 0o666))
				s := w.good(ref)
				assert.Equal(t, FromNetwork, s.Files[0].Source)
				assert.Contains(t, w.noticed(), "hash mismatch")
				assert.Contains(t, w.noticed(), "is replaced by what the hub has")
				w.calls(3, 3, 2)
			})
		})
	}
}

// A lazy fetch leaves it to the reader to hold what it reads against the digest.
func TestTrustCachedOpensNoBlob(t *testing.T) {
	bubble(t, func(w *world) {
		w.good(ref)
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
		w.check(s)
		require.NoError(t, s.Close())

		require.NoError(t, os.WriteFile(w.blob(), content(1000, 1), 0o666)) // of another size: that is seen
		s = lazy()
		assert.Equal(t, FromNetwork, s.Files[0].Source)
		w.check(s)
		require.NoError(t, s.Close())
	})
}

// Of two places, the reference counts that was written last.
func TestLatestRefWins(t *testing.T) {
	bubble(t, func(w *world) {
		w.good(ref)
		old := w.commit
		other := filepath.Join(w.root, "hub", filepath.Base(w.place()))
		require.NoError(t, os.CopyFS(other, os.DirFS(w.place())))
		w.put(content(1000, 5))
		w.good(ref)
		w.env["HF_HUB_OFFLINE"] = "1"
		now := time.Now()
		require.NoError(t, os.Chtimes(w.place("refs", "main"), now, now.Add(-time.Hour)))
		require.NoError(t, os.Chtimes(filepath.Join(other, "refs", "main"), now, now.Add(-time.Minute)))
		s, err := w.try(ref)
		require.NoError(t, err)
		assert.Equal(t, old, s.Commit)
		require.NoError(t, os.Chtimes(filepath.Join(other, "refs", "main"), now, now.Add(-2*time.Hour)))
		s, err = w.try(ref)
		require.NoError(t, err)
		assert.Equal(t, w.commit, s.Commit)
	})
}

func TestFileSizes(t *testing.T) {
	for _, size := range []int{0, 1, readSize - 1, readSize, readSize + 1, 2 * readSize} {
		for _, lfs := range []bool{true, false} {
			bubble(t, func(w *world) {
				w.files = map[string]fakehub.File{data: {Data: content(size, 4), LFS: lfs}}
				w.commit = w.hub.Commit(repoName, "main", w.files)
				w.good(ref)
				w.good(ref)
			})
		}
	}
}

func TestTwoRepositoriesWithEqualBlobs(t *testing.T) {
	bubble(t, func(w *world) {
		w.hub.Commit("other/repo", "main", w.files)
		a := w.good(ref)
		b := w.good("hf://datasets/other/repo")
		assert.Equal(t, FromNetwork, b.Files[0].Source)
		assert.NotEqual(t, a.Files[0].LocalPath, b.Files[0].LocalPath)
		assert.Equal(t, a.Files[0].SHA256, b.Files[0].SHA256)
	})
}

func TestDiskFull(t *testing.T) {
	bubble(t, func(w *world) {
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
		e := w.bad(ref, ClassLocalDisk, "no space in "+filepath.Join(w.home, "hub"), data)
		assert.Contains(t, e.Hint, "continues from there")
		full = false
		s := w.good(ref)
		assert.Less(t, s.BytesNetwork, int64(300_000), "what was there was used")
	})
	bubble(t, func(w *world) { // seen beforehand
		d := &download{store: openStore(w.home, repoName, durable.Options{}), fileJob: &fileJob{want: entry{Size: 1 << 60}}}
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
	readOnly := func(w *world) {
		w.durable.Step = func(name, path string) error {
			if name != "open" && strings.HasPrefix(path, w.home) {
				return syscall.EROFS
			}
			return nil
		}
	}
	bubble(t, func(w *world) { // present
		w.good(ref)
		readOnly(w)
		w.good(ref)
		w.calls(3, 2, 1)
		assert.Empty(t, w.noticed())
		assert.NoDirExists(t, filepath.Join(w.root, "hub"), "nothing is left to be noted")
	})
	bubble(t, func(w *world) { // present, but for the listing, which is kept elsewhere
		w.python(true, false, cardName, data)
		readOnly(w)
		assert.Equal(t, FromOtherProgram, w.good(ref).Files[0].Source)
		w.calls(2, 0, 0)
		w.good(ref)
		w.calls(1, 0, 0)
	})
	bubble(t, func(w *world) { // absent
		readOnly(w)
		s := w.good(ref)
		assert.Equal(t, FromNetwork, s.Files[0].Source)
		assert.True(t, strings.HasPrefix(s.Files[0].LocalPath, filepath.Join(w.root, "hub")), s.Files[0].LocalPath)
		assert.Contains(t, w.noticed(), "nothing can be written in "+filepath.Join(w.home, "hub"))
		w.calls(2, 2, 1)
		assert.Equal(t, FromCache, w.good(ref).Files[0].Source)
		w.calls(1, 0, 0)
		w.env["HF_HUB_OFFLINE"] = "1"
		w.good(ref)
	})
	bubble(t, func(w *world) { // absent, and nowhere to go
		w.root = ""
		readOnly(w)
		_, err := w.try(ref)
		assert.Equal(t, ClassLocalDisk, classOf(err))
		assert.ErrorContains(t, err, filepath.Join(w.home, "hub"))
		assert.Contains(t, Hint(err), "HF_HUB_CACHE")
	})
	bubble(t, func(w *world) { // no home at all
		delete(w.env, "HF_HOME")
		s := w.good(ref)
		assert.True(t, strings.HasPrefix(s.Files[0].LocalPath, filepath.Join(w.root, "hub")))
		w.root = ""
		_, err := w.try(ref)
		assert.Equal(t, ClassLocalDisk, classOf(err))
	})
	bubble(t, func(w *world) { // a file is where the cache should be
		require.NoError(t, os.WriteFile(filepath.Join(w.home, "hub"), nil, 0o666))
		s := w.good(ref)
		assert.True(t, strings.HasPrefix(s.Files[0].LocalPath, filepath.Join(w.root, "hub")))
	})
}

// Whatever step fails, nothing is published that is not whole, and the next run succeeds.
func TestEveryStepFailsOnce(t *testing.T) {
	steps := 0
	bubble(t, func(w *world) {
		w.durable.Step = func(name, _ string) error {
			if name != "release" { // whose claim would stay until it expires
				steps++
			}
			return nil
		}
		w.good(ref)
	})
	require.Greater(t, steps, 20)
	for k := range steps {
		bubble(t, func(w *world) {
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
			s, err := w.try(ref)
			if err == nil {
				w.check2(s)
			}
			w.durable.Step = nil
			if b, err := os.ReadFile(w.blob()); err == nil {
				require.Equal(t, w.files[data].ETag(), fakehub.Digest(b))
			}
			w.good(ref)
		})
	}
}

// The reference appears first, before anything of its commit: "hf cache prune" removes commits without one at any time.
func TestRefIsWrittenFirst(t *testing.T) {
	bubble(t, func(w *world) {
		var order []string // of what appears in the repository
		w.durable.Step = func(name, path string) error {
			w.referred(w.place())
			if name == "rename" || name == "link" {
				order = append(order, strings.Trim(strings.TrimPrefix(path, w.place()), "/"))
			}
			return nil
		}
		w.good(ref)
		w.referred(w.place())
		blob, link := slices.Index(order, "blobs/"+w.files[data].ETag()), slices.Index(order, "snapshots/"+w.commit+"/"+data)
		assert.Equal(t, []string{"refs/main", "trees/" + w.commit + ".json"}, order[:2])
		assert.Less(t, 1, blob)
		assert.Less(t, blob, link)
		assert.Equal(t, len(order)-1, link)
	})
}

// What "hf cache prune" removes meanwhile is not downloaded again: the partial file, and of a commit that was asked for by
// its digits, and so has no reference, all of it.
func TestRemovedPartialFile(t *testing.T) {
	for _, all := range []bool{false, true} {
		bubble(t, func(w *world) {
			removed := 0
			w.hub.On(onFile, fakehub.Times(1, fakehub.CutAndCall(200_000, func() {
				synctest.Wait()
				removed++
				assert.NoError(t, os.Remove(w.blob()+partialSuffix))
				if all {
					assert.NoError(t, os.RemoveAll(w.place()))
				}
			})))
			s := w.good(ref + "@" + w.commit)
			assert.Equal(t, 1, removed)
			assert.EqualValues(t, 300_000, s.BytesNetwork)
			assert.Empty(t, w.noticed())
		})
	}
}

// A holder that was only slow, and was taken over, changes nothing: neither the file of the new holder nor what that publishes.
func TestTakenOverHolderChangesNothing(t *testing.T) {
	bubble(t, func(w *world) {
		w.hub.On(onFile, fakehub.Times(1, fakehub.Corrupt(290_000))) // its bytes are wrong ones
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
		s := w.good2(ref) // waits three heartbeats, copies what is there, and goes on
		w.check2(s)
		close(goOn)
		slow.Wait()
		b, err := os.ReadFile(w.blob())
		require.NoError(t, err)
		assert.Equal(t, w.files[data].ETag(), fakehub.Digest(b))
		assert.Empty(t, leftovers(t, w.home))
	})
}

// good2 is good while somebody else is still at it.
func (w *world) good2(input string) *Snapshot {
	s, err := w.try(input)
	require.NoError(w.t, err)
	return s
}

func TestSweep(t *testing.T) {
	bubble(t, func(w *world) {
		w.good(ref)
		old := w.place("blobs", strings.Repeat("a", 64)+partialSuffix)
		young := w.place("blobs", strings.Repeat("b", 64)+partialSuffix)
		foreign := w.place("blobs", strings.Repeat("c", 64)+".12345678.incomplete")
		for _, path := range []string{old, young, foreign} {
			require.NoError(t, os.WriteFile(path, []byte("x"), 0o666))
		}
		ago := realNow(t).Add(-8 * 24 * time.Hour)
		require.NoError(t, os.Chtimes(old, ago, ago))
		require.NoError(t, os.Chtimes(foreign, ago, ago))
		dead := filepath.Join(w.home, "hub", ".locks", filepath.Base(w.place()), durable.StagingDir, strings.Repeat("d", 64)+".000001")
		require.NoError(t, os.Mkdir(dead, 0o777))
		require.NoError(t, os.Chtimes(dead, ago, ago))
		require.NoError(t, os.Remove(w.blob())) // so that something is written
		_, err := w.try(ref)
		require.NoError(t, err)
		assert.NoFileExists(t, old)
		assert.FileExists(t, young)
		assert.FileExists(t, foreign, "the Python client's own")
		assert.NoDirExists(t, dead)
	})
}

// realNow is the time of the disk, which is not that of a bubble.
func realNow(t *testing.T) time.Time {
	f, err := os.CreateTemp(t.TempDir(), "")
	require.NoError(t, err)
	info, err := f.Stat()
	require.NoError(t, errors2(err, f.Close()))
	return info.ModTime()
}

func TestExport(t *testing.T) {
	bubble(t, func(w *world) {
		dir := filepath.Join(t.TempDir(), "a", "b")
		s := w.good(ref + "/plots/a.png")
		for range 2 {
			list, err := s.Export(w.t.Context(), dir, nil)
			require.NoError(t, err)
			require.Equal(t, []string{filepath.Join(dir, "plots", "a.png")}, list)
			got, err := os.ReadFile(list[0])
			require.NoError(t, err)
			assert.Equal(t, w.files["plots/a.png"].Data, got)
		}
		path := filepath.Join(dir, "plots", "a.png")
		is, err := os.Stat(path)
		require.NoError(t, err)
		blob := w.place("blobs", w.files["plots/a.png"].ETag())
		there, err := os.Stat(blob)
		require.NoError(t, err)
		assert.False(t, os.SameFile(is, there), "another name of the blob")
		require.NoError(t, os.WriteFile(path, []byte("mine"), 0o666)) // edited in place: the cache keeps what it has
		kept, err := os.ReadFile(blob)
		require.NoError(t, err)
		assert.Equal(t, w.files["plots/a.png"].Data, kept)
		require.NoError(t, os.Remove(path))
		require.NoError(t, os.Link(blob, path)) // as agentx laid files out before
		_, err = s.Export(w.t.Context(), dir, nil)
		require.NoError(t, err)
		is, err = os.Stat(path)
		require.NoError(t, err)
		assert.False(t, os.SameFile(is, there))
		require.NoError(t, os.WriteFile(path, []byte("mine"), 0o666))
		_, err = s.Export(w.t.Context(), dir, nil)
		require.NoError(t, err)
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Equal(t, w.files["plots/a.png"].Data, got)

		elsewhere := t.TempDir()
		require.NoError(t, os.RemoveAll(filepath.Join(dir, "plots")))
		require.NoError(t, os.Symlink(elsewhere, filepath.Join(dir, "plots")))
		_, err = s.Export(w.t.Context(), dir, nil)
		assert.ErrorContains(t, err, "plots/a.png")
		entries, err := os.ReadDir(elsewhere)
		require.NoError(t, err)
		assert.Empty(t, entries)
	})
	bubble(t, func(w *world) {
		s := w.good(ref)
		root, err := os.OpenRoot(t.TempDir())
		require.NoError(t, err)
		defer root.Close()
		l := exporter{w.t.Context(), root, func(int64) {}, nil}
		require.NoError(t, l.copy(&s.Files[0], s.Files[0].kept, "x"))
		got, err := root.ReadFile("x")
		require.NoError(t, err)
		assert.Equal(t, w.files[data].Data, got)
		s.Files[0].SHA256 = strings.Repeat("0", 64)
		assert.ErrorContains(t, l.copy(&s.Files[0], s.Files[0].kept, "y"), "hash mismatch")
		s.Files[0].SHA256 = w.files[data].ETag()
	})
}

// What is there already is left alone; what is not, takes its place.
func TestExportKeepsEqualFiles(t *testing.T) {
	bubble(t, func(w *world) {
		s := w.good(ref)
		dir := t.TempDir()
		path := filepath.Join(dir, data)
		layOut := func() (is os.FileInfo) {
			var done, all int64
			_, err := s.Export(w.t.Context(), dir, func(n, total int64) { done, all = done+n, total })
			require.NoError(t, err)
			assert.EqualValues(t, 300_000, all)
			assert.Equal(t, all, done)
			got, err := os.ReadFile(path)
			require.NoError(t, err)
			assert.True(t, bytes.Equal(w.files[data].Data, got))
			is, err = os.Lstat(path)
			require.NoError(t, err)
			assert.True(t, is.Mode().IsRegular())
			return is
		}
		first := layOut()
		assert.True(t, os.SameFile(first, layOut()), "it was written again")
		other := bytes.Clone(w.files[data].Data)
		other[9]++
		require.NoError(t, os.WriteFile(path, other, 0o666))
		assert.False(t, os.SameFile(first, layOut()))
		require.NoError(t, os.Remove(path))
		require.NoError(t, os.Symlink(w.place("blobs", w.files[data].ETag()), path)) // the content, but not of its own
		layOut()
		require.NoError(t, os.Remove(path))
		require.NoError(t, mkfifo(t, path))
		layOut()
	})
}

// Whoever stops it finds nothing half-written; what a killed run has left goes with the next run after a day.
func TestExportCancelAndSweep(t *testing.T) {
	bubble(t, func(w *world) {
		s := w.good(ref)
		dir := t.TempDir()
		names := func() (list []string) {
			entries, err := os.ReadDir(dir)
			require.NoError(t, err)
			for _, e := range entries {
				list = append(list, e.Name())
			}
			return list
		}
		ctx, cancel := context.WithCancel(w.t.Context())
		written := int64(0)
		_, err := s.Export(ctx, dir, func(n, _ int64) { written += n; cancel() })
		assert.ErrorIs(t, err, context.Canceled)
		assert.Positive(t, written)
		assert.Less(t, written, int64(300_000), "it went on")
		assert.Empty(t, names())
		_, err = s.Export(ctx, dir, nil)
		assert.ErrorIs(t, err, context.Canceled)

		id := strings.Repeat("A", 24)
		for name, age := range map[string]time.Duration{
			".agentx-" + id + "OL": 25 * time.Hour, ".agentx-" + id + "NG": time.Hour, ".agentx-mine": 99 * time.Hour, ".agentx-" + id + "01": 99 * time.Hour,
		} {
			path := filepath.Join(dir, name)
			require.NoError(t, os.WriteFile(path, nil, 0o666))
			at := time.Now().Add(-age)
			require.NoError(t, os.Chtimes(path, at, at))
		}
		require.NoError(t, os.Mkdir(filepath.Join(dir, ".agentx-"+id+"DR"), 0o777))
		at := time.Now().Add(-99 * time.Hour)
		require.NoError(t, os.Chtimes(filepath.Join(dir, ".agentx-"+id+"DR"), at, at))
		_, err = s.Export(w.t.Context(), dir, nil)
		require.NoError(t, err)
		assert.Equal(t, []string{".agentx-" + id + "01", ".agentx-" + id + "DR", ".agentx-" + id + "NG", ".agentx-mine", data}, names())
	})
}

// A directory that cannot take the files is refused before they are downloaded.
func TestExportDirIsChecked(t *testing.T) {
	for want, c := range map[string]struct {
		path  string
		dir   bool
		calls [3]int
	}{
		"DEST, the directory to copy to, is a file":                                    {"", false, [3]int{0, 0, 0}},
		"DEST/plots/a.png is a directory, and in the way of the file plots/a.png":      {"plots/a.png", true, [3]int{2, 0, 0}},
		"DEST/plots is a file, and in the way of the directory of plots/a.png":         {"plots", false, [3]int{2, 0, 0}},
		"DEST/plots/a.png is a directory, and in the way of the file plots/a.png, too": {"plots/a.png/x", false, [3]int{2, 0, 0}},
	} {
		bubble(t, func(w *world) {
			dest := filepath.Join(t.TempDir(), "dest")
			at := filepath.Join(dest, c.path)
			require.NoError(t, os.MkdirAll(filepath.Dir(at), 0o777))
			if c.dir {
				require.NoError(t, os.Mkdir(at, 0o777))
			} else {
				require.NoError(t, os.WriteFile(at, []byte("mine"), 0o666))
			}
			r, err := Parse(ref + "/plots/a.png")
			require.NoError(t, err)
			o := w.options()
			o.ExportDir = dest
			_, err = Fetch(w.context(), r, o)
			assert.Equal(t, ClassLocalDisk, classOf(err))
			assert.ErrorContains(t, err, strings.ReplaceAll(strings.TrimSuffix(want, ", too"), "DEST", dest))
			assert.Contains(t, Hint(err), "another --dest")
			w.calls(c.calls[0], c.calls[1], c.calls[2])
		})
	}
	bubble(t, func(w *world) { // a link to a directory is as good as one, and a file is replaced
		dest := t.TempDir()
		require.NoError(t, os.Symlink(t.TempDir(), filepath.Join(dest, "link")))
		require.NoError(t, os.WriteFile(filepath.Join(dest, data), []byte("mine"), 0o666))
		r, err := Parse(ref)
		require.NoError(t, err)
		for _, dest := range []string{dest, filepath.Join(dest, "link"), filepath.Join(dest, "new")} {
			o := w.options()
			o.ExportDir = dest
			s, err := Fetch(w.context(), r, o)
			require.NoError(t, err)
			_, err = s.Export(w.t.Context(), dest, nil)
			require.NoError(t, err)
			require.NoError(t, s.Close())
		}
	})
}

// Without a network there are other ways, which the error names.
func TestNoNetwork(t *testing.T) {
	for _, cause := range []error{&net.DNSError{Err: "no such host", Name: "hub.test", IsNotFound: true}, syscall.ECONNREFUSED, syscall.ENETUNREACH} {
		bubble(t, func(w *world) {
			w.transport = roundTrip(func(*http.Request) (*http.Response, error) {
				return nil, &net.OpError{Op: "dial", Net: "tcp", Err: cause}
			})
			_, err := w.try(ref)
			require.Equal(t, ClassUnavailable, classOf(err))
			for _, text := range []string{"HF_ENDPOINT=", "HF_HUB_OFFLINE=1", "a local copy"} {
				assert.Contains(t, Hint(err), text)
			}
		})
	}
	bubble(t, func(w *world) {
		w.transport = roundTrip(func(*http.Request) (*http.Response, error) { return nil, syscall.ECONNRESET })
		_, err := w.try(ref)
		assert.Equal(t, "again later", Hint(err))
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestSettings(t *testing.T) {
	home := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(home, ".cache", "huggingface"), 0o777))
	require.NoError(t, os.WriteFile(filepath.Join(home, ".cache", "huggingface", "token"), []byte("from-file\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(home, "t2"), []byte(" from-path \n"), 0o600))
	get := func(pairs ...string) (settings, error) {
		env := map[string]string{"HOME": home}
		for k := 0; k < len(pairs); k += 2 {
			env[pairs[k]] = pairs[k+1]
		}
		return LookupEnv(func(name string) (string, bool) { v, ok := env[name]; return v, ok }).settings()
	}
	s, err := get()
	require.NoError(t, err)
	assert.Equal(t, "https://huggingface.co", s.endpoint.String())
	assert.Equal(t, filepath.Join(home, ".cache/huggingface/hub"), s.cacheDir)
	assert.Equal(t, "from-file", s.token)
	assert.Equal(t, [2]time.Duration{10 * time.Second, 30 * time.Second}, [2]time.Duration{s.headerTimeout, s.idleTimeout})
	for _, c := range []struct {
		env  []string
		want string
		got  func(settings) string
	}{
		{[]string{"HF_HOME", "/x"}, "/x/hub", func(s settings) string { return s.cacheDir }},
		{[]string{"HF_HOME", "~/x"}, home + "/x/hub", func(s settings) string { return s.cacheDir }},
		{[]string{"XDG_CACHE_HOME", "/c"}, "/c/huggingface/hub", func(s settings) string { return s.cacheDir }},
		{[]string{"HF_HOME", "/x", "HUGGINGFACE_HUB_CACHE", "/old"}, "/old", func(s settings) string { return s.cacheDir }},
		{[]string{"HF_HUB_CACHE", "/new", "HUGGINGFACE_HUB_CACHE", "/old"}, "/new", func(s settings) string { return s.cacheDir }},
		{[]string{"HF_TOKEN", " a\n", "HUGGING_FACE_HUB_TOKEN", "b"}, "a", func(s settings) string { return s.token }},
		{[]string{"HUGGING_FACE_HUB_TOKEN", "b"}, "b", func(s settings) string { return s.token }},
		{[]string{"HF_TOKEN_PATH", home + "/t2"}, "from-path", func(s settings) string { return s.token }},
		{[]string{"HF_HOME", "/nowhere"}, "", func(s settings) string { return s.token }},
		{[]string{"HF_TOKEN", "a", "HF_HUB_DISABLE_IMPLICIT_TOKEN", "1"}, "", func(s settings) string { return s.token }},
		{[]string{"HF_HUB_DISABLE_IMPLICIT_TOKEN", "on"}, "", func(s settings) string { return s.token }},
		{[]string{"HF_HUB_DISABLE_IMPLICIT_TOKEN", "0"}, "from-file", func(s settings) string { return s.token }},
		{[]string{"HF_ENDPOINT", "http://mirror:80/hf/"}, "http://mirror:80/hf", func(s settings) string { return s.endpoint.String() }},
		{[]string{"HF_HUB_OFFLINE", "yes"}, "HF_HUB_OFFLINE", func(s settings) string { return s.offline }},
		{[]string{"HF_HUB_OFFLINE", "0"}, "", func(s settings) string { return s.offline }},
		{[]string{"HF_HUB_OFFLINE", "1", "HF_DATASETS_OFFLINE", "0"}, "", func(s settings) string { return s.offline }},
		{[]string{"HF_DATASETS_OFFLINE", "true"}, "HF_DATASETS_OFFLINE", func(s settings) string { return s.offline }},
		{[]string{"HF_HUB_ETAG_TIMEOUT", "3"}, "3s", func(s settings) string { return s.headerTimeout.String() }},
		{[]string{"HF_HUB_ETAG_TIMEOUT", "0.01"}, "10ms", func(s settings) string { return s.headerTimeout.String() }},
		{[]string{"HF_HUB_DOWNLOAD_TIMEOUT", "0.5"}, "500ms", func(s settings) string { return s.idleTimeout.String() }},
	} {
		s, err := get(c.env...)
		require.NoError(t, err, c.env)
		assert.Equal(t, c.want, c.got(s), c.env)
	}
	for _, env := range [][]string{{"HF_ENDPOINT", "ftp://x"}, {"HF_ENDPOINT", "huggingface.co"}, {"HF_ENDPOINT", "https://user:secret@x"}, {"HF_ENDPOINT", "https://user:secret@secret@x"}, {"HF_ENDPOINT", "https://user:a/secret@x"},
		{"HF_ENDPOINT", "user:secret@x"}, {"HF_ENDPOINT", "https://us'er:secret@x"}, {"HF_ENDPOINT", "https://x#part"}, {"HF_HUB_ETAG_TIMEOUT", "soon"}, {"HF_HUB_ETAG_TIMEOUT", "-1"}, {"HF_HUB_ETAG_TIMEOUT", "1e-12"}, {"HF_HUB_DOWNLOAD_TIMEOUT", "0.009"}, {"HF_HUB_DOWNLOAD_TIMEOUT", "NaN"}, {"HF_HUB_DOWNLOAD_TIMEOUT", "1e300"}, {"HF_TOKEN", "se cret"}, {"HF_TOKEN", "secret\x01"}} {
		_, err := get(env...)
		require.Error(t, err, env)
		assert.NotContains(t, err.Error(), "secret")
	}
	pipe := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, mkfifo(t, pipe))
	for _, path := range []string{pipe, "/dev/zero"} {
		s, err := get("HF_TOKEN_PATH", path)
		require.NoError(t, err)
		assert.Empty(t, s.token)
	}
	assert.True(t, LookupEnv(func(string) (string, bool) { return "1", true }).ProgressDisabled())
}

// A mirror hands out addresses of the hub itself: they are rewritten, those of other hosts are not.
func TestMirror(t *testing.T) {
	bubble(t, func(w *world) {
		w.hub.Page = 2
		w.hub.On(onTree, fakehub.EditHeaders(func(status int, h http.Header) int {
			h.Set("Link", strings.Replace(h.Get("Link"), w.hub.HubURL, DefaultEndpoint, 1))
			return status
		}))
		w.hub.On(onInfo, func(next http.HandlerFunc) http.HandlerFunc {
			return func(rw http.ResponseWriter, r *http.Request) {
				if r.URL.Query().Get("again") == "" {
					fakehub.Redirect(DefaultEndpoint+r.URL.EscapedPath()+"?again=1")(nil)(rw, r)
					return
				}
				next(rw, r)
			}
		})
		w.good(ref)
		w.calls(5, 2, 1)
	})
}

func TestPacesBeforeRateLimit(t *testing.T) {
	bubble(t, func(w *world) {
		w.hub.Page = 1 // five entries and a directory: six calls after the first
		left := 24
		w.hub.On(fakehub.Match{Listener: "hub", Path: "/api/"}, fakehub.EditHeaders(func(status int, h http.Header) int {
			h.Set("RateLimit", fmt.Sprintf(`"api";r=%d;t=240`, left))
			h.Set("RateLimit-Policy", `"fixed window";"api";q=500;w=300`)
			return status
		}))
		begin := time.Now()
		w.good(ref)
		log := w.hub.Log()
		for k := 1; k < 6; k++ {
			assert.Equal(t, 10*time.Second, log[k].At.Sub(log[k-1].At), "24 calls in 240 s")
		}
		assert.Contains(t, w.noticed(), "few api calls left")
		assert.GreaterOrEqual(t, time.Since(begin), 50*time.Second)

		left = 25 // a twentieth: nothing to save yet
		w.hub.ResetLog()
		w.commit = w.hub.Commit(repoName, "main", w.files)
		begin = time.Now()
		w.good(ref)
		assert.Zero(t, time.Since(begin))
	})
}

func TestHubWarningsAreShownOnce(t *testing.T) {
	bubble(t, func(w *world) {
		w.hub.On(fakehub.Match{Listener: "hub"}, fakehub.EditHeaders(func(status int, h http.Header) int {
			h.Add("X-HF-Warning", "topic; be careful")
			h.Add("X-HF-Warning", "other; \u009b31mred")
			return status
		}))
		w.good(ref)
		assert.Equal(t, 1, strings.Count(w.noticed(), "be careful"))
		assert.NotContains(t, w.noticed(), "\u009b")
	})
}

// What is down, or no hub, does not keep what is here from being used: of the same commit, verified.
func TestFallsBackToLocalCopy(t *testing.T) {
	for _, s := range []fakehub.Fault{fakehub.Status(503), fakehub.Status(429), fakehub.Drop, fakehub.Status(200), silent} {
		bubble(t, func(w *world) {
			w.good(ref)
			w.hub.On(fakehub.Match{Listener: "hub"}, s)
			got := w.good(ref)
			assert.Equal(t, ResolvedByLocalRef, got.Resolution)
			assert.Contains(t, w.noticed(), "using the last known commit")
		})
		bubble(t, func(w *world) { // no listing: single files are still known by their links
			w.python(true, false, cardName, data)
			w.hub.On(fakehub.Match{Listener: "hub"}, s)
			w.good(ref)
		})
		bubble(t, func(w *world) {
			w.python(true, false, cardName)
			w.hub.On(fakehub.Match{Listener: "hub"}, s)
			_, err := w.try(ref)
			require.Error(t, err)
			assert.NotEqual(t, ClassNotCached, classOf(err), "it says that the hub is down: %v", err)
		})
	}
}

// The failures of the catalogue that are the hub's.

// F3: the dataset moved on the hub, and old bytes were served, or two nodes differed.
//
// Covers F3.
func TestMovedDatasetHasNewCommit(t *testing.T) {
	bubble(t, func(w *world) {
		first, old := w.good(ref), w.commit
		before := w.files
		w.put(content(300_000, 8)) // of the same size
		second := w.good(ref)
		assert.NotEqual(t, first.Commit, second.Commit)
		assert.NotEqual(t, first.Files[0].SHA256, second.Files[0].SHA256)
		w.files = before
		assert.Equal(t, first.Files[0].SHA256, w.good(ref + "@" + old).Files[0].SHA256)
	})
}

// F24: 429 for anonymous nodes, which share the budget of an address.
//
// Covers F24.
func TestNodesShareRateLimit(t *testing.T) {
	bubble(t, func(w *world) {
		w.good(ref)
		w.hub.ResetLog()
		w.hub.On(fakehub.Match{Listener: "hub"}, fakehub.Status(429, "RateLimit", `"api";r=0;t=300`))
		w.good(ref + "@" + w.commit) // pinned: nobody is asked
		w.calls(0, 0, 0)
		w.hub.Off()
		for range 10 { // by name: one call each, and the listing is never asked for again
			w.good(ref)
		}
		w.calls(10, 0, 0)
		w.hub.On(onInfo, fakehub.Times(1, fakehub.Status(429, "RateLimit", `"api";r=0;t=299`)))
		begin := time.Now()
		w.good(ref)
		assert.Equal(t, 300*time.Second, time.Since(begin))
		w.hub.Off()
		w.hub.On(onInfo, fakehub.Status(429))
		w.root, w.home = t.TempDir(), t.TempDir()
		w.env["HF_HOME"] = w.home
		e := w.bad(ref, ClassUnavailable, "429")
		assert.Contains(t, e.Hint, "HF_TOKEN")
	})
}

// F25: a directory was taken for complete, because it was there.
//
// Covers F25.
func TestDirectoryIsNotASnapshot(t *testing.T) {
	bubble(t, func(w *world) {
		files := map[string]fakehub.File{"a.jsonl": {Data: content(5000, 1), LFS: true}, "b.jsonl": {Data: content(5000, 2), LFS: true}}
		w.files, w.commit = files, w.hub.Commit(repoName, "main", files)
		w.python(true, false, "a.jsonl") // as a download leaves it that was killed: reference, directory, the first file
		w.env["HF_HUB_OFFLINE"] = "1"
		_, err := w.try(ref)
		assert.Equal(t, ClassNotCached, classOf(err))
		assert.ErrorContains(t, err, "need not be all")
		w.good(ref + "/a.jsonl")
		_, err = w.try(ref + "/b.jsonl")
		assert.Equal(t, ClassNotCached, classOf(err))

		delete(w.env, "HF_HUB_OFFLINE")
		s := w.good(ref)
		require.Len(t, s.Files, 2)
		assert.Equal(t, FromNetwork, s.Files[1].Source)
	})
}

// F26: metadata was read from the newest snapshot of any corpus.
//
// Covers F26.
func TestOtherSnapshotsAreNotRead(t *testing.T) {
	bubble(t, func(w *world) {
		w.good(ref)
		old, before := w.commit, w.files
		w.put(content(250_000, 8))
		w.good(ref) // a newer one lies beside it
		other := clone(w.files)
		other[data] = fakehub.File{Data: content(1000, 9), LFS: true}
		w.hub.Commit("other/corpus", "main", other)
		w.env["HF_HUB_OFFLINE"] = "1"
		_, err := w.try("hf://datasets/other/corpus")
		assert.Equal(t, ClassNotCached, classOf(err), "another corpus is not taken in its place")
		_, err = w.try(ref + "@" + strings.Repeat("1", 40))
		assert.Equal(t, ClassNotCached, classOf(err), "nor another commit")
		w.files = before
		s := w.good(ref + "@" + old)
		assert.Equal(t, old, s.Commit)
	})
}

// F27: the offline flag of models kept the dataset from being downloaded.
//
// Covers F27.
func TestDatasetsOfflineIsSeparate(t *testing.T) {
	bubble(t, func(w *world) {
		w.env["TRANSFORMERS_OFFLINE"] = "1"
		w.good(ref)
	})
	bubble(t, func(w *world) { // and a switch of the datasets' own wins over the common one
		w.env["HF_HUB_OFFLINE"], w.env["HF_DATASETS_OFFLINE"] = "1", "0"
		w.good(ref)
	})
	bubble(t, func(w *world) {
		w.env["HF_DATASETS_OFFLINE"] = "1"
		w.transport = forbidden{t}
		e := w.bad(ref, ClassNotCached)
		assert.Contains(t, e.Hint, "HF_DATASETS_OFFLINE")
	})
}

// Errors name the class of failure, and never a secret.
func TestSecretsAreScrubbed(t *testing.T) {
	for in, want := range map[string]string{
		`Get "https://cdn/x?sig=secret": EOF`:   `Get "https://cdn/x?...": EOF`,
		`https://user:secret@host/path`:         `https://...@host/path`,
		`parse "https://h/p?a=secret&b=secret"`: `parse "https://h/p?..."`,
		`nothing here`:                          `nothing here`,
	} {
		assert.Equal(t, want, redact(in))
	}
	for _, token := range []string{"mysecrettoken", "hf_secret"} { // a peer may send the token back
		for _, m := range []fakehub.Match{onInfo, onTree, onHead} {
			bubble(t, func(w *world) {
				w.env["HF_TOKEN"] = token
				w.hub.On(m, fakehub.Refuse(404, "RepoNotFound", "who sent "+token+"? "+strings.Repeat("x", 270)+token))
				w.bad(ref, ClassNotFound, "who sent ")
			})
		}
		bubble(t, func(w *world) {
			w.env["HF_TOKEN"] = token
			w.hub.On(onInfo, fakehub.SetHeader("X-HF-Warning", "token; yours is "+token))
			w.good(ref)
			assert.Contains(t, w.noticed(), "yours is")
			assert.NotContains(t, w.noticed(), "secret")
		})
	}
	bubble(t, func(w *world) {
		w.hub.On(onHead, fakehub.SetHeader("Location", "https://cdn.test:8443/x?secret=1\x7f"))
		_, err := w.try(ref)
		require.Error(t, err)
	})
	bubble(t, func(w *world) {
		w.hub.On(onFile, fakehub.Drop)
		w.bad(ref, ClassUnavailable, "cdn.test")
	})
}

func TestWaitsForAnotherProcess(t *testing.T) {
	bubble(t, func(w *world) {
		locks := filepath.Join(w.home, "hub", ".locks", filepath.Base(w.place()))
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

// Files come several at a time, each once, in the order of the selection.
func TestManyFiles(t *testing.T) {
	bubble(t, func(w *world) {
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
		w.check(s)
		for k, f := range s.Files {
			assert.Equal(t, fmt.Sprintf("d/%02d.jsonl", k), f.Path)
		}
		assert.Equal(t, total, done)
		assert.Equal(t, total, s.BytesNetwork)
		require.NoError(t, s.Close())
	})
	bubble(t, func(w *world) { // one that fails ends it for all, and names the file
		w.files = map[string]fakehub.File{}
		for k := range 20 {
			w.files[fmt.Sprintf("%02d.jsonl", k)] = fakehub.File{Data: content(1000+k, byte(k)), LFS: true}
		}
		w.commit = w.hub.Commit(repoName, "main", w.files)
		w.hub.On(fakehub.Match{Path: "07.jsonl"}, fakehub.Refuse(404, "EntryNotFound", ""))
		_, err := w.try(ref)
		require.Error(t, err)
		assert.ErrorContains(t, err, "07.jsonl")
		w.referred(w.place())
	})
}

// Who waits for another download sees how far it is.
func TestWaitersSeeProgress(t *testing.T) {
	bubble(t, func(w *world) {
		w.hub.On(onFile, fakehub.Times(1, fakehub.Slow(20)))
		var done sync.WaitGroup
		done.Go(func() { _, err := w.try(ref); assert.NoError(t, err) })
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

// Sizes that no file has are not reckoned with.
func TestAbsurdSizes(t *testing.T) {
	for _, size := range []string{"9223372036854775807", "-1", "1e30", `"5"`} {
		bubble(t, func(w *world) {
			w.hub.On(onTree, func(http.HandlerFunc) http.HandlerFunc {
				return func(rw http.ResponseWriter, _ *http.Request) {
					fmt.Fprintf(rw, `[{"type": "file", "path": "traces.jsonl", "oid": %q, "size": %s}]`, strings.Repeat("a", 40), size)
				}
			})
			_, err := w.try(ref)
			require.Error(t, err)
			assert.Contains(t, []Class{ClassNotHub, ClassNotFound}, classOf(err), "%v", err)
			w.nothing()
		})
	}
}

// What resty and net/http do here, in the parts that this package leans on.
func TestRestyStopsAtRedirects(t *testing.T) {
	bubble(t, func(w *world) {
		s, err := LookupEnv(func(name string) (string, bool) { v, ok := w.env[name]; return v, ok }).settings()
		require.NoError(t, err)
		s.token = "hf_abc"
		c := newClient(s, w.options())
		at := c.address("/datasets/" + repoName + "/resolve/main/" + data)
		r, err := c.once(w.t.Context(), request{method: "HEAD", url: at, budget: resolveBudget})
		require.NoError(t, err)
		assert.Equal(t, 302, r.status)
		assert.NotEmpty(t, r.header[locationKey])
		r.discard()
		r, err = c.once(w.t.Context(), request{method: "GET", url: at, budget: resolveBudget})
		require.NoError(t, err)
		text, err := io.ReadAll(r.body)
		require.NoError(t, err)
		assert.Contains(t, string(text), "Redirecting", "the body can be read")
		r.discard()
		assert.Len(t, w.hub.Log(), 2, "one request each")
		assert.Panics(t, func() {
			_, _ = c.once(w.t.Context(), request{method: "GET", url: mustParse(w.hub.OtherURL)})
		}, "the token has one origin")
		c.close()
	})
}

// Files of equal content are one download, and all of them came with it.
func TestEqualFilesShareOneDownload(t *testing.T) {
	bubble(t, func(w *world) {
		same := fakehub.File{Data: content(5000, 1), LFS: true}
		w.files = map[string]fakehub.File{"a.jsonl": same, "b.jsonl": same, "c.jsonl": same}
		w.commit = w.hub.Commit(repoName, "main", w.files)
		s := w.good(ref)
		require.Len(t, s.Files, 3)
		for _, f := range s.Files {
			assert.Equal(t, FromNetwork, f.Source, f.Path)
		}
		assert.EqualValues(t, 5000, s.BytesNetwork)
		for _, f := range w.good(ref).Files {
			assert.Equal(t, FromCache, f.Source, f.Path)
		}
	})
}

// Without the network a damaged copy cannot be mended: that is said, and what to do.
func TestOfflineDamageSaysWhatToDo(t *testing.T) {
	bubble(t, func(w *world) {
		w.good(ref)
		require.NoError(t, os.WriteFile(w.blob(), content(300_000, 77), 0o666))
		w.env["HF_HUB_OFFLINE"] = "1"
		_, err := w.try(ref)
		assert.Equal(t, ClassNotCached, classOf(err))
		assert.ErrorContains(t, err, data+": offline, and the copy in the cache is damaged: its digest is not the one that the hub names: commit "+w.commit)
		assert.Equal(t, "once without HF_HUB_OFFLINE: that downloads it", Hint(err))
	})
}
