package replay

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/cachetest"
	"github.com/agentx/agentx/internal/mock"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/payload"
	"github.com/agentx/agentx/replay/preset"
	"github.com/agentx/agentx/replay/wire"
)

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
