package hub

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/hfsource/hub/fakehub"
)

// Tests with several processes, some of which are killed: the fake hub on real sockets, and this test binary as client.

// childEnv makes a process of this binary fetch the reference in it.
const childEnv = "AGENTX_HUB_CHILD"

func child() int {
	r, err := Parse(os.Getenv(childEnv))
	if err == nil {
		var s *Snapshot
		if s, err = Fetch(context.Background(), r, Options{Version: "test", CacheRoot: os.Getenv("AGENTX_CACHE")}); err == nil {
			err = json.NewEncoder(os.Stdout).Encode(s)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// newSocketFixture returns a fixture whose hub listens on real sockets.
func newSocketFixture(t *testing.T) *fixture {
	w := &fixture{t: t, hub: fakehub.New(), home: t.TempDir(), root: t.TempDir()}
	require.NoError(t, w.hub.Listen())
	t.Cleanup(w.hub.Close)
	w.env = map[string]string{"HF_HOME": w.home, "HF_ENDPOINT": w.hub.HubURL, "AGENTX_CACHE": w.root}
	w.files = map[string]fakehub.File{"README.md": {Data: []byte(cardText)}, data: {Data: content(3_000_000, 1), LFS: true}}
	w.commit = w.hub.Commit(repoName, "main", w.files)
	w.transport = &http.Transport{}
	t.Cleanup(w.transport.(*http.Transport).CloseIdleConnections)
	return w
}

// start starts a process that fetches a reference.
func (w *fixture) start(input string) (*exec.Cmd, *bytes.Buffer, *bytes.Buffer) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+input, "GOCOVERDIR="+w.root)
	for name, value := range w.env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	require.NoError(w.t, cmd.Start())
	return cmd, &out, &problems
}

func TestProcessesCauseOneDownload(t *testing.T) {
	w := newSocketFixture(t)
	var done sync.WaitGroup
	var mu sync.Mutex
	network := int64(0)
	for range 8 {
		cmd, out, problems := w.start(ref)
		done.Go(func() {
			if !assert.NoError(t, cmd.Wait(), problems) {
				return
			}
			var s Snapshot
			assert.NoError(t, json.Unmarshal(out.Bytes(), &s))
			assert.Equal(t, fakehub.Digest(w.files[data].Data), s.Files[0].SHA256)
			mu.Lock()
			network += s.BytesNetwork
			mu.Unlock()
		})
	}
	done.Wait()
	assert.EqualValues(t, len(w.files[data].Data), network)
	api, resolvers, cdn := w.hub.Calls()
	assert.Equal(t, 1, cdn, w.requests())
	assert.Equal(t, 2, resolvers)
	assert.LessOrEqual(t, api, 16)
	assert.Empty(t, leftovers(t, w.home))
	w.mustFetch(ref)
}

// checkAfterKill checks that nothing that a killed process left looks complete.
func (w *fixture) checkAfterKill() {
	w.t.Helper()
	if b, err := os.ReadFile(w.blob()); err == nil {
		require.Equal(w.t, w.files[data].ETag(), fakehub.Digest(b), "half a blob under the name of a whole one")
	} else {
		require.NoFileExists(w.t, w.repoPath("snapshots", w.commit, data))
	}
	w.checkRef(w.repoPath())
	w.env["HF_HUB_OFFLINE"] = "1"
	defer delete(w.env, "HF_HUB_OFFLINE")
	if s, err := w.fetch(ref); err == nil {
		w.checkContent(s)
	}
}

// Processes are killed at every stage of a fetch, as seen by the hub.
func TestKilledProcessesLeaveNothingThatLooksComplete(t *testing.T) {
	for name, c := range map[string]struct {
		at fakehub.Match
		s  func(kill func()) fakehub.Fault
	}{
		"revision": {onInfo, killAt(0)}, "listing": {onTree, killAt(0)}, "card": {fakehub.Match{Path: "/README.md"}, killAt(0)}, "head": {onHead, killAt(0)},
		"first byte": {onFile, killAt(0)}, "middle": {onFile, killAt(1_500_000)}, "last byte": {onFile, killAt(2_999_999)},
	} {
		t.Run(name, func(t *testing.T) {
			w := newSocketFixture(t)
			var cmd *exec.Cmd
			started := make(chan bool)
			w.hub.On(c.at, fakehub.Times(1, c.s(func() {
				<-started
				for name == "middle" { // what was sent need not have arrived
					if info, err := os.Stat(w.blob() + partialSuffix); err == nil && info.Size() == 1_500_000 {
						break
					}
					time.Sleep(time.Millisecond)
				}
				_ = cmd.Process.Kill() // it may be gone
			})))
			cmd, _, _ = w.start(ref)
			close(started)
			require.Error(t, cmd.Wait())
			w.checkAfterKill()
			w.hub.ResetLog()
			s := w.mustFetch(ref)
			if name == "middle" {
				assert.EqualValues(t, 1_500_000, s.BytesNetwork, "it went on from there")
			}
		})
	}
}

// killAt calls kill before byte n of a body, which it does not send.
func killAt(n int64) func(func()) fakehub.Fault {
	return func(kill func()) fakehub.Fault {
		return func(next http.HandlerFunc) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				if n == 0 {
					kill()
					<-r.Context().Done()
					return
				}
				fakehub.CutAndCall(n, func() {
					kill()
					<-r.Context().Done()
				})(next)(w, r)
			}
		}
	}
}

// Processes are killed at random times until one completes.
func TestLongKilledAtRandom(t *testing.T) {
	if os.Getenv("AGENTX_LONG") == "" {
		t.Skip("takes a minute or more: AGENTX_LONG=1")
	}
	random := rand.New(rand.NewPCG(1, 2))
	kills := 0
	for round := range 8 {
		w := newSocketFixture(t)
		w.files[data] = fakehub.File{Data: content(60_000_000, byte(round)), LFS: true}
		w.commit = w.hub.Commit(repoName, "main", w.files)
		for range 20 {
			cmd, _, problems := w.start(ref)
			timer := time.AfterFunc(time.Duration(random.IntN(1500))*time.Millisecond, func() { _ = cmd.Process.Kill() })
			err := cmd.Wait()
			timer.Stop()
			if err == nil {
				break
			}
			var exit *exec.ExitError
			require.ErrorAs(t, err, &exit)
			require.False(t, exit.Exited(), problems)
			kills++
			w.checkAfterKill()
		}
		w.mustFetch(ref)
	}
	t.Logf("%d kills", kills)
}

// listCache lists the hub's cache below a home directory: targets of links, and content of files other than listings.
func listCache(t *testing.T, home string) map[string]string {
	list := map[string]string{}
	hub := filepath.Join(home, "hub")
	require.NoError(t, filepath.WalkDir(hub, func(path string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(hub, path)
		switch {
		case err != nil || name == "CACHEDIR.TAG":
			return err
		case name == ".locks":
			return fs.SkipDir
		case d.Type() == fs.ModeSymlink:
			list[name], err = os.Readlink(path)
		case d.IsDir():
			list[name] = "a directory"
		case filepath.Base(filepath.Dir(path)) == "trees":
			list[name] = "a listing"
		default:
			var b []byte
			b, err = os.ReadFile(path)
			list[name] = fakehub.Digest(b)
		}
		return err
	}))
	return list
}

// The Python client and this package use one cache, and each uses what the other downloaded. The test needs
// huggingface_hub, with the Python that HUB_REFERENCE_PYTHON names: make test-hub-reference.
func TestReferenceClient(t *testing.T) {
	python := os.Getenv("HUB_REFERENCE_PYTHON")
	if python == "" {
		t.Skip("needs huggingface_hub: make test-hub-reference")
	}
	run := func(w *fixture, offline bool, args ...string) string {
		w.t.Helper()
		cmd := exec.Command(python, append([]string{filepath.Join("..", "..", "contrib", "hub-reference", "check.py")}, args...)...)
		cmd.Env = append(os.Environ(), "HF_HOME="+w.home, "HF_ENDPOINT="+w.hub.HubURL, "HF_HUB_DISABLE_TELEMETRY=1", "HF_HUB_DISABLE_PROGRESS_BARS=1", "HF_TOKEN=")
		if offline {
			cmd.Env = append(cmd.Env, "HF_HUB_OFFLINE=1")
		}
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		t.Logf("%s", strings.TrimSpace(string(out)))
		return string(out)
	}
	names := func(w *fixture) []string {
		w.files["deep/er/päth with space.txt"] = fakehub.File{Data: []byte("x"), LFS: true}
		w.files["empty.txt"] = fakehub.File{}
		w.commit = w.hub.Commit(repoName, "main", w.files)
		return []string{repoName, data, fakehub.Digest(w.files[data].Data), "README.md", fakehub.Digest(w.files["README.md"].Data)}
	}
	t.Run("it downloads from the fake, and we adopt that", func(t *testing.T) {
		w := newSocketFixture(t)
		args := names(w)
		run(w, false, append([]string{"snapshot"}, args...)...)
		w.hub.ResetLog()
		s, err := w.fetch(ref)
		require.NoError(t, err)
		w.checkSnapshot(s)
		assert.Equal(t, FromOtherProgram, s.Files[0].Source)
		assert.Zero(t, s.BytesNetwork)
		_, resolvers, cdn := w.hub.Calls()
		assert.Zero(t, resolvers+cdn)
		for name := range w.files {
			s := w.mustFetch(ref + "/" + name)
			assert.Equal(t, FromOtherProgram, s.Files[0].Source)
		}
		w.env["HF_HUB_OFFLINE"] = "1"
		w.transport = forbidden{t}
		w.mustFetch(ref)
	})
	t.Run("it downloads from Xet, and we adopt that", func(t *testing.T) {
		w := newSocketFixture(t)
		f := w.files[data]
		f.Xet = true
		w.files[data] = f
		args := names(w)
		run(w, false, append([]string{"snapshot"}, args...)...)
		assert.Contains(t, w.requests(), "cdn GET /xorbs/"+f.XetHash(), "it came from Xet")
		like := &fixture{t: t, home: t.TempDir(), files: w.files, commit: w.commit}
		like.writePythonCache(true, true, slices.Sorted(maps.Keys(w.files))...)
		like.moveToXet(data)
		assert.Equal(t, listCache(t, like.home), listCache(t, w.home), "the other tests have the layout that it writes")
		w.hub.ResetLog()
		s := w.mustFetch(ref)
		assert.Equal(t, FromOtherProgram, s.Files[0].Source)
		w.checkCalls(1, 0, 0)
		assert.Empty(t, w.log())
		w.env["HF_HUB_OFFLINE"] = "1"
		w.transport = forbidden{t}
		w.mustFetch(ref)
		run(w, true, append([]string{"offline"}, args...)...)
		run(w, true, append([]string{"scan"}, args...)...)
	})
	t.Run("it cleans up while we download", func(t *testing.T) {
		w := newSocketFixture(t)
		args := names(w)
		w.hub.On(onFile, fakehub.Times(1, fakehub.CutAndCall(1_500_000, func() {
			for { // what was sent need not have arrived
				if info, err := os.Stat(w.blob() + partialSuffix); err == nil && info.Size() == 1_500_000 {
					break
				}
				time.Sleep(time.Millisecond)
			}
			run(w, true, append([]string{"prune"}, args...)...)
			assert.NoFileExists(t, w.blob()+partialSuffix)
		})))
		s := w.mustFetch(ref)
		assert.EqualValues(t, 3_000_000, s.BytesNetwork)
		run(w, true, append([]string{"prune"}, args...)...)
		run(w, true, append([]string{"offline"}, args...)...)
	})
	t.Run("we download, and it reads that offline", func(t *testing.T) {
		w := newSocketFixture(t)
		args := names(w)
		w.mustFetch(ref)
		w.mustFetch(ref + "/deep/er/päth with space.txt")
		w.mustFetch(ref + "/empty.txt")
		run(w, true, append([]string{"offline"}, args...)...)
		out := run(w, true, append([]string{"snapshot"}, args...)...)
		assert.Contains(t, out, w.commit)
		run(w, true, append([]string{"scan"}, args...)...)
	})
	t.Run("the fake counts as a hub: errors, refs/convert/parquet, pages", func(t *testing.T) {
		w := newSocketFixture(t)
		w.hub.Page = 2
		args := names(w)
		w.hub.Commit(repoName, parquetRevision, map[string]fakehub.File{"default/train/0000.parquet": {Data: []byte("PAR1"), LFS: true}})
		w.hub.Commit("o/gated", "main", w.files)
		w.hub.On(fakehub.Match{Path: "/o/gated/"}, fakehub.Refuse(403, "GatedRepo", "Access to dataset o/gated is restricted"))
		run(w, false, append([]string{"behaves"}, args...)...)
	})
}
