package replay

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/cachetest"
	"github.com/agentx/agentx/mock"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/payload"
	"github.com/agentx/agentx/replay/wire"
)

// strict is a server with one model that refuses unknown fields, and keeps the bodies that it received.
type strict struct {
	server *mock.Server
	model  string // "": any, and it lists none
	key    string // "": it wants none
	fields []string
	silent bool // it does not say which field it does not know
	tells  bool // the models are listed to everybody

	mu     sync.Mutex
	bodies []map[string]json.RawMessage
	raw    []string
	marks  []string // correlation ids
}

func (s *strict) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	data, _ := io.ReadAll(r.Body) // half a body is refused below
	switch {
	case s.key != "" && r.Header.Get("Authorization") != "Bearer "+s.key && !(s.tells && r.Method == "GET"):
		http.Error(w, `{"error":{"message":"Incorrect API key provided: `+r.Header.Get("Authorization")+`"}}`, http.StatusUnauthorized)
	case r.Method == "GET" && s.model == "":
		http.NotFound(w, r)
	case r.Method == "GET":
		fmt.Fprintf(w, `{"data":[{"id":%q},{"id":"other"}]}`, s.model)
	default:
		s.post(w, r, data)
	}
}

func (s *strict) post(w http.ResponseWriter, r *http.Request, data []byte) {
	var body map[string]json.RawMessage
	if json.Unmarshal(data, &body) != nil {
		http.Error(w, "no JSON", 400)
		return
	}
	s.mu.Lock()
	s.bodies, s.raw, s.marks = append(s.bodies, body), append(s.raw, string(data)), append(s.marks, r.Header.Get("X-Correlation-ID"))
	s.mu.Unlock()
	for name := range body {
		if s.fields != nil && !strings.Contains(" messages prompt model stream "+strings.Join(s.fields, " ")+" ", " "+name+" ") {
			if s.silent {
				name = "something"
			}
			http.Error(w, `{"error":{"message":"Extra inputs are not permitted: `+name+`"}}`, 400)
			return
		}
	}
	if model := string(body["model"]); s.model != "" && model != `"`+s.model+`"` {
		http.Error(w, `{"object":"error","message":"The model `+"`m`"+` does not exist.","code":404}`, 404)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(data))
	s.server.ServeHTTP(w, r)
}

func TestPreflight(t *testing.T) {
	c := cachetest.Demo(t)
	all := []string{"stream_options", "ignore_eos", "max_tokens", "max_completion_tokens"}
	for name, test := range map[string]struct {
		server   *strict
		endpoint payload.Endpoint
		why, try string // "": it passes
	}{
		"no list":                     {server: &strict{}},
		"served":                      {server: &strict{model: "some/model"}},
		"not served":                  {server: &strict{model: "tiny"}, why: `404: model "some/model" is not served here: it has "tiny", "other"`, try: "--model tiny"},
		"no key":                      {server: &strict{key: "secret"}, why: "401: Incorrect API key provided:", try: "--api-key-env"},
		"no key, but a list":          {server: &strict{model: "some/model", key: "secret", tells: true}, why: "401: Incorrect", try: "--api-key-env"},
		"a field it does not know":    {server: &strict{fields: []string{"stream_options", "max_completion_tokens"}}, why: "does not take the field ignore_eos", try: "--no-ignore-eos"},
		"a field it does not tell of": {server: &strict{fields: []string{"ignore_eos", "max_completion_tokens"}, silent: true}, why: "does not take the field stream_options", try: "--no-stream-options"},
		"fields it does not tell of":  {server: &strict{fields: []string{"max_tokens"}, silent: true}, endpoint: payload.Completions, why: "the fields ignore_eos, stream_options:", try: "--no-ignore-eos --no-stream-options"},
		"the name of the limit":       {server: &strict{fields: []string{"max_tokens", "ignore_eos", "stream_options"}}, why: "the field max_completion_tokens", try: "--max-tokens-field max_tokens"},
		"ids":                         {server: &strict{fields: all}, endpoint: payload.Completions},
	} {
		t.Run(name, func(t *testing.T) {
			s := test.server
			s.server = mock.New(mock.Config{})
			url, _ := serve(t, s)
			o := optionsFor(t, c, url)
			o.Endpoint, o.SkipPreflight, o.Requests, o.Concurrency = test.endpoint, false, 3, 1
			if test.why == "" {
				p := play(t, context.Background(), o)
				require.Equal(t, 3, p.Completed)
				require.Empty(t, p.Preflight.Error)
				requireLikeTheRun(t, s)
				return
			}
			summary, err := Run(context.Background(), o)
			var refused *PreflightError
			require.ErrorAs(t, err, &refused)
			require.Contains(t, refused.Reason, url+": ")
			require.Contains(t, refused.Reason, test.why)
			require.Contains(t, refused.Hint, test.try)
			require.Zero(t, summary.Requests)
			require.Equal(t, refused.Reason, summary.Preflight.Error)
			require.NoDirExists(t, o.Out)
		})
	}
}

// requireLikeTheRun checks the first body that a server received: it has the fields of the others in the same order, asks
// for one token, and has no marker.
func requireLikeTheRun(t *testing.T, s *strict) {
	require.Len(t, s.bodies, 4)
	require.Empty(t, s.marks[0])
	require.NotEmpty(t, s.marks[1])
	order := func(raw string) (list []string) {
		d := json.NewDecoder(strings.NewReader(raw))
		for depth := 0; ; {
			token, err := d.Token()
			if err == io.EOF {
				return list
			}
			require.NoError(t, err)
			switch v := token.(type) {
			case json.Delim:
				depth += map[json.Delim]int{'{': 1, '[': 1, '}': -1, ']': -1}[v]
			case string:
				if depth == 1 {
					list = append(list, v)
				}
			}
		}
	}
	require.Equal(t, order(s.raw[1]), order(s.raw[0]))
	limit := s.bodies[0]["max_completion_tokens"]
	if limit == nil {
		limit = s.bodies[0]["max_tokens"]
	}
	require.Equal(t, "1", string(limit))
	require.NotContains(t, s.raw[0], "[rid:")
}

// The tokens that a server counts beside those of the probe are its chat template.
func TestPreflightMeasuresTheTemplate(t *testing.T) {
	c := cachetest.Demo(t)
	_, url := mocked(t, mock.Config{CountTokens: func(text []byte) int { return 100 }})
	for endpoint, want := range map[payload.Endpoint]int64{payload.ChatCompletions: 100 - probeTokens, payload.Completions: 0} {
		o := optionsFor(t, c, url)
		o.Endpoint, o.SkipPreflight, o.Requests = endpoint, false, 5
		p := play(t, context.Background(), o)
		require.EqualValues(t, probeTokens, *p.Preflight.SentTokens)
		require.Equal(t, want, *p.Preflight.TemplateTokens)
		require.Equal(t, []string{"mock"}, p.Preflight.Models)
		require.Len(t, p.records, 5, "the look is in no record")
	}
}

func TestPreflightOfAServerThatCannotBeReached(t *testing.T) {
	c := cachetest.Demo(t)
	secure := httptest.NewUnstartedServer(mock.New(mock.Config{}))
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	for url, want := range map[string][2]string{
		unreachable:                         {unreachable + ": dial tcp 127.0.0.1:1: connect: connection refused", "start the server"},
		secure.URL:                          {"certificate", "SSL_CERT_FILE"},
		unreachable + "/v1?key=very-secret": {unreachable + "/v1: dial", "start the server"},
	} {
		o := optionsFor(t, c, url)
		o.SkipPreflight = false
		summary, err := Run(context.Background(), o)
		var refused *PreflightError
		require.ErrorAs(t, err, &refused)
		require.Contains(t, refused.Reason, want[0])
		require.Contains(t, refused.Hint, want[1])
		require.NotContains(t, err.Error(), "very-secret")
		require.Empty(t, summary.Errors)
		require.NoDirExists(t, o.Out)
		var printed strings.Builder
		require.NoError(t, summary.WriteJSON(&printed))
		require.NotContains(t, printed.String(), "very-secret")
	}
}

// A run that the preflight refused leaves no directory, and can be repeated with the same one.
func TestResultsOfARefusedRunAreReplaced(t *testing.T) {
	_, url := mocked(t, mock.Config{})
	o := optionsFor(t, cachetest.Demo(t), "http://127.0.0.1:1")
	o.SkipPreflight, o.Requests = false, 3
	for range 2 {
		var refused *PreflightError
		_, err := Run(context.Background(), o)
		require.ErrorAs(t, err, &refused)
	}
	o.URLs = []string{url}
	play(t, context.Background(), o)
	_, err := Run(context.Background(), o)
	require.ErrorIs(t, err, ErrResultsExist)
}

// An interrupt during the preflight writes no results.
func TestPreflightIsInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	url, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	}))
	o := optionsFor(t, cachetest.Demo(t), url)
	o.SkipPreflight = false
	_, err := Run(ctx, o)
	require.ErrorIs(t, err, context.Canceled)
	require.NoDirExists(t, o.Out)
}

func TestMessageOfAFailure(t *testing.T) {
	for text, want := range map[string]string{
		`404 Not Found: {"error":{"message":"no\nsuch"}}`: "no such",
		`404 Not Found: {"error":"plain"}`:                "plain",
		`404 Not Found: {"detail":"Not Found"}`:           "Not Found",
		`422 X: {"detail":[{"msg":"m"}]}`:                 `422 X: {"detail":[{"msg":"m"}]}`,
		`502 Bad Gateway: <html>`:                         "502 Bad Gateway: <html>",
	} {
		require.Equal(t, want, messageOf(&wire.Failure{Category: wire.HTTPStatus, Message: text, Code: 404}))
	}
	require.Len(t, messageOf(&wire.Failure{Message: strings.Repeat("x", 5000)}), maxMessage+3)
}

// An answer that cannot have content, or is no answer of the API, is refused. An answer whose one token is invisible passes.
func TestPreflightOfAnswersWithoutContent(t *testing.T) {
	c := cachetest.Demo(t)
	for name, test := range map[string]struct {
		media, encoding, body string
		status                int
		why                   string // "": it passes
	}{
		"no body":      {status: 204, why: "204: POST /v1/completions: status 204: an answer without a body"},
		"compressed":   {status: 200, media: "text/event-stream", encoding: "gzip", body: "x", why: "compressed"},
		"a page":       {status: 200, media: "text/html", body: "<html>Gateway</html>", why: "the response had no content: <html>Gateway"},
		"no token":     {status: 200, media: "text/event-stream", body: "data: [DONE]\n\n"},
		"no stream":    {status: 200, media: "application/json", body: `{"choices":[{"message":{"content":""},"finish_reason":"length"}]}`},
		"context full": {status: 400, media: "application/json", body: `{"error":{"message":"the context is full"}}`, why: "400: POST /v1/completions: the context is full"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == "GET" {
					fmt.Fprint(w, `{"data":[{"id":"other"}]}`)
					return
				}
				w.Header().Set("Content-Type", test.media)
				if test.encoding != "" {
					w.Header().Set("Content-Encoding", test.encoding)
				}
				w.WriteHeader(test.status)
				fmt.Fprint(w, test.body)
			}))
			defer server.Close()
			_, err := look(t, optionsFor(t, c, server.URL))
			if test.why == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, test.why)
			}
		})
	}
}

// The model of the run is looked up among all models, and the results name some of them.
func TestPreflightOfManyModels(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "GET" {
			fmt.Fprint(w, `{"data":[`+strings.Repeat(`{"id":"other"},`, 1000)+`{"id":"some/model"}]}`)
			return
		}
		http.Error(w, "no model", 404)
	}))
	defer server.Close()
	found, err := look(t, optionsFor(t, cachetest.Demo(t), server.URL))
	require.ErrorContains(t, err, "404: POST /v1/completions:")
	require.Len(t, found.Models, maxModels)
}

// A server that closes the connection when it is asked for its models passes.
func TestPreflightWhereTheListBreaks(t *testing.T) {
	server := mock.New(mock.Config{})
	url, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			panic(http.ErrAbortHandler)
		}
		server.ServeHTTP(w, r)
	}))
	o := optionsFor(t, cachetest.Demo(t), url)
	o.SkipPreflight, o.Requests = false, 3
	require.Equal(t, 3, play(t, t.Context(), o).Completed)
}

// MaxContext includes the chat template that the preflight measured.
func TestTemplateIsPartOfTheContext(t *testing.T) {
	c := threeTraces(t) // they need 130, 66 and 258 tokens
	for added, want := range map[int][]string{0: {"a", "b"}, 10: {"a", "b"}, 11: {"b"}} {
		url, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var body struct {
				Prompt []uint32 `json:"prompt"`
				Output int      `json:"max_tokens"`
			}
			if json.NewDecoder(r.Body).Decode(&body) != nil { // the list of models
				http.NotFound(w, r)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"choices":[{"index":0,"text":"x","finish_reason":"length"}],"usage":{"prompt_tokens":%d,"completion_tokens":%d}}`,
				len(body.Prompt)+added, body.Output)
		}))
		o := optionsFor(t, c, url)
		o.SkipPreflight, o.MaxContext, o.Concurrency = false, 140, 1
		var got []string
		for _, r := range play(t, context.Background(), o).records {
			got = append(got, r.Trace)
		}
		require.Equal(t, want, got, "%d tokens are added", added)
	}
}

// look runs the preflight alone.
func look(t *testing.T, o Options) (measure.Preflight, error) {
	e, _, err := payload.NewEncoder(o.Cache, payload.Options{Endpoint: o.Endpoint, Model: o.Model, Marker: o.Marker})
	require.NoError(t, err)
	return runPreflight(t.Context(), o, e)
}

// A server that speaks TLS where it was asked without, or the reverse, is told with the URL that was meant.
func TestPreflightTellsTLSFromNone(t *testing.T) {
	server := mock.New(mock.Config{})
	plain, _ := serve(t, server)
	secure := httptest.NewTLSServer(server)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	defer secure.Close()
	for _, test := range []struct{ url, why, try string }{
		{strings.Replace(plain, "http:", "https:", 1), ": it does not speak TLS: ", "--url " + plain},
		{strings.Replace(secure.URL, "https:", "http:", 1), ": it speaks TLS: ", "--url " + secure.URL},
		{plain + "/foo", "404: POST " + plain + "/foo/v1/completions: ", "correct --url: "},
	} {
		o := optionsFor(t, cachetest.Demo(t), test.url)
		o.SkipPreflight = false
		_, err := Run(t.Context(), o)
		var refused *PreflightError
		require.ErrorAs(t, err, &refused)
		require.Contains(t, refused.Reason, test.why)
		require.Contains(t, refused.Hint, test.try)
	}
	require.Equal(t, []string{"mock"}, Models(t.Context(), Options{URLs: []string{plain}}))
}

// A server tells its version, and whether it caches prefixes, when the measured phase is over; what it does not tell is not known.
func TestServersTellWhatTheyAre(t *testing.T) {
	c := threeTraces(t)
	yes, no := true, false
	config := func(value string) string {
		return "# TYPE vllm:cache_config_info gauge\nvllm:cache_config_info{enable_prefix_caching=\"" + value + "\"} 1\n"
	}
	for name, test := range map[string]struct {
		documents map[string]string
		blocks    int // of the prefix cache
		skip      bool
		want      measure.Server // without its URL
	}{
		"it tells nothing": {blocks: -1},
		"vLLM": {map[string]string{"/version": `{"version":"0.11.0"}`, "/v1/models": `{"data":[{"id":"some/model","owned_by":"vllm","root":"/models/some"}]}`, "/metrics": config("True")}, -1, false,
			measure.Server{Software: "vllm", Version: "0.11.0", ModelPath: "/models/some", PrefixCaching: &yes, PrefixCachingFrom: "metrics"}},
		"vLLM without a cache":  {map[string]string{"/metrics": config("False")}, -1, false, measure.Server{PrefixCaching: &no, PrefixCachingFrom: "metrics"}},
		"engines that differ":   {map[string]string{"/metrics": config("False") + "vllm:cache_config_info{enable_prefix_caching=\"True\"} 1\n"}, -1, false, measure.Server{}},
		"SGLang":                {map[string]string{"/get_server_info": `{"version":"0.5.4","disable_radix_cache":true,"model_path":"a/b","tp_size":8,"dp_size":2,"pp_size":1,"api_key":"secret"}`}, -1, false, measure.Server{Software: "sglang", Version: "0.5.4", ModelPath: "a/b", Parallel: "tp 8, dp 2", PrefixCaching: &no, PrefixCachingFrom: "server"}},
		"SGLang of another age": {map[string]string{"/server_info": `{"version":"0.4","server_args":{"disable_radix_cache":false,"tp_size":1,"ep_size":"x","model_path":7}}`}, -1, false, measure.Server{Software: "sglang", Version: "0.4", Parallel: "tp 1", PrefixCaching: &yes, PrefixCachingFrom: "server"}},
		"llama.cpp":             {map[string]string{"/props": `{"build_info":"b7000-abc\u001b[2J"}`}, -1, false, measure.Server{Software: "llama.cpp", Version: "b7000-abc [2J"}},
		"TGI":                   {map[string]string{"/info": `{"model_id":"m","version":"3.3.6"}`}, -1, false, measure.Server{Software: "text-generation-inference", Version: "3.3.6", ModelPath: "m"}},
		"another /info":         {map[string]string{"/info": `{"version":"1"}`, "/version": `"1"`}, -1, false, measure.Server{}},
		"answers tell":          {nil, 0, false, measure.Server{PrefixCaching: &yes, PrefixCachingFrom: "answers"}},
		"it is not asked":       {map[string]string{"/version": `{"version":"0.11.0"}`}, -1, true, measure.Server{}},
	} {
		t.Run(name, func(t *testing.T) {
			server := mock.New(mock.Config{CacheBlocks: test.blocks})
			url, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch document, ok := test.documents[r.URL.Path]; {
				case r.Method == http.MethodPost:
					server.ServeHTTP(w, r)
				case ok:
					fmt.Fprint(w, document)
				default:
					http.NotFound(w, r)
				}
			}))
			o := optionsFor(t, c, url)
			o.SkipPreflight, o.Scrape = test.skip, Scrape{}
			p := play(t, t.Context(), o)
			test.want.URL = url
			require.Equal(t, []measure.Server{test.want}, p.Run.Servers)
			info, err := measure.ReadInfo(o.Out)
			require.NoError(t, err)
			require.Equal(t, p.Run.Servers, info.Servers)
		})
	}
}

// telling serves a list of models and properties beside a mock. An empty document is none.
func telling(t *testing.T, list, props string) (url string) {
	server := mock.New(mock.Config{})
	url, _ = serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		document := map[string]string{"/v1/models": list, "/props": props}[r.URL.Path]
		switch {
		case r.Method == http.MethodPost:
			server.ServeHTTP(w, r)
		case document == "":
			http.NotFound(w, r)
		default:
			fmt.Fprint(w, document)
		}
	}))
	return url
}

// Before the first request the server tells how long its context is, and the traces with a longer request are counted: left out where
// that was asked for, else warned of.
//
// Covers T-102.
func TestContextBeforeTheRun(t *testing.T) {
	c := threeTraces(t) // their longest requests have 130, 66 and 258 tokens, prompt and output together
	vllm := func(n string) string { return `{"data":[{"id":"some/model","max_model_len":` + n + `}]}` }
	const slots = `{"default_generation_settings":{"n_ctx":130},"n_ctx":7}`
	warned := func(n int) string {
		return fmt.Sprintf("%d of 3 traces have requests above the server's 130 tokens (max_model_len), prompt and output together: --max-context server leaves them out", n)
	}
	for name, test := range map[string]struct {
		list, props         string
		max, traces         int
		played              string
		want                string // as JSON
		noticed, warnedSaid string
	}{
		"nobody tells":             {"", "", 0, 0, "a b c", `null`, "", ""},
		"all fit":                  {vllm("258"), "", 0, 0, "a b c", `{"tokens":0,"traces":3,"left_out":0,"server":258,"from":"max_model_len","above":0}`, "", ""},
		"one is too long":          {vllm("130"), "", 0, 0, "a b c", `{"tokens":0,"traces":3,"left_out":0,"server":130,"from":"max_model_len","above":1}`, "", warned(1)},
		"it is left out":           {vllm("130"), "", ServerContext, 0, "a b", `{"tokens":130,"traces":3,"left_out":1,"server":130,"from":"max_model_len","above":0}`, "1 of 3 traces are left out: they have requests above 130 tokens, prompt and output together", ""},
		"one token less":           {vllm("129"), "", ServerContext, 0, "b", `{"tokens":129,"traces":3,"left_out":2,"server":129,"from":"max_model_len","above":0}`, "2 of 3 traces are left out: they have requests above 129 tokens, prompt and output together", ""},
		"a number":                 {"", "", 130, 0, "a b", `{"tokens":130,"traces":3,"left_out":1,"server":0,"from":"","above":0}`, "1 of 3 traces are left out: they have requests above 130 tokens, prompt and output together", ""},
		"a number above it":        {vllm("100"), "", 130, 0, "a b", `{"tokens":130,"traces":3,"left_out":1,"server":100,"from":"max_model_len","above":1}`, "1 of 3 traces are left out: they have requests above 130 tokens, prompt and output together", "1 of 2 traces have requests above the server's 100 tokens (max_model_len), prompt and output together: --max-context server leaves them out"},
		"the first that fits":      {vllm("66"), "", ServerContext, 1, "b", `{"tokens":66,"traces":2,"left_out":1,"server":66,"from":"max_model_len","above":0}`, "1 of 2 traces are left out: they have requests above 66 tokens, prompt and output together", ""},
		"a slot of llama.cpp":      {`{"data":[{"id":"some/model","meta":{"n_ctx_train":9}}]}`, slots, ServerContext, 0, "a b", `{"tokens":130,"traces":3,"left_out":1,"server":130,"from":"n_ctx","above":0}`, "1 of 3 traces are left out: they have requests above 130 tokens, prompt and output together", ""},
		"the list, not the slot":   {vllm("258"), slots, ServerContext, 0, "a b c", `{"tokens":258,"traces":3,"left_out":0,"server":258,"from":"max_model_len","above":0}`, "", ""},
		"an adapter":               {`{"data":[{"id":"some/model","max_model_len":null},{"id":"base","max_model_len":130},{"id":"other","max_model_len":130}]}`, "", 0, 0, "a b c", `{"tokens":0,"traces":3,"left_out":0,"server":130,"from":"max_model_len","above":1}`, "", warned(1)},
		"several models":           {`{"data":[{"id":"x","max_model_len":9},{"id":"some/model","max_model_len":130}]}`, "", 0, 0, "a b c", `{"tokens":0,"traces":3,"left_out":0,"server":130,"from":"max_model_len","above":1}`, "", warned(1)},
		"several, none is it":      {`{"data":[{"id":"x","max_model_len":9},{"id":"y","max_model_len":130}]}`, "", 0, 0, "a b c", `null`, "", ""},
		"what is no number at all": {vllm(`"130"`), `{"default_generation_settings":[]}`, 0, 0, "a b c", `null`, "", ""},
		"no tokens":                {vllm("0"), `{"default_generation_settings":{"n_ctx":-1}}`, 0, 0, "a b c", `null`, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := optionsFor(t, c, telling(t, test.list, test.props)+"/v1")
			o.SkipPreflight, o.MaxContext, o.Traces, o.Concurrency = false, test.max, test.traces, 1
			var noticed, said []string
			o.Notice, o.Warn = func(s string) { noticed = append(noticed, s) }, func(s string) { said = append(said, s) }
			p := play(t, t.Context(), o)
			var got []string
			for _, r := range p.records {
				if len(got) == 0 || got[len(got)-1] != r.Trace {
					got = append(got, r.Trace)
				}
			}
			require.Equal(t, test.played, strings.Join(got, " "))
			context, err := json.Marshal(p.Context)
			require.NoError(t, err)
			require.JSONEq(t, test.want, string(context))
			require.Equal(t, test.noticed, strings.Join(noticed, "; "))
			require.Equal(t, test.warnedSaid, strings.Join(said, "; "))
			info, err := measure.ReadInfo(o.Out)
			require.NoError(t, err)
			require.Equal(t, p.Context, info.Context)
		})
	}
}

// A server that does not tell its context ends a run that was to have it, before the first request. Of several, the shortest counts.
//
// Covers T-102.
func TestContextThatIsNotTold(t *testing.T) {
	long, short := telling(t, `{"data":[{"id":"some/model","max_model_len":258}]}`, ""), telling(t, "", `{"default_generation_settings":{"n_ctx":130}}`)
	o := optionsFor(t, threeTraces(t), telling(t, `{"data":[{"id":"some/model"}]}`, ""))
	o.SkipPreflight, o.MaxContext, o.Concurrency = false, ServerContext, 1
	s, err := Run(t.Context(), o)
	var refused *PreflightError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, PreflightError{
		Reason: o.URLs[0] + ": it does not say how long its context is: no max_model_len in GET /v1/models, no n_ctx in GET /props", Hint: "--max-context TOKENS",
	}, *refused)
	require.Zero(t, s.Requests)
	require.Equal(t, refused.Reason, s.Preflight.Error)

	o.URLs, o.Overwrite = append([]string{long}, o.URLs...), true
	_, err = Run(t.Context(), o)
	require.ErrorAs(t, err, &refused)

	o.URLs = []string{long, short}
	p := play(t, t.Context(), o)
	require.EqualValues(t, 130, *p.Preflight.ContextTokens)
	require.Equal(t, "n_ctx", p.Preflight.ContextFrom)
	require.Equal(t, 1, p.Context.LeftOut)
}

// A URL may end in the endpoint that requests go to. If it ends in another, a warning says where they go.
func TestURLOfAnotherEndpoint(t *testing.T) {
	o := Options{URLs: []string{"http://h:1/v1/chat/completions", "http://h:1/v1", "h:1", "http://u:secret@h:2/api/v1/completions/"}}
	require.Equal(t, []string{
		"the URL of h:2 ends in /v1/completions, and requests of payload chat go to /v1/chat/completions: choose the payload of that endpoint, or give the root of the server",
	}, o.otherEndpoints())
}
