package replay

import (
	"bytes"
	"context"
	"crypto/sha256"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/convert/demo"
	"github.com/agentx/agentx/internal/cachetest"
	"github.com/agentx/agentx/internal/mock"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/replay/payload"
)

// bodies keeps the body of every request by the id in its header. It holds the first requests until so many have come.
type bodies struct {
	http.Handler
	first sync.WaitGroup
	mu    sync.Mutex
	byID  map[string][]byte
	held  int
}

func (b *bodies) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	b.mu.Lock()
	b.byID[r.Header.Get("X-Request-ID")] = body
	hold := b.held > 0
	b.held--
	b.mu.Unlock()
	if hold {
		b.first.Done()
		b.first.Wait()
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	b.Handler.ServeHTTP(w, r)
}

// Two lanes play one trace with a subagent at the same time: every body of a tree has the marker of the tree at its place, those of
// children too, and the files of the cache stay as they are.
//
// Covers T-35, M-3, M-7, INV-5.
func TestTreesOfOneTraceHaveMarkersOfTheirOwn(t *testing.T) {
	c := cachetest.Prepare(t, withSubagent(t), "code")
	before := digests(t, c.Root)
	for _, endpoint := range []payload.Endpoint{payload.ChatCompletions, payload.Completions} {
		tree, err := c.Render(0, endpoint.Encoding())
		require.NoError(t, err)
		for _, target := range []payload.MarkerTarget{payload.FirstTurnPrefix, payload.FirstTurnSuffix, payload.SystemPrefix, payload.SystemSuffix} {
			seen := &bodies{Handler: mock.New(mock.Config{}), byID: map[string][]byte{}, held: 2}
			seen.first.Add(2)
			url, _ := serve(t, seen)
			o := optionsFor(t, c, url)
			o.Endpoint, o.Marker, o.Concurrency, o.Trees = endpoint, target, 2, 3
			encoder, _, err := payload.NewEncoder(c, payload.Options{Endpoint: endpoint, Model: o.Model, Marker: target})
			require.NoError(t, err)
			markers, children := map[int]payload.Marker{}, map[int]bool{}
			for _, r := range play(t, context.Background(), o).records {
				m := payload.NewMarker("id-1", r.Pass, r.Lane, r.Trace)
				if other, ok := markers[r.Tree]; ok {
					require.Equal(t, other, m)
				}
				markers[r.Tree] = m
				children[r.Tree] = children[r.Tree] || r.Parent != ""
				body, err := encoder.Body(tree, row(tree, r.Session, r.Turn), m, int(r.MaxTokens))
				require.NoError(t, err)
				var want bytes.Buffer
				_, err = body.WriteTo(&want)
				require.NoError(t, err)
				body.Release()
				require.Equal(t, want.String(), string(seen.byID[r.RequestID]), "%s, session %s, turn %d", target, r.Session, r.Turn)
				if endpoint == payload.ChatCompletions {
					require.Equal(t, 1, strings.Count(want.String(), "[rid:"))
				}
			}
			require.Len(t, markers, 3)
			require.Equal(t, map[int]bool{0: true, 1: true, 2: true}, children)
			distinct := map[payload.Marker]bool{}
			for _, m := range markers {
				distinct[m] = true
			}
			require.Len(t, distinct, 3)
		}
	}
	require.Equal(t, before, digests(t, c.Root))
}

// withSubagent returns the first trace of the demo with a subagent.
func withSubagent(t *testing.T) string {
	for line := range strings.Lines(string(demo.JSONL())) {
		if strings.Contains(line, `"type":"subagent"`) {
			return line
		}
	}
	t.Fatal("the demo has no subagent")
	return ""
}

// row returns the turn of a session, counted within the trace.
func row(tree *mmapcache.RenderedTrace, session string, turn int) int {
	for _, s := range tree.Sessions {
		if s.ID == session {
			return int(s.FirstTurn) + turn
		}
	}
	return -1
}

// digests returns a digest of every file below a directory.
func digests(t *testing.T, dir string) map[string][sha256.Size]byte {
	list := map[string][sha256.Size]byte{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		list[path] = sha256.Sum256(data)
		return err
	}))
	return list
}
