package mock

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// failure is what a client gets for a request.
type failure struct {
	err     error // of the request or of reading the body
	status  int   // 0 when no headers came
	kind    string
	body    string
	chunked bool
}

func ask(t *testing.T, url, body string) (f failure) {
	t.Helper()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		return failure{err: err}
	}
	defer func() { _ = response.Body.Close() }()
	data, err := io.ReadAll(response.Body)
	return failure{err, response.StatusCode, response.Header.Get("Content-Type"), string(data), response.ContentLength < 0}
}

const (
	streamed = `{"messages":[{"role":"user","content":"hello"}],"max_tokens":10,"stream":true,"stream_options":{"include_usage":true}}`
	whole    = `{"messages":[{"role":"user","content":"hello"}],"max_tokens":10}`
)

// isReset reports whether a request ended with a TCP reset.
func isReset(err error) bool { return errors.Is(err, syscall.ECONNRESET) }

func requireTokens(t *testing.T, n int, body string) {
	t.Helper()
	require.Equal(t, n, strings.Count(body, `"content":" `))
}

// requireComplete requires an answer with its end.
func requireComplete(t *testing.T, f failure, stream bool) {
	t.Helper()
	require.NoError(t, f.err)
	require.Equal(t, 200, f.status)
	require.Contains(t, f.body, `"finish_reason":"length"`)
	require.Equal(t, stream, strings.HasSuffix(f.body, "data: [DONE]\n\n"))
}

// requireBrokenOff requires half of an answer, without an end.
func requireBrokenOff(t *testing.T, f failure) {
	t.Helper()
	require.Equal(t, 200, f.status)
	require.True(t, f.chunked)
	for _, end := range []string{"[DONE]", "length", "usage"} {
		require.NotContains(t, f.body, end)
	}
	if f.kind == "text/event-stream" {
		requireTokens(t, 5, f.body)
	} else {
		require.Contains(t, f.body, " the of")
	}
}

// faultChecks has for each kind what a client must see, streamed or not.
var faultChecks = map[string]func(t *testing.T, f failure, stream bool){
	"refuse": func(t *testing.T, f failure, _ bool) {
		require.Error(t, f.err)
		require.Zero(t, f.status)
	},
	"reset": func(t *testing.T, f failure, _ bool) {
		require.True(t, isReset(f.err), f.err)
		require.Zero(t, f.status)
	},
	"status=503": func(t *testing.T, f failure, _ bool) {
		require.NoError(t, f.err)
		require.Equal(t, 503, f.status)
		require.Equal(t, "application/json", f.kind)
		require.JSONEq(t, `{"error":{"message":"this fault was asked for","type":"server_error","param":null,"code":null}}`, f.body)
	},
	"status-plain=429": func(t *testing.T, f failure, _ bool) {
		require.NoError(t, f.err)
		require.Equal(t, 429, f.status)
		require.Equal(t, "Too Many Requests: this fault was asked for\n", f.body)
	},
	"overflow": func(t *testing.T, f failure, _ bool) {
		require.Equal(t, 400, f.status)
		require.JSONEq(t, `{"error":{"message":"This model's maximum context length is 0 tokens. However, your prompt has 1 tokens.",
			"type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`, f.body)
	},
	"empty": func(t *testing.T, f failure, stream bool) {
		require.NoError(t, f.err)
		require.Equal(t, 200, f.status)
		require.Contains(t, f.body, `"completion_tokens":0`)
		require.Contains(t, f.body, `"finish_reason":"length"`)
		require.Equal(t, stream, strings.HasSuffix(f.body, "data: [DONE]\n\n"))
		requireTokens(t, 0, f.body)
	},
	"not-json": func(t *testing.T, f failure, _ bool) {
		require.NoError(t, f.err)
		require.Equal(t, 200, f.status)
		require.Equal(t, "text/html; charset=utf-8", f.kind)
		require.Contains(t, f.body, "<!DOCTYPE html>")
	},
	"garbage": func(t *testing.T, f failure, stream bool) {
		require.NoError(t, f.err)
		require.Equal(t, 200, f.status)
		require.Contains(t, f.body, "\xff")
		require.NotContains(t, f.body, "[DONE]")
		require.Equal(t, stream, f.kind == "text/event-stream")
	},
	"reset-mid": func(t *testing.T, f failure, _ bool) {
		require.Equal(t, 200, f.status)
		require.True(t, isReset(f.err), f.err)
	},
	"cut": func(t *testing.T, f failure, _ bool) {
		require.NoError(t, f.err)
		requireBrokenOff(t, f)
	},
	"cut-chunk": func(t *testing.T, f failure, _ bool) {
		require.ErrorIs(t, f.err, io.ErrUnexpectedEOF)
		require.True(t, strings.HasSuffix(f.body, `data: {"id":"`))
		requireBrokenOff(t, f)
	},
	"error-event": func(t *testing.T, f failure, stream bool) {
		require.NoError(t, f.err)
		require.Equal(t, 200, f.status)
		if stream {
			requireTokens(t, 5, f.body)
			require.True(t, strings.HasSuffix(f.body,
				"\n\nevent: error\n: this fault was asked for\ndata: {\"message\":\"this fault was asked for\"}\n\n"), f.body)
		} else {
			require.True(t, strings.HasPrefix(f.body, `{"error":{`), f.body)
		}
	},
	"error-payload": func(t *testing.T, f failure, stream bool) {
		require.NoError(t, f.err)
		require.Equal(t, 200, f.status)
		const object = `{"error":{"message":"this fault was asked for","type":"server_error","param":null,"code":null}}`
		if stream {
			requireTokens(t, 5, f.body)
			require.True(t, strings.HasSuffix(f.body, "\n\ndata: "+object+"\n\ndata: [DONE]\n\n"), f.body)
		} else {
			require.Equal(t, object, f.body)
		}
	},
	"trickle": func(t *testing.T, f failure, stream bool) {
		require.NoError(t, f.err)
		require.True(t, f.chunked)
		requireComplete(t, f, stream)
		require.Contains(t, f.body, `"completion_tokens":10`)
	},
	"half-events": func(t *testing.T, f failure, stream bool) {
		require.NoError(t, f.err)
		require.Equal(t, 200, f.status)
		if stream {
			requireComplete(t, f, stream)
			require.Len(t, strings.Split(f.body, "\n\n"), 15)
			require.Equal(t, 10, strings.Count(f.body, "}\n\n"), "three of 13 are cut")
		} else {
			require.False(t, strings.HasSuffix(f.body, "}"))
		}
	},
	"wrong-counts": func(t *testing.T, f failure, stream bool) {
		requireComplete(t, f, stream)
		require.Contains(t, f.body, `"completion_tokens":100`)
	},
	"odd-counts": func(t *testing.T, f failure, stream bool) {
		requireComplete(t, f, stream)
		require.Contains(t, f.body, `"usage":{"prompt_tokens":-1,"completion_tokens":1.5}`)
		require.Equal(t, stream, strings.Contains(f.body, `"usage":{"prompt_tokens":NaN,"completion_tokens":Infinity}`))
	},
	"usage-twice": func(t *testing.T, f failure, stream bool) {
		requireComplete(t, f, stream)
		require.Contains(t, f.body, `"usage":{"prompt_tokens":1,"completion_tokens":1}`)
		require.Greater(t, strings.LastIndex(f.body, `"completion_tokens":10`), strings.Index(f.body, `"completion_tokens":1}`))
	},
	// TestWaitsEndWithTheRequest tests the two that wait for the client, TestEndlessFaults those that do not end.
	"flood":     nil,
	"comments":  nil,
	"stall":     nil,
	"stall-mid": nil,
}

func TestFaults(t *testing.T) {
	for _, k := range FaultKinds {
		name := k.Name
		name = strings.Replace(name, "status=NNN", "status=503", 1)
		name = strings.Replace(name, "status-plain=NNN", "status-plain=429", 1)
		check, known := faultChecks[name]
		require.True(t, known, "no check for %s", name)
		if check == nil {
			continue
		}
		fault, err := ParseFault(name + ":1")
		require.NoError(t, err)
		s := New(Config{Faults: []Fault{fault}})
		url := start(t, s) + "/v1/chat/completions"
		t.Run(name, func(t *testing.T) {
			check(t, ask(t, url, streamed), true)
			check(t, ask(t, url, whole), false)
			require.Equal(t, map[string]int64{name: 2}, s.Stats().Faults)
		})
	}
}

func TestEndlessFaults(t *testing.T) {
	for _, c := range []struct{ kind, body, contains string }{
		{"stall", streamed, ""},
		{"stall", whole, ""},
		{"stall-mid", streamed, ` in"`},
		{"stall-mid", whole, `" the of`},
		{"flood", streamed, ` that"`},
		{"flood", whole, " the the the"},
		{"comments", streamed, ": keep-alive\n\n: keep-alive\n\n"},
		{"comments", whole, "   "},
	} {
		url := start(t, New(Config{Faults: []Fault{{c.kind, 1}}}))
		ctx, leave := context.WithCancel(t.Context())
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", strings.NewReader(c.body))
		require.NoError(t, err)
		transport := &http.Transport{}
		response, err := transport.RoundTrip(r)
		require.NoError(t, err)
		require.Equal(t, 200, response.StatusCode)
		var got string
		for b := make([]byte, 1000); !strings.Contains(got, c.contains); {
			n, err := response.Body.Read(b)
			require.NoError(t, err, got)
			got += string(b[:n])
		}
		leave()
		_, err = io.ReadAll(response.Body)
		require.ErrorIs(t, err, context.Canceled)
		_ = response.Body.Close()
	}
}

func TestFaultsAbortWithoutAHijackableConnection(t *testing.T) {
	s := New(Config{Faults: []Fault{{"reset", 1}}})
	require.PanicsWithValue(t, http.ErrAbortHandler, func() { serve(s, post("/v1/chat/completions", whole)) })
}

func TestValidateNamesTheFieldOfConfig(t *testing.T) {
	require.NoError(t, Config{}.Validate())
	for want, c := range map[string]Config{
		`ttft -1s: want 0 or more`:                                 {TTFT: -time.Second},
		`itl -1ms: want 0 or more`:                                 {ITL: -time.Millisecond},
		`tokens per second NaN: want 0 (no limit) or more`:         {TokensPerSecond: math.NaN()},
		`tokens per second -1: want 0 (no limit) or more`:          {TokensPerSecond: -1},
		`fault "nonsense": no fault is called "nonsense"`:          {Faults: []Fault{{"cut", 1}, {"nonsense", 1}}},
		`fault "cut": want a rate from 0 to 1, not "1.5"`:          {Faults: []Fault{{"cut", 1.5}}},
		`fault "status=7": want a status from 400 to 599, not "7"`: {Faults: []Fault{{"status=7", 1}}},
	} {
		require.EqualError(t, c.Validate(), want)
		require.PanicsWithValue(t, "mock: "+want, func() { New(c) })
	}
}

func TestParseFault(t *testing.T) {
	f, err := ParseFault("status=503:0.25")
	require.NoError(t, err)
	require.Equal(t, Fault{"status=503", 0.25}, f)
	for text, want := range map[string]string{
		"reset":           `fault "reset": want KIND:RATE, such as reset:0.1`,
		"reset:":          `fault "reset:": want a rate from 0 to 1, not ""`,
		"reset:1.5":       `fault "reset:1.5": want a rate from 0 to 1, not "1.5"`,
		"reset:-1":        `fault "reset:-1": want a rate from 0 to 1, not "-1"`,
		"reset:NaN":       `fault "reset:NaN": want a rate from 0 to 1, not "NaN"`,
		"reset=5:1":       `fault "reset=5:1": no fault is called "reset=5"`,
		"what:1":          `fault "what:1": no fault is called "what"`,
		"status:1":        `fault "status:1": no fault is called "status"`,
		"status=x:1":      `fault "status=x:1": want a status from 400 to 599, not "x"`,
		"status=200:0.1":  `fault "status=200:0.1": want a status from 400 to 599, not "200"`,
		"status=NNN:0.1":  `fault "status=NNN:0.1": want a status from 400 to 599, not "NNN"`,
		"status-plain:.1": `fault "status-plain:.1": no fault is called "status-plain"`,
	} {
		_, err := ParseFault(text)
		require.EqualError(t, err, want)
	}
}

func TestFaultsDependOnSeedAndNumberAlone(t *testing.T) {
	faults := []Fault{{"reset", 0.1}, {"cut", 0.3}}
	draw := func(seed int64) (drawn []string, counts map[string]int) {
		plan := planFaults(faults, seed)
		counts = map[string]int{}
		for k := range uint64(10_000) {
			f := plan.of(k)
			drawn = append(drawn, f.name)
			counts[f.name]++
		}
		return drawn, counts
	}
	first, counts := draw(1)
	again, _ := draw(1)
	other, _ := draw(2)
	require.Equal(t, first, again)
	require.NotEqual(t, first, other)
	require.InDelta(t, 1000, counts["reset"], 100)
	require.InDelta(t, 3000, counts["cut"], 150)
	// Pinned, so that later versions repeat a run.
	require.Equal(t, []string{"", "", "reset", "", "cut", "", "", "", "reset", "cut"}, first[:10])

	plan := planFaults([]Fault{{"reset", 1}, {"cut", 1}}, 1)
	for k := range uint64(100) {
		require.Equal(t, "reset", plan.of(k).name, "the second starves")
	}
	plan = planFaults([]Fault{{"reset", 0}}, 1)
	for k := range uint64(100) {
		require.Equal(t, "", plan.of(k).name)
	}
}
