package replay

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/cachetest"
	"github.com/agentx/agentx/mock"
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
		"correlation header x-request-id: agentx writes the id of the request there: choose another name":                               {Correlation: "x-request-id"},
		"header name \"a b\" has byte 0x20 at 1: want letters, digits and marks such as - and _":                                        {More: []string{"a b"}},
		"header field without a name: give one":                                                                                         {More: []string{""}},
		"header Content-Type is set by the client itself":                                                                               {Correlation: "Content-Type"},
		"session header x-A: named twice":                                                                                               {Correlation: "X-a", More: []string{"x-A"}},
		"session header X-Dynamo-Parent-Session-ID: agentx writes the id of the parent there: use X-Dynamo-Session-ID, which sets both": {More: []string{"x-dynamo-parent-session-id"}},
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

// What is said of certificates reaches the connections, or is an error that names the file.
//
// Covers T-141.
func TestTLSOptions(t *testing.T) {
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	dir := t.TempDir()
	file := filepath.Join(dir, "ca.pem")
	require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600))
	empty := filepath.Join(dir, "empty.pem")
	require.NoError(t, os.WriteFile(empty, []byte("no"), 0o600))

	for want, o := range map[string]TLS{
		"contradicts insecure, which checks no certificate: leave one of them out":       {CAFile: file, Insecure: true},
		"open " + dir + "/none: no such file or directory":                               {CAFile: dir + "/none"},
		empty + ": no certificate in PEM, which begins with -----BEGIN CERTIFICATE-----": {CAFile: empty},
	} {
		require.EqualError(t, o.Validate(), want)
	}
	ask := func(o TLS) *wire.Failure {
		require.NoError(t, o.Validate())
		options := &Options{TLS: o}
		c, err := wire.New(s.URL, options.clientOptions())
		require.NoError(t, err)
		defer c.Close()
		_, f := c.Get(t.Context(), "/")
		return f
	}
	require.Contains(t, ask(TLS{}).Message, "--ca-file FILE")
	require.Equal(t, 404, ask(TLS{CAFile: file}).Code)
	require.Equal(t, 404, ask(TLS{Insecure: true}).Code)
	require.Contains(t, ask(TLS{CAFile: file, ServerName: "other.test"}).Message, "--server-name NAME")
	require.Equal(t, 404, ask(TLS{CAFile: file, ServerName: "example.com"}).Code)
}

// A header that the jar of a tree sends is not sent twice.
//
// Covers T-142.
func TestCookiesAreNotSentTwice(t *testing.T) {
	header := []wire.HeaderField{{Name: "cookie", Value: "a=b"}}
	require.NoError(t, Options{Header: header}.validateCookies())
	require.EqualError(t, Options{Header: header, KeepCookies: true}.validateCookies(), "header cookie and keep-cookies, which sends the cookies that the server set, contradict each other: leave one of them out")
	require.Error(t, Options{Header: []wire.HeaderField{{Name: "X-Session-Token"}}, KeepCookies: true}.validateCookies())
}

// Under the presets that imitate AIPerf, answers are read as it reads them.
//
// Covers T-121.
func TestAnswerFormsOfPresets(t *testing.T) {
	for _, name := range preset.Names {
		o := Options{Preset: name}
		require.Equal(t, name != preset.Default, o.clientOptions().AIPerfForms, name)
	}
	s, _ := preset.Named(preset.AIPerf)
	s.AIPerfForms = false
	require.False(t, (&Options{Preset: preset.AIPerf, Switches: &s}).clientOptions().AIPerfForms)
}

// The Messages API and a chat report the same prompts and answers of a run; the Messages API also what its cache took. A text prompt
// has a newline more for each message.
//
// Covers T-40.
func TestMessagesAreAnsweredLikeChats(t *testing.T) {
	c := cachetest.Demo(t)
	counts := func(endpoint payload.Endpoint, parts bool) played {
		_, url := mocked(t, mock.Config{})
		o := optionsFor(t, c, url)
		o.Endpoint, o.Parts, o.SkipPreflight, o.Concurrency = endpoint, parts, false, 1
		p := play(t, t.Context(), o)
		require.Empty(t, p.Errors)
		require.Empty(t, p.Preflight.Error)
		require.NotNil(t, p.Preflight.PromptTokens, "the probe is answered with usage")
		require.Equal(t, p.Requests, p.Completed)
		slices.SortFunc(p.records, func(a, b measure.Record) int {
			return cmp.Or(cmp.Compare(a.Session, b.Session), cmp.Compare(a.Turn, b.Turn))
		})
		return p
	}
	chat := counts(payload.ChatCompletions, false)
	for _, parts := range []bool{false, true} {
		messages, cached, written := counts(payload.Messages, parts), int64(0), int64(0)
		require.Equal(t, len(chat.records), len(messages.records))
		for k, r := range messages.records {
			of := chat.records[k]
			require.Equal(t, []any{of.Session, of.Turn, of.PromptTokens, of.OutputTokens, of.Chunks}, []any{r.Session, r.Turn, r.PromptTokens, r.OutputTokens, r.Chunks})
			require.Equal(t, "max_tokens", r.FinishReason)
			require.LessOrEqual(t, r.CachedTokens.N()+r.CacheWriteTokens.N(), r.PromptTokens.N())
			cached, written = cached+r.CachedTokens.N(), written+r.CacheWriteTokens.N()
		}
		require.Positive(t, cached)
		require.Positive(t, written)
	}
	for k, r := range counts(payload.TextCompletions, false).records {
		require.Equal(t, chat.records[k].OutputTokens, r.OutputTokens)
		require.InDelta(t, chat.records[k].PromptTokens.N(), r.PromptTokens.N(), 40)
	}
}

// Every fault of the mock has the category under the Messages API that it has in a chat.
//
// Covers T-40.
func TestFaultsOfMessages(t *testing.T) {
	c := cachetest.Demo(t)
	for kind, want := range map[string]wire.Category{
		"refuse": wire.Connection, "reset": wire.Connection, "status=500": wire.HTTPStatus, "status=529": wire.Overload, "status-plain=429": wire.HTTPStatus,
		"overflow": wire.ContextOverflow, "empty": wire.NoContent, "garbage": wire.StreamTruncated, "reset-mid": wire.Connection, "cut": wire.StreamTruncated,
		"cut-chunk": wire.Connection, "error-event": wire.StreamEvent, "error-payload": wire.StreamPayload,
	} {
		for _, endpoint := range []payload.Endpoint{payload.Messages, payload.ChatCompletions} {
			_, url := mocked(t, mock.Config{Faults: []mock.Fault{{Kind: kind, Rate: 1}}})
			o := optionsFor(t, c, url)
			o.Endpoint, o.Requests, o.Concurrency = endpoint, 1, 1
			p := play(t, t.Context(), o)
			require.NotNil(t, p.records[0].Error, kind)
			require.Equal(t, want, p.records[0].Error.Category, "%s of %s: %s", kind, endpoint.Path(), p.records[0].Error.Message)
		}
	}
	lenient, _ := preset.Named("aiperf-0.13")
	for kind, completed := range map[string]int{"error-payload": 1, "cut": 1, "error-event": 0, "empty": 0} {
		_, url := mocked(t, mock.Config{Faults: []mock.Fault{{Kind: kind, Rate: 1}}})
		o := optionsFor(t, c, url)
		o.Endpoint, o.Requests, o.Concurrency, o.Switches = payload.Messages, 1, 1, &lenient
		require.Equal(t, completed, play(t, t.Context(), o).Completed, kind)
	}
}

// claude is a server of the Messages API that is as strict as Anthropic's.
type claude struct {
	t      *testing.T
	server *mock.Server
	mu     sync.Mutex
	bodies []map[string]json.RawMessage
}

func (s *claude) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	fail := func(status int, kind, message string) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(map[string]any{"type": "error", "error": map[string]string{"type": kind, "message": message}})
	}
	switch {
	case r.Header.Get("x-api-key") != "sk-1" || r.Header.Get("Authorization") != "":
		fail(401, "authentication_error", "x-api-key header is required")
		return
	case r.Header.Get("anthropic-version") == "":
		fail(400, "invalid_request_error", "anthropic-version: header is required")
		return
	}
	if r.URL.Path == "/v1/messages" {
		data, _ := io.ReadAll(r.Body)
		body := map[string]json.RawMessage{}
		if err := json.Unmarshal(data, &body); err != nil {
			s.t.Error(err)
		}
		s.mu.Lock()
		s.bodies = append(s.bodies, body)
		s.mu.Unlock()
		for name := range body {
			if !strings.Contains(" model system messages max_tokens stream metadata ", " "+name+" ") {
				fail(400, "invalid_request_error", name+": Extra inputs are not permitted")
				return
			}
		}
		r.Body = io.NopCloser(bytes.NewReader(data))
	}
	s.server.ServeHTTP(w, r)
}

// A run against a strict server: the preflight says what it does not take, and without that all is well.
func TestPreflightOfMessages(t *testing.T) {
	c := cachetest.Demo(t)
	for _, test := range []struct {
		name     string
		change   func(o *Options)
		why, try string
	}{
		{"a field", func(*Options) {}, "400: the server does not take the field ignore_eos: ignore_eos: Extra inputs are not permitted", "--no-ignore-eos"},
		{"a field of the user", func(o *Options) {
			o.Fields = payload.Fields{OmitIgnoreEOS: true, Extra: json.RawMessage(`{"top_k":1}`)}
		},
			"the field top_k:", "--extra-body without top_k"},
		{"no key", func(o *Options) { o.APIKey = "" }, "401: x-api-key header is required", "--header 'Authorization:Bearer KEY'"},
		{"all is well", func(o *Options) {
			o.Fields = payload.Fields{OmitIgnoreEOS: true, Extra: json.RawMessage(`{"metadata":{}}`)}
		}, "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := &claude{t: t, server: mock.New(mock.Config{})}
			url, _ := serve(t, s)
			o := optionsFor(t, c, url+"/v1/messages")
			o.Endpoint, o.SkipPreflight, o.Requests, o.APIKey = payload.Messages, false, 3, "sk-1"
			o.Readiness = Readiness{Timeout: time.Minute, Mode: ReadyByModels}
			o.Model = "mock"
			if test.name == "no key" {
				o.Readiness = Readiness{}
			}
			test.change(&o)
			if test.why == "" {
				require.Equal(t, 3, play(t, t.Context(), o).Completed)
				require.Len(t, s.bodies, 4)
				require.Equal(t, "1", string(s.bodies[0]["max_tokens"]), "the probe")
				return
			}
			_, err := Run(t.Context(), o)
			var refused *PreflightError
			require.ErrorAs(t, err, &refused)
			require.Contains(t, refused.Reason, test.why)
			require.Contains(t, refused.Hint, test.try)
		})
	}
}

// A server without the Messages API is told as such, and the model is waited for with requests of that API.
func TestReadinessOfMessages(t *testing.T) {
	c := cachetest.Demo(t)
	url, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/messages" {
			http.NotFound(w, r)
			return
		}
		mock.New(mock.Config{}).ServeHTTP(w, r)
	}))
	o := optionsFor(t, c, url)
	o.Endpoint, o.SkipPreflight, o.Model = payload.Messages, false, "mock"
	_, err := Run(t.Context(), o)
	var refused *PreflightError
	require.ErrorAs(t, err, &refused)
	require.Contains(t, refused.Reason, "404: POST "+url+"/v1/messages")
	require.Contains(t, refused.Hint, "--payload chat, where the server has no Messages API; else correct --url: ")

	_, url = mocked(t, mock.Config{})
	o = optionsFor(t, c, url)
	o.Endpoint, o.Model, o.Requests = payload.Messages, "mock", 1
	o.Readiness = Readiness{Timeout: time.Minute, Mode: ReadyByBoth}
	p := play(t, t.Context(), o)
	require.Equal(t, 1, p.Completed)
}
