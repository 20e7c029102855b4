package mock

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start serves s on a port of this machine until the test ends, and returns its URL.
func start(t *testing.T, s *Server) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
		require.Zero(t, s.Stats().OpenConnections)
	})
	return "http://" + l.Addr().String()
}

func get(s *Server, path string) *httptest.ResponseRecorder {
	return serve(s, httptest.NewRequest(http.MethodGet, path, nil))
}

func TestSmallEndpoints(t *testing.T) {
	s := New(Config{clock: &lateClock{now: time.Unix(7, 0)}})
	require.JSONEq(t, `{"object":"list","data":[{"id":"mock","object":"model","created":7,"owned_by":"agentx"}]}`, get(s, "/v1/models").Body.String())
	require.Equal(t, http.StatusOK, get(s, "/health").Code)
	require.Equal(t, http.StatusNotFound, get(s, "/v1/embeddings").Code)
	require.Equal(t, http.StatusMethodNotAllowed, get(s, "/v1/completions").Code)
}

func TestStatsAndMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{CacheBlocks: 8, Faults: []Fault{{"empty", 0}}})
		from := func(header, session string) {
			r := post("/v1/completions", `{`+ids(70)+`,"max_tokens":3}`)
			r.Header.Set(header, session)
			require.Equal(t, 200, serve(s, r).Code)
		}
		from("X-Session-ID", "one")
		time.Sleep(1500 * time.Millisecond) // fake time of the bubble
		from("x-correlation-id", "two")
		from("X-Session-ID", "one")
		from("X-Other", "three")
		require.Equal(t, 400, serve(s, post("/v1/completions", `{`)).Code)

		var stats map[string]any
		w := get(s, "/stats")
		require.Equal(t, "application/json", w.Header().Get("Content-Type"))
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &stats))
		bytesIn := float64(4*len(`{`+ids(70)+`,"max_tokens":3}`) + 1)
		require.Equal(t, map[string]any{
			"requests": 5.0, "open_requests": 0.0, "open_connections": 0.0, "rejected": 1.0, "bytes_in": bytesIn,
			"prompt_tokens": 280.0, "cached_tokens": 192.0, "output_tokens": 12.0, "cache_blocks": 1.0,
			"reencoded_prompts": 0.0, "reencoded_tokens": 0.0, "estimated_tokens": 0.0,
			"faults":        map[string]any{"empty": 0.0},
			"first_arrival": map[string]any{"one": 0.0, "two": 1.5},
		}, stats)

		w = get(s, "/metrics")
		require.Equal(t, "text/plain; version=0.0.4; charset=utf-8", w.Header().Get("Content-Type"))
		require.Contains(t, w.Body.String(), "# HELP vllm:prompt_tokens_total Prompt tokens.\n# TYPE vllm:prompt_tokens_total counter\nvllm:prompt_tokens_total 280\n")
		for _, line := range []string{
			"vllm:num_requests_running 0", "vllm:num_requests_waiting 0", "vllm:kv_cache_usage_perc 0.125", "vllm:generation_tokens_total 12",
			"vllm:prefix_cache_queries_total 280", "vllm:prefix_cache_hits_total 192", "agentx_mock_requests_total 5",
			`agentx_mock_faults_total{kind="empty"} 0`,
		} {
			require.Contains(t, w.Body.String(), "\n"+line+"\n")
		}
	})
}

// Requests of a session may be counted in another order than that of their arrival.
func TestFirstArrivalIsTheEarliest(t *testing.T) {
	s := New(Config{})
	r := post("/", "")
	r.Header.Set("X-Session-ID", "s")
	for _, at := range []time.Duration{3, 2, 4} {
		s.counters.arrive(r, at*time.Second)
	}
	require.Equal(t, map[string]float64{"s": 2}, s.Stats().FirstArrival)
}

func TestMalformedBodyGetsAnOpenAIError(t *testing.T) {
	w := serve(New(Config{}), post("/v1/chat/completions", `{"messages":[}`))
	require.Equal(t, 400, w.Code)
	require.JSONEq(t, `{"error":{"message":"messages: byte 13: want '{', found '}'","type":"invalid_request_error","param":null,"code":null}}`, w.Body.String())
}

func TestBodyOverTheLimitGets413(t *testing.T) {
	url := start(t, New(Config{maxBody: 200})) + "/v1/chat/completions"
	require.Equal(t, 200, ask(t, url, whole).status)
	f := ask(t, url, whole+strings.Repeat(" ", 200))
	require.Equal(t, 413, f.status)
	require.Contains(t, f.body, `"invalid_request_error"`)
}

// gateClock tells when a sleep begins, and never ends one.
type gateClock struct {
	machineClock
	asleep chan struct{}
}

func (c gateClock) Sleep(ctx context.Context, _ time.Duration) error {
	c.asleep <- struct{}{}
	<-ctx.Done()
	return ctx.Err()
}

func TestServeEndsRequestsAndConnections(t *testing.T) {
	clock := gateClock{asleep: make(chan struct{})}
	s := New(Config{TTFT: time.Hour, clock: clock})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.Serve(ctx, l) }()

	const clients = 8
	failed := make(chan failure)
	for range clients {
		go func() { failed <- ask(t, "http://"+l.Addr().String()+"/v1/chat/completions", streamed) }()
	}
	for range clients {
		<-clock.asleep
	}
	require.EqualValues(t, clients, s.Stats().OpenRequests)
	require.EqualValues(t, clients, s.Stats().OpenConnections)
	cancel()
	require.NoError(t, <-done)
	require.Zero(t, s.Stats().OpenRequests)
	require.Zero(t, s.Stats().OpenConnections)
	for range clients {
		require.Error(t, (<-failed).err)
	}
	_, err = net.Dial("tcp", l.Addr().String())
	require.Error(t, err)
}

// The HTTP server watches a connection for one byte only. A client that sends on while it waits hides from it that the
// connection is closed. Whether the server has seen the byte when Serve ends is a race, so there are many such clients.
func TestServeEndsRequestsOfClientsThatSendOn(t *testing.T) {
	clock := gateClock{asleep: make(chan struct{})}
	url := start(t, New(Config{TTFT: time.Hour, clock: clock}))
	for range 50 {
		conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		require.NoError(t, err)
		defer func() { _ = conn.Close() }()
		_, err = io.WriteString(conn, "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 14\r\n\r\n"+`{"prompt":"x"}`)
		require.NoError(t, err)
		<-clock.asleep
		_, err = io.WriteString(conn, "P")
		require.NoError(t, err)
	}
}

func TestServeReportsAFailingListener(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	err = New(Config{}).Serve(t.Context(), l)
	require.ErrorIs(t, err, net.ErrClosed)
	require.ErrorContains(t, err, "mock: 127.0.0.1:")
}

func TestConnectionsAreReused(t *testing.T) {
	url := start(t, New(Config{}))
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	var reused []bool
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) { reused = append(reused, info.Reused) },
	})
	for _, body := range []string{streamed, `{`, whole, streamed} {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", strings.NewReader(body))
		require.NoError(t, err)
		response, err := transport.RoundTrip(r)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, response.Body)
		require.NoError(t, err)
		_ = response.Body.Close()
	}
	require.Equal(t, []bool{false, true, true, true}, reused)
}
