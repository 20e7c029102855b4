package otlp

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/agentx/agentx/cmd/internal/report/live"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// collector keeps what it gets. Its answers are those of a function, by number from 0; nil: it takes everything.
type collector struct {
	*httptest.Server
	spans   []map[string]any
	metrics map[string]map[string]any // the last, by name
	headers http.Header
	posts   int
}

func newCollector(t *testing.T, answer func(n int) (status int, body string)) *collector {
	c := &collector{metrics: map[string]map[string]any{}}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := c.posts
		c.posts++
		if answer != nil && r.URL.Path == tracesPath {
			if status, body := answer(n); status > 0 {
				w.WriteHeader(status)
				_, _ = io.WriteString(w, body)
				return
			}
		}
		var message struct {
			ResourceSpans []struct {
				ScopeSpans []struct{ Spans []map[string]any }
			}
			ResourceMetrics []struct {
				ScopeMetrics []struct{ Metrics []map[string]any }
			}
		}
		body := http.MaxBytesReader(w, r.Body, 1<<20)
		if err := json.NewDecoder(body).Decode(&message); err != nil || r.Header.Get("Content-Type") != "application/json" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		c.headers = r.Header
		for _, m := range message.ResourceSpans {
			c.spans = append(c.spans, m.ScopeSpans[0].Spans...)
		}
		for _, m := range message.ResourceMetrics {
			for _, of := range m.ScopeMetrics[0].Metrics {
				c.metrics[of["name"].(string)] = of
			}
		}
	}))
	t.Cleanup(c.Close)
	return c
}

// options are those of an exporter to a URL that tries again at once.
func options(url string, state *live.State) Options {
	o := Options{Endpoint: url, Version: "1.2.3", Operation: "chat", Provider: "openai", Model: "m", URLs: []string{"https://gpu7/v1"}, wait: 1, patience: time.Minute, queue: 8}
	if o.Figures = func() []*dto.MetricFamily { return nil }; state != nil {
		o.Figures = state.Families
	}
	return o
}

// request is one that ended well.
func request() measure.Record {
	return measure.Record{
		Phase: measure.ProfilingPhase, Lane: 3, Trace: "t1", Session: "s1", Turn: 2, Bucket: measure.Profiling,
		RequestID: "0f5a1e08-6ae4-4bd6-9c5f-3c1a8e1d2b3c", RootID: "c0ffee00-0000-4000-8000-000000000001", CorrelationID: "a-session",
		Numbers: measure.Numbers{
			Due: measure.At(1), Sent: measure.At(1.5), FirstToken: measure.At(1.75), LastToken: measure.At(2.5), End: measure.At(2.625), Status: 200, MaxTokens: 64,
			PromptTokens: measure.Tokens(100), CachedTokens: measure.Tokens(80), OutputTokens: measure.Tokens(7), ReasoningTokens: measure.Tokens(3),
		},
		FinishReason: "stop",
	}
}

// A request is a span with the names of the conventions, and the figures of /metrics are metrics. The headers of the environment come with them.
//
//
func TestSpansAndMetrics(t *testing.T) {
	t.Setenv(headersVariable, "authorization=Bearer%20secret, x-team=gpu")
	state, c := live.NewState(measure.Rules{}, 4), newCollector(t, nil)
	e, err := New(options(c.URL, state))
	require.NoError(t, err)
	e.Begin(measure.ProfilingPhase, time.Unix(1000, 0))
	good, failed := request(), request()
	failed.Error, failed.Bucket = &measure.Error{Category: wire.Timeout, Message: "no answer within 2s"}, measure.Profiling
	for _, r := range []*measure.Record{&good, &failed} {
		state.Add(r)
		e.Add(r)
	}
	require.Equal(t, Delivery{Sent: 2}, e.Close())

	require.Equal(t, "Bearer secret", c.headers.Get("Authorization"))
	require.Equal(t, "gpu", c.headers.Get("X-Team"))
	require.Len(t, c.spans, 2)
	span := c.spans[0]
	attributes := map[string]any{}
	for _, a := range span["attributes"].([]any) {
		for _, v := range a.(map[string]any)["value"].(map[string]any) {
			attributes[a.(map[string]any)["key"].(string)] = v
		}
	}
	delete(span, "attributes")
	require.Equal(t, map[string]any{
		"traceId": "c0ffee00000040008000000000000001", "spanId": "9c5f3c1a8e1d2b3c", "name": "chat m", "kind": 3.0, "status": map[string]any{},
		"startTimeUnixNano": "1001500000000", "endTimeUnixNano": "1002625000000",
	}, span)
	require.Equal(t, map[string]any{
		"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "m", "gen_ai.conversation.id": "a-session", "gen_ai.request.max_tokens": "64",
		"gen_ai.usage.input_tokens": "100", "gen_ai.usage.output_tokens": "10", "gen_ai.usage.cache_read.input_tokens": "80", "gen_ai.response.time_to_first_chunk": 0.25,
		"gen_ai.response.finish_reasons": map[string]any{"values": []any{map[string]any{"stringValue": "stop"}}},
		"http.response.status_code":      "200", "server.address": "gpu7", "server.port": "443",
		"agentx.phase": "profiling", "agentx.bucket": string(measure.Profiling), "agentx.request_id": good.RequestID, "agentx.trace": "t1", "agentx.session": "s1",
		"agentx.lane": "3", "agentx.tree": "0", "agentx.turn": "2", "agentx.lateness": 0.5,
	}, attributes)
	require.Equal(t, map[string]any{"code": 2.0, "message": "no answer within 2s"}, c.spans[1]["status"])

	point := func(name, kind string) map[string]any {
		return c.metrics[name][kind].(map[string]any)["dataPoints"].([]any)[0].(map[string]any)
	}
	require.Equal(t, 2.0, point("agentx.requests", "sum")["asDouble"])
	require.Equal(t, true, c.metrics["agentx.requests"]["sum"].(map[string]any)["isMonotonic"])
	require.Equal(t, 4.0, point("agentx.lanes", "gauge")["asDouble"])
	for _, name := range []string{"agentx.ttft", "gen_ai.client.operation.time_to_first_chunk"} {
		p := point(name, "histogram")
		require.Equal(t, "1", p["count"])
		require.Equal(t, 0.25, p["sum"])
		require.Len(t, p["bucketCounts"], len(live.Bounds)+1)
		require.Len(t, p["explicitBounds"], len(live.Bounds))
	}
}

// A collector that hangs holds up nobody: what has no room is dropped and counted, and the end waits for its patience alone.
func TestHangingCollector(t *testing.T) {
	begun, release := make(chan bool, 100), make(chan bool)
	c := newCollector(t, func(int) (int, string) {
		begun <- true
		<-release
		return 0, ""
	})
	defer close(release)
	o := options(c.URL, nil)
	o.patience = 1
	e, err := New(o)
	require.NoError(t, err)
	r := request()
	e.Add(&r)
	<-begun
	for range 20 {
		e.Add(&r)
	}
	require.EqualError(t, func() error { d := e.Close(); d.Dropped -= 21; require.Zero(t, d.Dropped+d.Sent); return d.Err }(), "the collector did not answer in time")
}

// Without a collector everything is dropped, with a reason that does not show its URL.
func TestNoCollector(t *testing.T) {
	c := newCollector(t, nil)
	c.Close()
	e, err := New(options(strings.Replace(c.URL, "//", "//user:secret@", 1), nil))
	require.NoError(t, err)
	r := request()
	e.Add(&r)
	d := e.Close()
	require.Equal(t, 1, d.Dropped)
	require.ErrorContains(t, d.Err, "refused")
	require.NotContains(t, d.Err.Error(), "secret")
}

// A failure that may pass is followed by another attempt; others, and what the collector does not take, are drops.
func TestAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		answer func(n int) (int, string)
		want   Delivery
		why    string
	}{
		"busy":    {func(n int) (int, string) { return []int{503, 429, 0}[min(n, 2)], "" }, Delivery{Sent: 1}, ""},
		"refused": {func(int) (int, string) { return 401, "" }, Delivery{Dropped: 1}, "/v1/traces answers with status 401"},
		"moved":   {func(int) (int, string) { return 307, "" }, Delivery{Dropped: 1}, "/v1/traces answers with status 307"},
		"partial": {func(int) (int, string) {
			return 200, `{"partialSuccess":{"rejectedSpans":"1","errorMessage":"too old"}}`
		}, Delivery{Dropped: 1}, "the collector rejected 1 span: too old"},
		"all": {func(int) (int, string) { return 200, `{"partialSuccess":{}}` }, Delivery{Sent: 1}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			clock, r := make(chan time.Time), request()
			server := newCollector(t, c.answer)
			o := options(server.URL, nil)
			o.clock = clock
			e, err := New(o)
			require.NoError(t, err)
			e.Add(&r)
			for len(e.queue) > 0 {
				runtime.Gosched()
			}
			clock <- time.Now() // it has sent the spans
			d := e.Close()
			if c.why != "" {
				require.EqualError(t, d.Err, c.why)
				d.Err = nil
			}
			require.Equal(t, c.want, d)
		})
	}
}

// Errors of endpoints and headers show no value.
func TestEndpoint(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "off": "", "collector:4318": "http://collector:4318", "https://h/otlp/": "https://h/otlp", "http://h:4318/v1/traces": "http://h:4318",
	} {
		got, err := Endpoint(text)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, wrong := range []string{"http://", "grpc://user:secret@h:4317", "http://user:secret@[h"} {
		_, err := Endpoint(wrong)
		require.ErrorContains(t, err, "want the http URL of a collector")
		require.NotContains(t, err.Error(), "secret")
	}
	t.Setenv(headersVariable, "a=b,secret")
	_, err := Endpoint("h:4318")
	require.EqualError(t, err, "OTEL_EXPORTER_OTLP_HEADERS: entry 2: want NAME=VALUE, with commas between entries")
	var none *Exporter
	none.Begin("", time.Time{})
	none.Add(nil)
	require.Zero(t, none.Close())
}
