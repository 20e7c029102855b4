package replay

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/cachetest"
	"github.com/agentx/agentx/internal/mock"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/payload"
	"github.com/agentx/agentx/replay/preset"
	"github.com/agentx/agentx/replay/wire"
)

// rawRequests serves a mock and keeps the head of every POST, byte for byte.
type rawRequests struct {
	mu    sync.Mutex
	heads []string
}

// rawConn notes what is read.
type rawConn struct {
	net.Conn
	of   *rawRequests
	seen bytes.Buffer
}

func (c *rawConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.seen.Write(p[:n])
	if head, _, ok := bytes.Cut(c.seen.Bytes(), []byte("\r\n\r\n")); ok && bytes.HasPrefix(head, []byte("POST ")) {
		c.of.mu.Lock()
		c.of.heads = append(c.of.heads, string(head))
		c.of.mu.Unlock()
		c.seen.Reset()
		c.seen.WriteString("the rest of the connection is of no interest")
	}
	return n, err
}

type rawListener struct {
	net.Listener
	of *rawRequests
}

func (l rawListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return &rawConn{Conn: c, of: l.of}, err
}

// A request has its header byte for byte, under each payload.
//
// Covers T-40.
func TestHeaderGolden(t *testing.T) {
	c := cachetest.Demo(t)
	for _, test := range []struct {
		name   string
		change func(o *Options)
		path   string
		before string // of X-Request-ID
		names  string // of the session
		after  string // of Content-Type
	}{
		{"chat", func(o *Options) { o.Endpoint = payload.ChatCompletions }, "/v1/chat/completions", "", "X-Correlation-ID: ID\r\n", "X-Session-Affinity: ID\r\n"},
		{"ids with a key", func(o *Options) { o.APIKey = "k" }, "/v1/completions", "Authorization: Bearer k\r\n", "X-Correlation-ID: ID\r\n", "X-Session-Affinity: ID\r\n"},
		{"a key beside its header", func(o *Options) { o.APIKey, o.Header = "k", []wire.HeaderField{{Name: "authorization", Value: "mine"}} }, "/v1/completions",
			"authorization: mine\r\n", "X-Correlation-ID: ID\r\n", "X-Session-Affinity: ID\r\n"},
		{"text", func(o *Options) { o.Endpoint = payload.TextCompletions }, "/v1/completions", "", "X-Correlation-ID: ID\r\n", "X-Session-Affinity: ID\r\n"},
		{"messages", func(o *Options) { o.Endpoint = payload.Messages }, "/v1/messages", "anthropic-version: 2023-06-01\r\n", "X-Correlation-ID: ID\r\n", "X-Session-Affinity: ID\r\n"},
		{"messages with a key", func(o *Options) { o.Endpoint, o.APIKey = payload.Messages, "k" }, "/v1/messages",
			"anthropic-version: 2023-06-01\r\nx-api-key: k\r\n", "X-Correlation-ID: ID\r\n", "X-Session-Affinity: ID\r\n"},
		{"messages of another version", func(o *Options) {
			o.Endpoint, o.APIKey = payload.Messages, "k"
			o.Header = []wire.HeaderField{{Name: "Anthropic-Version", Value: "2030-01-01"}, {Name: "X-API-Key", Value: "mine"}, {Name: "Authorization", Value: "Bearer b"}}
		}, "/v1/messages", "Anthropic-Version: 2030-01-01\r\nX-API-Key: mine\r\nAuthorization: Bearer b\r\n", "X-Correlation-ID: ID\r\n", "X-Session-Affinity: ID\r\n"},
		{"no affinity", func(o *Options) { s, _ := preset.Named("agentx-1.0.12"); o.Switches = &s }, "/v1/completions", "", "X-Correlation-ID: ID\r\n", ""},
		{"another correlation header", func(o *Options) { o.SessionHeader.Correlation = "X-Conversation" }, "/v1/completions", "", "X-Conversation: ID\r\n", "X-Session-Affinity: ID\r\n"},
		{"more session headers", func(o *Options) {
			o.SessionHeader.More = []string{"X-Session-ID", "x-session-affinity", "X-SMG-Routing-Key", "X-Dynamo-Session-ID"}
			o.Header = []wire.HeaderField{{Name: "x-session-id", Value: "mine"}, {Name: "X-Team", Value: "a"}, {Name: "X-CORRELATION-ID", Value: "theirs"}}
		}, "/v1/completions", "X-Team: a\r\nX-CORRELATION-ID: theirs\r\n", "", "X-Session-Affinity: ID\r\nX-Session-ID: ID\r\nX-SMG-Routing-Key: ID\r\nX-Dynamo-Session-ID: ID\r\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			raw := &rawRequests{}
			server := &http.Server{Handler: mock.New(mock.Config{})}
			defer server.Close()
			go server.Serve(rawListener{l, raw}) //nolint:errcheck // ends with the server
			o := optionsFor(t, c, "http://"+l.Addr().String())
			o.Requests, o.Concurrency = 1, 1
			test.change(&o)
			p := play(t, t.Context(), o)
			require.Equal(t, 1, p.Completed)
			r := p.records[0]
			raw.mu.Lock()
			defer raw.mu.Unlock()
			require.Len(t, raw.heads, 1)
			head, length, ok := strings.Cut(raw.heads[0], "Content-Length: ")
			require.True(t, ok)
			require.NotContains(t, length, "\r\n", "the last field")
			want := "POST " + test.path + " HTTP/1.1\r\nHost: " + l.Addr().String() + "\r\nUser-Agent: " + wire.DefaultUserAgent + "\r\n" + test.before +
				"X-Request-ID: " + r.RequestID + "\r\n" + test.names + "Accept: text/event-stream\r\nContent-Type: application/json\r\n" + test.after
			require.Equal(t, strings.ReplaceAll(want, ": ID\r\n", ": "+r.CorrelationID+"\r\n"), head)
		})
	}
}

// Requests of a child name their own session, and with Dynamo's header that of the parent, too.
//
// Covers T-40.
func TestSessionHeaders(t *testing.T) {
	var mu sync.Mutex
	headers := map[string]http.Header{}
	server := mock.New(mock.Config{})
	url, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		headers[r.Header.Get("X-Request-ID")] = r.Header.Clone()
		mu.Unlock()
		server.ServeHTTP(w, r)
	}))
	o := optionsFor(t, cachetest.Demo(t), url)
	o.SessionHeader = SessionHeader{Correlation: "X-Conversation", More: []string{"X-Session-ID", "x-dynamo-session-id"}}
	o.Header = []wire.HeaderField{{Name: "x-DYNAMO-session-ID", Value: "mine"}, {Name: "X-Dynamo-Parent-Session-Id", Value: "mine"}}
	p := play(t, t.Context(), o)
	children := 0
	for _, r := range p.records {
		h := headers[r.RequestID]
		for _, name := range []string{"X-Conversation", "X-Session-ID", "X-Dynamo-Session-ID", "X-Session-Affinity"} {
			require.Equal(t, []string{r.CorrelationID}, h.Values(name), name)
		}
		require.Empty(t, h.Values("X-Correlation-ID"))
		if r.ParentID != "" {
			children++
			require.Equal(t, []string{r.ParentID}, h.Values("X-Dynamo-Parent-Session-ID"))
			require.NotEqual(t, r.CorrelationID, r.ParentID)
		}
	}
	require.Positive(t, children)
	require.Less(t, children, len(p.records))
}

func TestSessionHeaderIsValidated(t *testing.T) {
	for want, h := range map[string]SessionHeader{
		"": {Correlation: "X-Session-ID", More: []string{"X-SMG-Routing-Key", "x-session-affinity"}},
		"correlation header x-request-id: that field has the id of the request": {Correlation: "x-request-id"},
		"header name \"a b\" has byte 0x20 at 1":                                {More: []string{"a b"}},
		"header field without a name":                                           {More: []string{""}},
		"header Content-Type is set by the client itself":                       {Correlation: "Content-Type"},
		"session header x-A: named twice":                                       {Correlation: "X-a", More: []string{"x-A"}},
		"session header X-Dynamo-Parent-Session-ID: it has the id of the parent: want X-Dynamo-Session-ID, which brings both": {More: []string{"x-dynamo-parent-session-id"}},
	} {
		if err := h.Validate(); want == "" {
			require.NoError(t, err)
		} else {
			require.EqualError(t, err, want)
		}
	}
}

// Nothing of an API key that a server echoes, in whatever shape, reaches a file of results.
//
// Covers T-90.
func TestEchoesOfTheKeyReachNoResults(t *testing.T) {
	const key = "sk-Proj-0123456789/abcdef"
	escaped := strings.NewReplacer("-", `\u002d`, "/", `\/`).Replace(key)
	echoes := []string{strings.ToUpper(key), escaped, base64.StdEncoding.EncodeToString([]byte("user:" + key)), key[:12] + "..."}
	var n atomic.Int64
	url, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, bufio.NewReader(r.Body))
		k := int(n.Add(1) - 1)
		text := fmt.Sprintf(`{"error":{"message":"no such key: %s"}}`, echoes[k%len(echoes)])
		if k >= len(echoes) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "data: %s\n\n", text)
			return
		}
		http.Error(w, text, http.StatusUnauthorized)
	}))
	o := optionsFor(t, cachetest.Demo(t), url)
	o.APIKey, o.Requests = key, 2*len(echoes)
	p := play(t, t.Context(), o)
	require.Len(t, p.records, o.Requests)
	for _, r := range p.records {
		require.Contains(t, r.Error.Message, "[API key]")
	}
	requireNoSecret(t, o.Out, append(echoes, "sk-Proj-0123", `sk\u002d`)...)
}

// A key of the Messages API is a secret in messages.
func TestMessagesKeyIsSecret(t *testing.T) {
	url, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, bufio.NewReader(r.Body))
		http.Error(w, "no such key: "+r.Header.Get("x-api-key"), http.StatusUnauthorized)
	}))
	o := optionsFor(t, cachetest.Demo(t), url)
	o.Endpoint, o.APIKey, o.Requests = payload.Messages, "sk-ant-123", 1
	p := play(t, t.Context(), o)
	require.Equal(t, &measure.Error{Category: wire.HTTPStatus, Code: 401, Message: "401 Unauthorized: no such key: [secret]"}, p.records[0].Error)
	o.SkipPreflight, o.Out = false, o.Out+"2"
	_, err := Run(t.Context(), o)
	var refused *PreflightError
	require.ErrorAs(t, err, &refused)
	require.NotContains(t, refused.Error(), "sk-ant-123")
	require.Contains(t, refused.Hint, "--header 'Authorization:Bearer KEY'")
}
