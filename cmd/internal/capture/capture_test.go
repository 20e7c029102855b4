package capture

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/capture/carry"
	"github.com/agentx/agentx/cmd/internal/capture/journal"
	"github.com/agentx/agentx/internal/tokenizer"
	"github.com/agentx/agentx/mock"
)

var tokens = sync.OnceValues(func() (*tokenizer.Tokenizer, error) { return tokenizer.Load("o200k_base") })

// running is a capture in front of a server.
type running struct {
	*Capture
	t       testing.TB
	dir     string
	traffic string // URLs
	control string
	logged  *lockedBuffer
	stop    context.CancelFunc
	done    chan error
}

type lockedBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// start starts a capture in front of a handler.
func start(t testing.TB, upstream http.Handler, change func(*Options)) *running {
	t.Helper()
	return startIn(t, t.Context(), upstream, change)
}

// startIn is start with the disk of a context.
func startIn(t testing.TB, ctx context.Context, upstream http.Handler, change func(*Options)) *running {
	t.Helper()
	server := httptest.NewServer(upstream)
	t.Cleanup(server.Close)
	to, err := carry.ParseUpstream(server.URL)
	require.NoError(t, err)
	tok, err := tokens()
	require.NoError(t, err)
	r := &running{t: t, dir: t.TempDir(), logged: &lockedBuffer{}, done: make(chan error, 1)}
	began := time.Now()
	o := Options{
		Dir: r.dir, Upstreams: []carry.Upstream{to}, Tokenizer: tok, TokenizerName: "o200k_base", BlockSize: 4,
		Idle: 6 * time.Hour, Drain: 30 * time.Second, Sync: time.Second, Limits: DefaultLimits, Workers: 2,
		Now: func() int64 { return int64(time.Since(began)) }, Wall: func() int64 { return time.Now().UnixNano() },
		Random: rand.Reader, Log: slog.New(slog.NewTextHandler(r.logged, nil)),
	}
	if change != nil {
		change(&o)
	}
	r.Capture, err = New(ctx, o)
	require.NoError(t, err)
	traffic, admin := listen(t), listen(t)
	r.traffic, r.control = "http://"+traffic.Addr().String(), "http://"+admin.Addr().String()
	running, stop := context.WithCancel(context.Background())
	r.stop = stop
	go func() { r.done <- r.Serve(running, traffic, admin) }()
	t.Cleanup(func() { stop() })
	return r
}

func listen(t testing.TB) net.Listener {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return l
}

// end ends a capture and returns its traces by name.
func (r *running) end() (Summary, map[string]map[string]any) {
	r.t.Helper()
	r.stop()
	require.NoError(r.t, <-r.done)
	return r.Summary(), r.traces()
}

// traces returns the traces that were written, by name.
func (r *running) traces() map[string]map[string]any {
	r.t.Helper()
	traces := map[string]map[string]any{}
	list, err := filepath.Glob(filepath.Join(r.dir, journal.TracesDir, "*.json"))
	require.NoError(r.t, err)
	for _, path := range list {
		text, err := os.ReadFile(path)
		require.NoError(r.t, err)
		var trace map[string]any
		require.NoError(r.t, json.Unmarshal(text, &trace))
		traces[filepath.Base(path)] = trace
	}
	return traces
}

// post sends a body and returns the status and the reply.
func (r *running) post(path, body string, header ...string) (int, string) {
	r.t.Helper()
	req, err := http.NewRequest(http.MethodPost, r.traffic+path, strings.NewReader(body))
	require.NoError(r.t, err)
	req.Header.Set("Content-Type", "application/json")
	for k := 0; k < len(header); k += 2 {
		req.Header.Set(header[k], header[k+1])
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(r.t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(r.t, err)
	return resp.StatusCode, string(text)
}

// A session of every API becomes one trace, with the blocks that follow from its prompts.
func TestSessions(t *testing.T) {
	r := start(t, mock.New(mock.Config{}), nil)
	system := "You are a careful engineer."
	for k, path := range []string{"/v1/chat/completions", "/v1/messages", "/v1/responses"} {
		prefix := fmt.Sprintf("/s/api%d", k)
		turns := []string{`{"role":"user","content":"Fix the failing test in parser.go, please."}`}
		for range 3 {
			list := strings.Join(turns, ",")
			body := map[string]string{
				"/v1/chat/completions": `{"model":"m","max_tokens":5,"stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"system","content":"` + system + `"},` + list + `]}`,
				"/v1/messages":         `{"model":"m","max_tokens":5,"stream":true,"system":"` + system + `","messages":[` + list + `]}`,
				"/v1/responses":        `{"model":"m","max_output_tokens":5,"stream":true,"instructions":"` + system + `","input":[` + list + `]}`,
			}[path]
			status, reply := r.post(prefix+path, body)
			require.Equal(t, http.StatusOK, status, reply)
			turns = append(turns, `{"role":"assistant","content":" the of and to in"}`, `{"role":"user","content":"Go on."}`)
		}
	}
	summary, traces := r.end()
	require.Equal(t, []int{3, 3, 9, 9, 0}, []int{summary.Sessions, summary.Traces, summary.Requests, summary.Recorded, summary.Incomplete}, "%+v\n%s", summary, r.logged)
	require.Empty(t, summary.NotRecorded)
	require.Empty(t, summary.Marks)
	var shapes []string
	for _, trace := range traces {
		shape := ""
		for _, q := range trace["requests"].([]any) {
			q := q.(map[string]any)
			shape += fmt.Sprint(q["type"], " ", q["in"], " ", q["out"], " ", q["hash_ids"], "\n")
		}
		shapes = append(shapes, shape)
	}
	require.Equal(t, "s 22 5 [0 1 2 3 4]\n", shapes[0][:strings.Index(shapes[0], "\n")+1])
	require.Equal(t, shapes[0], shapes[1])
	require.Equal(t, shapes[0], shapes[2])
}
