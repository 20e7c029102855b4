package hub

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
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
	"go.uber.org/goleak"

	"github.com/agentx/agentx/hfsource/hub/fakehub"
	"github.com/agentx/agentx/internal/durable"
)

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		os.Exit(child())
	}
	goleak.VerifyTestMain(m)
}

const (
	repoName = "semianalysisai/cc-traces-weka-062126"
	ref      = "hf://datasets/" + repoName
	data     = "traces.jsonl"
	cardText = "---\nlicense: apache-2.0\nconfigs:\n- config_name: default\n  data_files:\n  - split: train\n    path: traces.jsonl\n---\n# traces\n"
)

// content is n bytes that do not repeat and are the same in every run.
func content(n int, seed byte) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(b)
	return b
}

// world is a fake hub, a cache and what is to be fetched.
type world struct {
	t         *testing.T
	hub       *fakehub.Hub
	transport http.RoundTripper
	env       map[string]string
	home      string
	root      string // the cache root of agentx
	files     map[string]fakehub.File
	commit    string
	durable   durable.Options

	mu      sync.Mutex
	notices []string
}

// bubble runs a test with a hub that has one dataset, under a clock of its own.
func bubble(t *testing.T, test func(w *world)) {
	t.Helper()
	home, root := t.TempDir(), t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, hub: fakehub.New(), home: home, root: root, env: map[string]string{"HF_HOME": home}}
		w.durable.Sync = func(*os.File) error { return nil }
		w.transport = w.hub.ListenInMemory()
		w.env["HF_ENDPOINT"] = w.hub.HubURL
		w.files = map[string]fakehub.File{
			"README.md": {Data: []byte(cardText)}, data: {Data: content(300_000, 1), LFS: true}, "stats.txt": {Data: []byte("393 traces\n")},
			"plots/a.png": {Data: content(5000, 2), LFS: true},
		}
		w.commit = w.hub.Commit(repoName, "main", w.files)
		defer w.hub.Close()
		test(w)
	})
}

// put replaces the data, in a new commit.
func (w *world) put(b []byte) {
	w.files = clone(w.files)
	w.files[data] = fakehub.File{Data: b, LFS: true}
	w.commit = w.hub.Commit(repoName, "main", w.files)
}

func clone(files map[string]fakehub.File) map[string]fakehub.File {
	c := map[string]fakehub.File{}
	for path, f := range files {
		c[path] = f
	}
	return c
}

// context returns the context of the test, with the faults of the disk.
func (w *world) context() context.Context { return durable.WithOptions(w.t.Context(), w.durable) }

func (w *world) options() Options {
	return Options{
		CacheRoot: w.root, Version: "test", Transport: w.transport,
		Env:  func(name string) (string, bool) { v, ok := w.env[name]; return v, ok },
		rand: func() float64 { return 1 },
		Logf: func(format string, args ...any) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.notices = append(w.notices, fmt.Sprintf(format, args...))
		},
	}
}

func (w *world) noticed() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.notices, "\n")
}

// try fetches a reference.
func (w *world) try(input string) (*Snapshot, error) {
	w.t.Helper()
	r, err := Parse(input)
	require.NoError(w.t, err)
	s, err := Fetch(w.context(), r, w.options())
	if err == nil {
		w.t.Cleanup(func() { _ = s.Close() })
	}
	assert.NotContains(w.t, fmt.Sprint(err)+w.noticed(), "secret", "a signed address was shown")
	assert.Empty(w.t, w.hub.Violations())
	return s, err
}

// good fetches a reference, which must succeed, and checks what must be true of every success.
func (w *world) good(input string) *Snapshot {
	w.t.Helper()
	s, err := w.try(input)
	require.NoError(w.t, err)
	w.check(s)
	return s
}

// check holds a snapshot against what the hub has.
func (w *world) check(s *Snapshot) {
	w.t.Helper()
	require.NotEmpty(w.t, s.Files)
	for _, f := range s.Files {
		want := w.files[f.Path]
		r, err := f.Open()
		require.NoError(w.t, err)
		got, err := io.ReadAll(r)
		require.NoError(w.t, errors2(err, r.Close()))
		require.True(w.t, bytes.Equal(want.Data, got), "%s: other bytes", f.Path)
		onDisk, err := os.ReadFile(f.LocalPath)
		require.NoError(w.t, err)
		require.True(w.t, bytes.Equal(want.Data, onDisk), "%s: other bytes on disk", f.Path)
		require.Equal(w.t, fakehub.Digest(want.Data), f.SHA256)
		require.Equal(w.t, want.ETag(), f.ETag)
		require.EqualValues(w.t, len(want.Data), f.Size)
	}
	for _, dir := range []string{w.home, w.root} {
		assert.Empty(w.t, leftovers(w.t, dir))
	}
}

func errors2(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// leftovers lists what no finished run leaves: partial files, leases, staging.
func leftovers(t *testing.T, dir string) (list []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && (strings.Contains(d.Name(), "incomplete") || filepath.Base(filepath.Dir(path)) == durable.StagingDir) {
			list = append(list, path)
		}
		return err
	}))
	return list
}

// bad fetches a reference, which must fail so, and checks that nothing looks complete.
func (w *world) bad(input string, class Class, texts ...string) *Error {
	w.t.Helper()
	s, err := w.try(input)
	require.Error(w.t, err, "%v", s)
	var e *Error
	require.ErrorAs(w.t, err, &e)
	require.Equal(w.t, class, e.Class, err.Error())
	assert.Contains(w.t, err.Error(), "dataset "+repoName)
	for _, text := range texts {
		assert.Contains(w.t, err.Error(), text)
	}
	w.nothing()
	return e
}

// nothing checks that no data was published, and that a reference says what the hub does.
func (w *world) nothing() {
	w.t.Helper()
	for _, dir := range []string{filepath.Join(w.home, "hub"), filepath.Join(w.root, "hub")} {
		place := filepath.Join(dir, "datasets--"+strings.ReplaceAll(repoName, "/", "--"))
		for path, f := range w.files {
			if path != cardName {
				assert.NoFileExists(w.t, filepath.Join(place, "blobs", f.ETag()))
				assert.NoFileExists(w.t, filepath.Join(place, "snapshots", w.commit, path))
			}
		}
		w.referred(place)
	}
}

// referred checks that a commit of which there is anything is referred to: "hf cache prune" removes all others.
func (w *world) referred(place string) {
	w.t.Helper()
	commits, _ := os.ReadDir(filepath.Join(place, "snapshots"))
	if text, err := os.ReadFile(filepath.Join(place, "refs", "main")); err == nil || len(commits) > 0 {
		require.NoError(w.t, err)
		require.Equal(w.t, w.commit, string(text))
	}
}

// calls checks how often the hub was asked since the last time.
func (w *world) calls(api, resolvers, cdn int) {
	w.t.Helper()
	a, r, c := w.hub.Calls()
	assert.Equal(w.t, [3]int{api, resolvers, cdn}, [3]int{a, r, c}, "api, resolvers, cdn: %s", w.story())
	w.hub.ResetLog()
}

// story tells what was asked.
func (w *world) story() string {
	var b strings.Builder
	for _, r := range w.hub.Log() {
		fmt.Fprintf(&b, "\n%s %s %s %s -> %d, %d bytes", r.Listener, r.Method, r.Path, r.Range, r.Status, r.Sent)
	}
	return b.String()
}

// place is where something of the repository lies in the hub's cache.
func (w *world) place(parts ...string) string {
	return filepath.Join(append([]string{w.home, "hub", "datasets--" + strings.ReplaceAll(repoName, "/", "--")}, parts...)...)
}

func (w *world) blob() string { return w.place("blobs", w.files[data].ETag()) }

// sent counts the bytes that a listener sent.
func (w *world) sent(listener string) (n int64) {
	for _, r := range w.hub.Log() {
		if r.Listener == listener {
			n += r.Sent
		}
	}
	return n
}

// forbidden is a transport that fails the test.
type forbidden struct{ t *testing.T }

func (f forbidden) RoundTrip(r *http.Request) (*http.Response, error) {
	f.t.Errorf("a connection to %s", r.URL.Host)
	return nil, context.Canceled
}

func TestBudgets(t *testing.T) {
	bubble(t, func(w *world) {
		s := w.good(ref)
		w.calls(2, 2, 1) // revision, tree; README, HEAD; the file
		assert.Equal(t, FromNetwork, s.Files[0].Source)
		assert.EqualValues(t, len(w.files[data].Data), s.BytesNetwork)
		assert.Equal(t, "dataset "+repoName+" @ main -> "+w.commit[:12]+" (resolved now)", s.Summary())
		assert.Len(t, s.Files, 1)
		assert.Equal(t, w.place("snapshots", w.commit, data), s.Files[0].LocalPath)

		s = w.good(ref)
		w.calls(1, 0, 0)
		assert.Equal(t, FromCache, s.Files[0].Source)
		assert.Zero(t, s.BytesNetwork)

		w.transport = forbidden{t}
		s = w.good(ref + "@" + w.commit)
		w.calls(0, 0, 0)
		assert.Equal(t, ResolvedByCommit, s.Resolution)
	})
}

func TestCacheLayoutMatchesPythonClient(t *testing.T) {
	bubble(t, func(w *world) {
		w.good(ref)
		text, err := os.Readlink(w.place("snapshots", w.commit, data))
		require.NoError(t, err)
		assert.Equal(t, "../../blobs/"+w.files[data].ETag(), text)
		text, err = os.Readlink(w.place("snapshots", w.commit, cardName))
		require.NoError(t, err)
		assert.Equal(t, "../../blobs/"+w.files[cardName].ETag(), text)
		got, err := os.ReadFile(w.place("refs", "main"))
		require.NoError(t, err)
		assert.Equal(t, w.commit, string(got))
		got, err = os.ReadFile(w.place("trees", w.commit+".json"))
		require.NoError(t, err)
		assert.Contains(t, string(got), `"format_version": 1`)
		assert.Contains(t, string(got), `"lfs_sha256": "`+w.files[data].ETag()+`"`)
		assert.FileExists(t, filepath.Join(w.home, "hub", "CACHEDIR.TAG"))

		w.good(ref + "/plots/a.png")
		text, err = os.Readlink(w.place("snapshots", w.commit, "plots/a.png"))
		require.NoError(t, err)
		assert.Equal(t, "../../../blobs/"+w.files["plots/a.png"].ETag(), text)
	})
}

func TestOfflineOpensNoConnection(t *testing.T) {
	bubble(t, func(w *world) {
		w.good(ref)
		w.env["HF_HUB_OFFLINE"] = "1"
		w.transport = forbidden{t}
		require.NoError(t, os.Chtimes(w.place("refs", "main"), time.Now(), time.Now().Add(-3*24*time.Hour)))
		s := w.good(ref)
		assert.Equal(t, "dataset "+repoName+" @ main -> "+w.commit[:12]+" (from the local ref, age 3 d)", s.Summary())
		w.good(ref + "@" + w.commit)

		require.NoError(t, os.Remove(w.blob()))
		_, err := w.try(ref)
		require.Error(t, err)
		assert.Equal(t, ClassNotCached, classOf(err))
		for _, text := range []string{"offline", data, w.commit} {
			assert.Contains(t, err.Error(), text)
		}
		assert.Contains(t, Hint(err), "HF_HUB_OFFLINE")
		_, err = w.try(ref + "@v2")
		assert.Equal(t, ClassNotCached, classOf(err))
		_, err = w.try("hf://datasets/a/b")
		assert.Equal(t, ClassNotCached, classOf(err))
	})
}

func copyAll(w io.Writer, r io.ReadCloser) (int64, error) {
	n, err := io.Copy(w, r)
	return n, errors2(err, r.Close())
}
