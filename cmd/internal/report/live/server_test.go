package live

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/guard"
	"github.com/agentx/agentx/replay/measure"
)

func TestAddress(t *testing.T) {
	for text, want := range map[string]string{
		":80": "127.0.0.1:80", "0.0.0.0:0": "0.0.0.0:0", "[::1]:65535": "[::1]:65535", "here:1": "here:1",
		"80": "", "": "", "x:": "", "x:-1": "", ":65536": "", ":http": "", "http://x:1": "",
	} {
		got, err := Address(text)
		require.Equal(t, want, got, text)
		require.Equal(t, want == "", err != nil, text)
	}
}

// listen returns a server on a free port that shows a run with a few records.
func listen(t *testing.T) (*Server, *State) {
	s, err := Listen("127.0.0.1:0", "")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close(t.Context())) })
	return s, someState()
}

func someState() *State {
	s := NewState(measure.Rules{}, 8)
	for _, r := range someRecords(100) {
		s.Add(r)
	}
	return s
}

func get(t *testing.T, s *Server, change func(*http.Request), path string) (*http.Response, string) {
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, strings.TrimSuffix(s.URL(), "/")+path, nil)
	require.NoError(t, err)
	change(r)
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(r)
	require.NoError(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return answer, string(text)
}

// A server answers GET alone, for its own paths, and on a loopback address those alone who ask for one.
func TestServer(t *testing.T) {
	s, state := listen(t)
	plain := func(*http.Request) {}
	answer, _ := get(t, s, plain, "/status")
	require.Equal(t, 503, answer.StatusCode, "the run has not begun")
	s.Show(&View{State: state})
	answer, text := get(t, s, plain, "/status")
	require.Equal(t, 200, answer.StatusCode)
	var status Status
	require.NoError(t, json.Unmarshal([]byte(text), &status))
	require.Equal(t, state.Status().Completed, status.Completed)
	require.Contains(t, answer.Header.Get("Content-Security-Policy"), "default-src 'none'")
	answer, text = get(t, s, plain, "/metrics")
	require.Equal(t, "text/plain; version=0.0.4; charset=utf-8", answer.Header.Get("Content-Type"))
	require.Contains(t, scraped(t, []byte(text)), "agentx_requests")
	for _, c := range []struct {
		path   string
		change func(*http.Request)
		want   int
	}{
		{"/", plain, 503}, {"/data?after=0", plain, 503}, {"/data", plain, 400}, {"/data?after=-1", plain, 400}, {"/other", plain, 404}, {"/status/x", plain, 404},
		{"/status", func(r *http.Request) { r.Method = http.MethodPost }, 405},
		{"/status", func(r *http.Request) { r.Method = http.MethodHead }, 405},
		{"/status", func(r *http.Request) { r.Host = "attacker.example" }, 403},
		{"/status", func(r *http.Request) { r.Host = "127.0.0.1.attacker.example:80" }, 403},
		{"/status", func(r *http.Request) { r.Host = "localhost:80" }, 200},
		{"/status", func(r *http.Request) { r.Header.Set("Origin", "http://attacker.example") }, 403},
		{"/status", func(r *http.Request) { r.Host = "LOCALHOST:80" }, 200},
		{"/status", func(r *http.Request) { r.Host = "[::1]" }, 200},
	} {
		answer, text := get(t, s, c.change, c.path)
		require.Equal(t, c.want, answer.StatusCode, "%s: %s", c.path, text)
	}
	_, err := Listen(s.listener.Addr().String(), "")
	require.ErrorContains(t, err, "another program listens there")
}

// Beyond this machine a server answers those alone who have the token, which is drawn if none is given.
//
//
func TestServerBeyondThisMachine(t *testing.T) {
	for _, given := range []string{"", "s3cret"} {
		s, err := Listen("0.0.0.0:0", given)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, s.Close(t.Context())) })
		require.Equal(t, given == "", s.Drawn != "")
		s.Show(&View{State: someState()})
		for _, path := range []string{"/", "/data?after=0", "/metrics", "/status", "/other"} {
			answer, _ := get(t, s, func(*http.Request) {}, path+"?token="+s.Drawn+given)
			require.Equal(t, 401, answer.StatusCode, path)
		}
		answer, _ := get(t, s, func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+s.Drawn+given) }, "/status")
		require.Equal(t, 200, answer.StatusCode)
		answer, _ = get(t, s, func(r *http.Request) { r.AddCookie(&http.Cookie{Name: guard.Cookie, Value: s.Drawn + given}) }, "/metrics")
		require.Equal(t, 200, answer.StatusCode)
	}
	_, err := Listen("0.0.0.0:0", "a b")
	require.ErrorContains(t, err, "AGENTX_ADMIN_TOKEN")
}

// pipes is a listener whose connections are in memory, so that they live by the clock of a bubble.
type pipes struct {
	calls  chan net.Conn
	closed chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.calls:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.closed); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

// A reader who does not read for a minute holds up nothing: the run reports and adds records meanwhile at once, others are
// served, and the reader is cut off.
//
//
func TestReaderWhoDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &pipes{make(chan net.Conn), make(chan struct{})}
		s, state := newServer(), someState()
		s.Site = serve("--listen", l, "", s.handler())
		s.Show(&View{State: state})
		ask := func(path string) net.Conn {
			mine, theirs := net.Pipe()
			l.calls <- theirs
			_, err := fmt.Fprintf(mine, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path)
			require.NoError(t, err)
			return mine
		}
		begin := time.Now()
		var silent []net.Conn
		for _, path := range []string{"/metrics", "/status", "/metrics", "/status"} {
			silent = append(silent, ask(path))
		}
		synctest.Wait() // their handlers wait for the readers
		for range 60 {
			state.Add(good(0, 0, 1, 0.1, 2))
			state.Report(measure.Progress{Phase: measure.ProfilingPhase})
			state.Look(time.Now())
		}
		other := ask("/status")
		answer := make([]byte, 15)
		_, err := io.ReadFull(other, answer)
		require.NoError(t, err)
		require.Equal(t, "HTTP/1.1 200 OK", string(answer))
		require.Zero(t, time.Since(begin), "nothing has waited")
		time.Sleep(time.Minute) // of the bubble
		for _, c := range append(silent, other) {
			text, err := io.ReadAll(c)
			require.NoError(t, err)
			require.NotContains(t, string(text), "\r\n\r\n{", "the answer was not kept for them")
		}
		require.Equal(t, 160, state.Status().Sent)
		require.NoError(t, s.Close(t.Context()))
	})
}

// At its end a command waits for the pages that are open, and not for those that were closed.
func TestWatchers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watchers{at: map[string]time.Time{}}
		w.wait(t.Context()) // there is no watcher to wait for
		w.asked("gone", false)
		time.Sleep(watching + 1)
		w.wait(t.Context())
		require.Zero(t, w.open())
		w.asked("", false) // no page
		w.asked("a", false)
		time.Sleep(watching - 1) // a slow page
		w.asked("b", false)
		require.Equal(t, 2, w.open())
		go func() {
			time.Sleep(time.Second)
			w.asked("a", true)
			w.asked("a", true)
			time.Sleep(time.Second)
			w.asked("b", true)
		}()
		begin := time.Now()
		w.wait(t.Context())
		require.Equal(t, 2*time.Second, time.Since(begin))
	})
}
