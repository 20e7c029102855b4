package hub

import (
	"bytes"
	"context"
	"errors"
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

	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/internal/fakehub"
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

// content returns n random bytes, the same in every run.
func content(n int, seed byte) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(b)
	return b
}

// fixture is a fake hub with one dataset, and directories for the caches.
type fixture struct {
	t         *testing.T
	hub       *fakehub.Hub
	transport http.RoundTripper
	env       map[string]string
	home      string
	root      string // the cache root of agentx
	files     map[string]fakehub.File
	commit    string
	durable   durable.Options

	mu     sync.Mutex
	logged []string
}

// runInBubble runs a test with a new fixture in a synctest bubble, so that waits take no time.
func runInBubble(t *testing.T, test func(w *fixture)) {
	t.Helper()
	home, root := t.TempDir(), t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := &fixture{t: t, hub: fakehub.New(), home: home, root: root, env: map[string]string{"HF_HOME": home}}
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

// commitData commits new data.
func (w *fixture) commitData(b []byte) {
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

// context returns the context of the test, with the disk faults of the fixture.
func (w *fixture) context() context.Context { return durable.WithOptions(w.t.Context(), w.durable) }

func (w *fixture) options() Options {
	return Options{
		CacheRoot: w.root, Version: "test", Transport: w.transport,
		Env:  func(name string) (string, bool) { v, ok := w.env[name]; return v, ok },
		rand: func() float64 { return 1 },
		Logf: func(format string, args ...any) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.logged = append(w.logged, fmt.Sprintf(format, args...))
		},
	}
}

func (w *fixture) log() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.logged, "\n")
}

// fetch fetches a reference. It checks that no request and no message breaks the rules.
func (w *fixture) fetch(input string) (*Snapshot, error) {
	w.t.Helper()
	r, err := Parse(input)
	require.NoError(w.t, err)
	s, err := Fetch(w.context(), r, w.options())
	if err == nil {
		w.t.Cleanup(func() { _ = s.Close() })
	}
	assert.NotContains(w.t, fmt.Sprint(err)+w.log(), "secret", "a signed address was shown")
	assert.Empty(w.t, w.hub.Violations())
	return s, err
}

// mustFetch fetches a reference, and checks the result.
func (w *fixture) mustFetch(input string) *Snapshot {
	w.t.Helper()
	s, err := w.fetch(input)
	require.NoError(w.t, err)
	w.checkSnapshot(s)
	return s
}

// checkSnapshot compares a snapshot with the files of the hub.
func (w *fixture) checkSnapshot(s *Snapshot) {
	w.t.Helper()
	require.NotEmpty(w.t, s.Files)
	for _, f := range s.Files {
		want := w.files[f.Path]
		r, err := f.Open()
		require.NoError(w.t, err)
		got, err := io.ReadAll(r)
		require.NoError(w.t, errors.Join(err, r.Close()))
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

// leftovers lists partial files, leases and staging directories, which no finished run leaves.
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

// mustFail fetches a reference, and checks the class and the text of the error, and that nothing was published.
func (w *fixture) mustFail(input string, class Class, texts ...string) *Error {
	w.t.Helper()
	s, err := w.fetch(input)
	require.Error(w.t, err, "%v", s)
	var e *Error
	require.ErrorAs(w.t, err, &e)
	require.Equal(w.t, class, e.Class, err.Error())
	assert.Contains(w.t, err.Error(), "dataset "+repoName)
	for _, text := range texts {
		assert.Contains(w.t, err.Error(), text)
	}
	w.checkNothingPublished()
	return e
}

// checkNothingPublished checks that there is no data in the caches, and that a reference has the commit of the hub.
func (w *fixture) checkNothingPublished() {
	w.t.Helper()
	for _, dir := range []string{filepath.Join(w.home, "hub"), filepath.Join(w.root, "hub")} {
		place := filepath.Join(dir, "datasets--"+strings.ReplaceAll(repoName, "/", "--"))
		for path, f := range w.files {
			if path != cardName {
				assert.NoFileExists(w.t, filepath.Join(place, "blobs", f.ETag()))
				assert.NoFileExists(w.t, filepath.Join(place, "snapshots", w.commit, path))
			}
		}
		w.checkRef(place)
	}
}

// checkRef checks that a snapshot directory has a reference: "hf cache prune" removes those without.
func (w *fixture) checkRef(place string) {
	w.t.Helper()
	commits, _ := os.ReadDir(filepath.Join(place, "snapshots"))
	if text, err := os.ReadFile(filepath.Join(place, "refs", "main")); err == nil || len(commits) > 0 {
		require.NoError(w.t, err)
		require.Equal(w.t, w.commit, string(text))
	}
}

// checkCalls checks the number of requests since its last call.
func (w *fixture) checkCalls(api, resolvers, cdn int) {
	w.t.Helper()
	a, r, c := w.hub.Calls()
	assert.Equal(w.t, [3]int{api, resolvers, cdn}, [3]int{a, r, c}, "api, resolvers, cdn: %s", w.requests())
	w.hub.ResetLog()
}

// requests lists the requests, for messages.
func (w *fixture) requests() string {
	var b strings.Builder
	for _, r := range w.hub.Log() {
		fmt.Fprintf(&b, "\n%s %s %s %s -> %d, %d bytes", r.Listener, r.Method, r.Path, r.Range, r.Status, r.Sent)
	}
	return b.String()
}

// repoPath returns a path of the repository in the hub's cache.
func (w *fixture) repoPath(parts ...string) string {
	return filepath.Join(append([]string{w.home, "hub", "datasets--" + strings.ReplaceAll(repoName, "/", "--")}, parts...)...)
}

func (w *fixture) blob() string { return w.repoPath("blobs", w.files[data].ETag()) }

// bytesSent returns how many bytes a listener sent.
func (w *fixture) bytesSent(listener string) (n int64) {
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
	runInBubble(t, func(w *fixture) {
		s := w.mustFetch(ref)
		w.checkCalls(2, 2, 1) // revision, tree; README, HEAD of the file; the file
		assert.Equal(t, FromNetwork, s.Files[0].Source)
		assert.EqualValues(t, len(w.files[data].Data), s.BytesNetwork)
		assert.Equal(t, "dataset "+repoName+" @ main -> "+w.commit[:12]+" (resolved now)", s.Summary())
		assert.Len(t, s.Files, 1)
		assert.Equal(t, w.repoPath("snapshots", w.commit, data), s.Files[0].LocalPath)

		s = w.mustFetch(ref)
		w.checkCalls(1, 0, 0)
		assert.Equal(t, FromCache, s.Files[0].Source)
		assert.Zero(t, s.BytesNetwork)

		w.transport = forbidden{t}
		s = w.mustFetch(ref + "@" + w.commit)
		w.checkCalls(0, 0, 0)
		assert.Equal(t, ResolvedByCommit, s.Resolution)
	})
}

func TestCacheLayoutMatchesPythonClient(t *testing.T) {
	runInBubble(t, func(w *fixture) {
		w.mustFetch(ref)
		text, err := os.Readlink(w.repoPath("snapshots", w.commit, data))
		require.NoError(t, err)
		assert.Equal(t, "../../blobs/"+w.files[data].ETag(), text)
		text, err = os.Readlink(w.repoPath("snapshots", w.commit, cardName))
		require.NoError(t, err)
		assert.Equal(t, "../../blobs/"+w.files[cardName].ETag(), text)
		got, err := os.ReadFile(w.repoPath("refs", "main"))
		require.NoError(t, err)
		assert.Equal(t, w.commit, string(got))
		got, err = os.ReadFile(w.repoPath("trees", w.commit+".json"))
		require.NoError(t, err)
		assert.Contains(t, string(got), `"format_version": 1`)
		assert.Contains(t, string(got), `"lfs_sha256": "`+w.files[data].ETag()+`"`)
		assert.FileExists(t, filepath.Join(w.home, "hub", "CACHEDIR.TAG"))

		w.mustFetch(ref + "/plots/a.png")
		text, err = os.Readlink(w.repoPath("snapshots", w.commit, "plots/a.png"))
		require.NoError(t, err)
		assert.Equal(t, "../../../blobs/"+w.files["plots/a.png"].ETag(), text)
	})
}

func TestOfflineOpensNoConnection(t *testing.T) {
	runInBubble(t, func(w *fixture) {
		w.mustFetch(ref)
		w.env["HF_HUB_OFFLINE"] = "1"
		w.transport = forbidden{t}
		require.NoError(t, os.Chtimes(w.repoPath("refs", "main"), time.Now(), time.Now().Add(-3*24*time.Hour)))
		s := w.mustFetch(ref)
		assert.Equal(t, "dataset "+repoName+" @ main -> "+w.commit[:12]+" (from the local ref, age 3 d)", s.Summary())
		w.mustFetch(ref + "@" + w.commit)

		require.NoError(t, os.Remove(w.blob()))
		_, err := w.fetch(ref)
		require.Error(t, err)
		assert.Equal(t, ClassNotCached, classOf(err))
		for _, text := range []string{"offline", data, w.commit} {
			assert.Contains(t, err.Error(), text)
		}
		assert.Contains(t, Hint(err), "HF_HUB_OFFLINE")
		_, err = w.fetch(ref + "@v2")
		assert.Equal(t, ClassNotCached, classOf(err))
		_, err = w.fetch("hf://datasets/a/b")
		assert.Equal(t, ClassNotCached, classOf(err))
	})
}

func copyAll(w io.Writer, r io.ReadCloser) (int64, error) {
	n, err := io.Copy(w, r)
	return n, errors.Join(err, r.Close())
}
