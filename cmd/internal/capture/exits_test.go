package capture

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/capture/journal"
)

// Pieces of a stream of chat.
const (
	delta    = `data: {"choices":[{"index":0,"delta":{"content":"some words"}}]}` + "\n\n"
	failure  = `data: {"error":{"message":"overloaded"}}` + "\n\n"
	stopping = `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	counts   = `data: {"choices":[],"usage":{"prompt_tokens":20,"completion_tokens":2}}` + "\n\n"
	done     = "data: [DONE]\n\n"
)

// scripted is an upstream that does what the header X-Do says.
type scripted struct {
	arrived chan struct{} // gets one for each request that is held
	held    chan struct{} // closed: those that are held go on
}

func newScripted() *scripted {
	return &scripted{arrived: make(chan struct{}, 100), held: make(chan struct{})}
}

func (s *scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	do := r.Header.Get("X-Do")
	send := func(text string) {
		_, _ = io.WriteString(w, text)
		_ = http.NewResponseController(w).Flush()
	}
	hold := func() {
		s.arrived <- struct{}{}
		select {
		case <-s.held:
		case <-r.Context().Done():
		}
	}
	if do == "wait" {
		hold()
	}
	if status := map[string]int{"status": 429, "overload": 529}[do]; status != 0 {
		w.WriteHeader(status)
		return
	}
	if do == "reset" {
		panic(http.ErrAbortHandler)
	}
	if do == "gzip" { // damaged, and long
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Encoding", "gzip")
		send(strings.Repeat("damaged ", 1<<14))
		return
	}
	if do == "json" || do == "not json" || do == "long" {
		w.Header().Set("Content-Type", "application/json")
		body := `{"choices":[{"message":{"content":"some words"},"finish_reason":"stop"}],"usage":{"prompt_tokens":20,"completion_tokens":2}}`
		send(map[string]string{"json": body, "not json": body[:20], "long": strings.Repeat(" ", 1<<16) + body}[do])
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	if do == "coded" {
		w.Header().Set("Content-Encoding", "own")
	}
	w.WriteHeader(http.StatusOK)
	switch do {
	case "reset at once":
		send(": comment\n\n")
		panic(http.ErrAbortHandler)
	case "error at once":
		send(failure)
		return
	}
	send(delta)
	switch do {
	case "reset later":
		panic(http.ErrAbortHandler)
	case "error later":
		send(failure)
	case "no mark":
		send(stopping + counts)
	case "hold":
		hold()
		fallthrough
	default:
		send(stopping + counts + done)
	}
}

const chatPath = "/v1/chat/completions"

func chatBody(text string) string {
	return `{"model":"m","stream":true,"messages":[{"role":"user","content":"` + text + ` and so on, with some words more"}]}`
}

// requireCounted requires that every request was counted once.
func requireCounted(t *testing.T, s Summary) {
	t.Helper()
	n := s.Recorded
	for _, k := range s.NotRecorded {
		n += k
	}
	require.Equal(t, s.Requests, n, "%+v", s)
}

// requireAtRest requires that nothing of a capture that has ended is left.
func (r *running) requireAtRest() {
	r.t.Helper()
	list := r.alive()
	require.Empty(r.t, list)
	require.Zero(r.t, r.carrying())
	require.Zero(r.t, r.pool.used(), "bytes that wait")
	require.Zero(r.t, r.proxy.CopyBytes())
	require.Empty(r.t, r.waiting)
	list2, err := r.folder.Unfinished()
	require.NoError(r.t, err)
	require.Empty(r.t, list2)
	requireNoGoroutines(r.t)
}

// requireNoGoroutines requires that no goroutine runs code of a capture.
func requireNoGoroutines(t testing.TB) {
	t.Helper()
	http.DefaultClient.CloseIdleConnections()
	left := ""
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		left = ""
		stacks := make([]byte, 1<<20)
		for stack := range strings.SplitSeq(string(stacks[:runtime.Stack(stacks, true)]), "\n\n") {
			if strings.Contains(stack, "agentx/capture") && !strings.Contains(stack, "testing.tRunner") {
				left += stack + "\n\n"
			}
		}
		if left == "" || time.Now().After(deadline) {
			break
		}
	}
	require.Empty(t, left, "goroutines are left")
}

// breakUpload sends half of a request and leaves.
func (r *running) breakUpload(path string) {
	require.NoError(r.t, r.dial(half(path)).Close())
}

// half is the first half of a request.
func half(path string) string {
	return "POST " + path + " HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{\"model\":"
}

// dial opens a connection and writes to it.
func (r *running) dial(text string) net.Conn {
	c, err := net.Dial("tcp", strings.TrimPrefix(r.traffic, "http://"))
	require.NoError(r.t, err)
	_, err = io.WriteString(c, text)
	require.NoError(r.t, err)
	return c
}

// leave sends a request and leaves after some bytes of the reply's body, or when the upstream has it where these are negative.
func (r *running) leave(up *scripted, path, do string, after int) {
	ctx, cancel := context.WithCancel(r.t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.traffic+path, strings.NewReader(chatBody(do)))
	require.NoError(r.t, err)
	req.Header.Set("X-Do", do)
	if after < 0 {
		go func() { <-up.arrived; cancel() }()
	}
	resp, err := http.DefaultClient.Do(req)
	if after < 0 && err != nil {
		return
	}
	require.NoError(r.t, err)
	defer resp.Body.Close()
	_, err = io.ReadFull(resp.Body, make([]byte, max(0, after)))
	require.NoError(r.t, err)
	if after >= 0 {
		<-up.arrived
	}
}

// do sends a request and returns what came back; the body's end may be missing.
func (r *running) do(path, do, body string, header ...string) (int, string) {
	req, err := http.NewRequest(http.MethodPost, r.traffic+path, strings.NewReader(body))
	require.NoError(r.t, err)
	req.Header.Set("X-Do", do)
	for k := 0; k < len(header); k += 2 {
		req.Header.Set(header[k], header[k+1])
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(r.t, err)
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text)
}

// awaitLanding waits until nothing is in flight: clients have replies before that.
func (r *running) awaitLanding() {
	require.Eventually(r.t, func() bool { return r.carrying() == 0 }, 10*time.Second, time.Millisecond)
}

// exits lets every exit happen, each in a session of its own where the paths of requests say so.
func (r *running) exits(up *scripted, pathOf func(name string) string) {
	path := func(name string) string {
		r.awaitLanding()
		return pathOf(name)
	}
	for _, do := range []string{"whole", "json", "status", "overload", "reset", "reset at once", "reset later", "error at once", "error later", "no mark",
		"not json", "long", "coded"} {
		r.do(path(strings.ReplaceAll(do, " ", "-")), do, chatBody(do))
	}
	r.do(path("malformed"), "whole", "{")
	r.do(path("list"), "whole", "[1]")
	r.do(path("empty"), "whole", "")
	r.do(path("odd"), "whole", `{"messages":7}`)
	r.do(path("request-coding"), "whole", chatBody("x"), "Content-Encoding", "own")
	r.do(path("panics"), "whole", chatBody("PANIC"))
	r.do(path("off"), "whole", chatBody("x"), "X-Agentx-Capture", "off")
	r.do("/v1/models", "whole", "")
	r.breakUpload(path("upload"))
	r.leave(up, path("gone"), "wait", -1)
	r.leave(up, path("leaves"), "hold", len(delta))
	r.do(path("stalls"), "hold", chatBody("x")) // its end is the stall
}

// panicking is a tokenizer that panics.
type panicking struct {
	inner interface {
		AppendIDs([]uint32, string) []uint32
	}
}

func (p panicking) AppendIDs(ids []uint32, text string) []uint32 {
	if strings.Contains(text, "PANIC") {
		panic("PANIC")
	}
	return p.inner.AppendIDs(ids, text)
}

func forExits(o *Options) {
	o.Tokenizer = panicking{o.Tokenizer}
	o.Limits.ReplyCopy = 1 << 15
	o.Limits.Stall = 50 * time.Millisecond
}

// Every exit of an exchange is one end and one count, and leaves nothing behind.
//
// Covers C-23, C-24.
func TestExits(t *testing.T) {
	up := newScripted()
	r := start(t, up, forExits)
	r.exits(up, func(name string) string { return "/s/" + name + chatPath })
	s, traces := r.end()
	requireCounted(t, s)
	require.Equal(t, map[journal.Reason]int{
		"status": 2, "transport": 3, "no_output": 2, "endpoint": 1, "opt_out": 1,
		"parse_request": 3, "unhashable": 1, "encoding": 2, "oversize": 1, "internal": 1,
	}, s.NotRecorded, "%s", r.logged)
	require.Equal(t, map[string]int{"partial": 5, "reply_json": 1, "reply_shape": 1, "reply_usage": 1, "reply_stream": 2, "out_counted": 6}, s.Marks)
	require.Equal(t, 8, s.Recorded)
	require.Len(t, traces, 8)
	require.Equal(t, 8, s.Incomplete, "those with holes")
	r.requireAtRest()
}

// The same, where bodies or nothing name the sessions, and where sessions are linear.
//
// Covers C-23, C-24.
func TestExitsOfOtherSessions(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"client":  func(*Options) {},
		"dropped": func(o *Options) { o.DropUnattributed = true },
		"linear":  func(o *Options) { o.Linear = true },
		"opted":   func(o *Options) { o.Opted = true },
		"detach":  func(o *Options) { o.Detach, o.Limits.Stall = true, 0 },
	} {
		t.Run(name, func(t *testing.T) {
			up := newScripted()
			if name == "detach" {
				close(up.held)
			}
			r := start(t, up, func(o *Options) { forExits(o); change(o) })
			r.exits(up, func(string) string { return chatPath })
			s, _ := r.end()
			require.Equal(t, 25, s.Requests)
			requireCounted(t, s)
			r.requireAtRest()
		})
	}
}

// A slot of a linear session is free after every exit. A request that is refused frees no slot.
//
// Covers C-22, C-24.
func TestLinearSlots(t *testing.T) {
	up := newScripted()
	r := start(t, up, func(o *Options) { forExits(o); o.Linear = true })
	path := "/s/one" + chatPath
	r.exits(up, func(string) string { return path })
	r.awaitLanding()
	for len(up.arrived) > 0 {
		<-up.arrived
	}
	first := make(chan string, 1)
	go func() {
		_, text := r.do(path, "wait", chatBody("long"))
		first <- text
	}()
	<-up.arrived
	for range 2 {
		status, text := r.do(path, "whole", chatBody("busy"))
		require.Equal(t, http.StatusConflict, status)
		require.Contains(t, text, "session busy")
	}
	close(up.held)
	require.Contains(t, <-first, "some words")
	r.awaitLanding()
	status, _ := r.do(path, "whole", chatBody("again"))
	require.Equal(t, http.StatusOK, status)
	s, _ := r.end()
	requireCounted(t, s)
	r.requireAtRest()
}

// What runs when the drain is over is aborted, and counted so.
//
// Covers C-21, C-23, C-24.
func TestShutdownInFlight(t *testing.T) {
	up := newScripted()
	r := start(t, up, func(o *Options) { o.Drain = 50 * time.Millisecond })
	results := make(chan string, 3)
	for k, header := range []string{"", "X-Session-Affinity", "X-Claude-Code-Session-Id"} {
		go func() {
			req, _ := http.NewRequest(http.MethodPost, r.traffic+chatPath, strings.NewReader(chatBody("x")))
			req.Header.Set("X-Do", "hold")
			if header != "" {
				req.Header.Set(header, fmt.Sprint(k))
			}
			resp, err := http.DefaultClient.Do(req)
			if err == nil {
				text, _ := io.ReadAll(resp.Body)
				resp.Body.Close()
				results <- string(text)
			}
		}()
		<-up.arrived
	}
	// one more, whose body does not end
	defer r.dial(half(chatPath)).Close()
	require.Eventually(t, func() bool { return r.carrying() == 4 }, 10*time.Second, time.Millisecond)
	s, _ := r.end()
	for range 3 {
		require.Equal(t, delta, <-results)
	}
	requireCounted(t, s)
	require.Equal(t, map[journal.Reason]int{"aborted": 4}, s.NotRecorded)
	r.requireAtRest()
}
