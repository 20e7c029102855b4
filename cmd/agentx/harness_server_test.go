package main

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// harnessServer answers as an engine of one model does and keeps every request. How it answers follows the content of the prompt
// without its marker, so that two clients get the same answers, in the same order where they are apart by a step.
type harnessServer struct {
	url  string
	plan answers

	mutex sync.Mutex
	sent  map[string]sentRequest // by X-Request-ID
	n     int
}

// answers say how a server answers.
type answers struct {
	faults  []string      // kinds that strike; warmups are spared
	every   uint64        // one content of so many has a fault
	stall   uint64        // one content of so many is answered after stalled
	stalled time.Duration // longer than the grace
}

// sentRequest is a request as it came.
type sentRequest struct {
	at          time.Time
	body        []byte // without the digits of its marker
	correlation string
	fault       string
	gone        bool // the client did not wait for the end of the answer
}

const (
	firstToken = 30 * time.Millisecond // at least
	firstStep  = 25 * time.Millisecond // more, as often as the content of the request says, so that the order of answers is the same
	firstSteps = 9
	tokenGap   = 2 * time.Millisecond
	mostTokens = 24 // that are streamed
)

func newHarnessServer(t *testing.T, plan answers) *harnessServer {
	s := &harnessServer{plan: plan, sent: map[string]sentRequest{}}
	server := httptest.NewServer(s)
	t.Cleanup(server.CloseClientConnections)
	s.url = server.URL
	return s
}

func (s *harnessServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/v1/models":
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"object":"list","data":[{"id":"m","object":"model"}]}`)
	case "/metrics":
		s.mutex.Lock()
		n := s.n
		s.mutex.Unlock()
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		fmt.Fprintf(w, "# HELP vllm:num_requests_running Requests that run.\n# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{model_name=\"m\"} 1\n"+
			"# HELP vllm:request_success_total Requests.\n# TYPE vllm:request_success_total counter\nvllm:request_success_total{model_name=\"m\"} %d\n", n)
	case "/v1/chat/completions":
		s.complete(w, r)
	default:
		http.NotFound(w, r)
	}
}

// complete answers one request.
func (s *harnessServer) complete(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var question struct {
		Messages json.RawMessage `json:"messages"`
		Most     int             `json:"max_completion_tokens"`
	}
	if err != nil || json.Unmarshal(body, &question) != nil {
		http.Error(w, "no body", http.StatusBadRequest)
		return
	}
	plain := markerDigits.ReplaceAll(body, []byte("[rid:]"))
	sum := sha256.Sum256(markerDigits.ReplaceAll(question.Messages, nil))
	draw := func(k int) uint64 { return uint64(binary.BigEndian.Uint32(sum[4*k:])) }
	one := sentRequest{at: time.Now(), body: plain, correlation: r.Header.Get("X-Correlation-ID")}
	if every := s.plan.every; every > 0 && draw(0)%every == 0 && question.Most > 1 {
		one.fault = s.plan.faults[draw(1)%uint64(len(s.plan.faults))]
	}
	s.mutex.Lock()
	s.n++
	s.mutex.Unlock()
	pause := firstToken + time.Duration(draw(2)%firstSteps)*firstStep
	if stall := s.plan.stall; stall > 0 && draw(3)%stall == 0 && question.Most > 1 {
		pause = s.plan.stalled
	}
	defer func() {
		one.gone = r.Context().Err() != nil
		s.mutex.Lock()
		defer s.mutex.Unlock()
		s.sent[r.Header.Get("X-Request-ID")] = one
	}()
	select {
	case <-time.After(pause):
		answer(w, one.fault, min(question.Most, mostTokens), len(body))
	case <-r.Context().Done():
	}
}

// The messages of faults that are statuses: an overflow by the words of the harness, one by words that only others count as one,
// and a plain failure.
var failures = map[string]struct {
	status int
	body   string
}{
	"overflow": {http.StatusBadRequest, `{"error":{"message":"This model's maximum context length is 1000 tokens.","type":"BadRequestError"}}`},
	"words":    {http.StatusBadRequest, `{"error":{"message":"the request exceeds the available context size, try increasing it","type":"exceed_context_size_error"}}`},
	"status":   {http.StatusInternalServerError, `{"error":{"message":"told to fail","type":"server_error"}}`},
	"busy":     {http.StatusServiceUnavailable, "busy"},
}

// answer streams tokens, or fails.
func answer(w http.ResponseWriter, fault string, tokens, bytes int) {
	if f, ok := failures[fault]; ok {
		w.WriteHeader(f.status)
		fmt.Fprint(w, f.body)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	flush := w.(http.Flusher).Flush
	const head = `data: {"id":"1","object":"chat.completion.chunk","created":1,"model":"m","choices":[`
	switch fault {
	case "empty":
		tokens = 0
	case "cut":
		tokens = max(1, tokens/2)
	}
	streamed := tokens
	for next := time.Now(); tokens > 0; tokens-- {
		fmt.Fprint(w, head+`{"index":0,"delta":{"content":" x"},"finish_reason":null}]}`+"\n\n")
		flush()
		next = next.Add(tokenGap)
		time.Sleep(time.Until(next))
	}
	if fault == "cut" {
		panic(http.ErrAbortHandler)
	}
	fmt.Fprint(w, head+`{"index":0,"delta":{},"finish_reason":"length"}]}`+"\n\n")
	prompt := bytes / 5
	fmt.Fprintf(w, head+`],"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d}}}`+"\n\ndata: [DONE]\n\n",
		prompt, streamed, prompt+streamed, prompt/2)
	flush()
}

// of returns the request with an id.
func (s *harnessServer) of(t *testing.T, id string) sentRequest {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	one, ok := s.sent[id]
	require.True(t, ok, "no request came with X-Request-ID %s", id)
	return one
}

// without returns the bodies of the requests that have no rows, in order.
func (s *harnessServer) without(rows []playedRequest) (bodies []string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	others := maps.Clone(s.sent)
	for k := range rows {
		delete(others, rows[k].row.Metadata.RequestID)
	}
	for _, one := range others {
		bodies = append(bodies, fmt.Sprintf("%s gone %v: %s", one.fault, one.gone, one.body))
	}
	slices.Sort(bodies)
	return bodies
}
