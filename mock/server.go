// Package mock is an inference server without a model, for tests and demonstrations of clients.
//
// It speaks the APIs of OpenAI and Anthropic, answers with common English words, and follows a time model, a prefix cache and a list of faults
// that its Config sets. It must cost little beside its clients: it reads a request body once into a pooled buffer, scans it
// once, and answers in as few writes as the time model allows.
//
//	server := mock.New(mock.Config{TTFT: 20 * time.Millisecond})
//	err := server.Serve(ctx, listener)
//
// # Endpoints
//
//	POST /v1/chat/completions   messages with string or text-part contents
//	POST /v1/completions        prompt as a string or as an array of token ids
//	POST /v1/messages           Anthropic's: system, messages with string or part contents
//	POST /v1/responses          OpenAI's: instructions, input as a string or as a list of items
//	GET  /v1/models             one model, "mock"
//	GET  /health                200
//	POST /reset_prefix_cache    200; the prefix cache is empty
//	GET  /metrics               Prometheus text
//	GET  /stats                 Stats as JSON
//
// # Tokens
//
// There is no tokenizer here. A prompt of token ids has as many tokens as ids. A text prompt has a quarter of its contents'
// bytes, rounded, unless Config.CountTokens counts them. An answer has exactly max_completion_tokens (else max_tokens, else
// 16) tokens, with or without ignore_eos, one per chunk of a stream; each is a common English word behind a space. A request
// whose tool_choice names a tool gets a call of that tool, with the words as its argument "text".
//
// # Capacity
//
// Requests do not wait for one another, unless Config limits its slots. Then the server is a queueing model (type capacity)
// that is driven by a clock: arithmetic over the instants at which requests arrive and their clients leave.
//
// # What is not checked
//
// A body must be JSON, and the fields that are read must have the right type. In chats and Anthropic's Messages the results of tools must stand
// right behind the message with their calls, and each call must have one. The model's name, roles, sampling parameters, definitions of tools
// and all else are not checked. A key that occurs twice is read twice: the last number, flag or name counts, and all
// messages and contents do. Bytes that are not UTF-8 are kept as they are.
package mock

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// maxBody bounds the body of a request, in bytes; a longer one gets a 413. Up to this much is allocated for a request on the
// word of its Content-Length.
const maxBody = 64 << 20

// modelName is the name of the model that GET /v1/models lists. A request may name any model, and gets it back.
const modelName = "mock"

var quotedModel = mustJSON(modelName)

// Server is an http.Handler that behaves as an inference server. New makes one. It is safe for concurrent use.
type Server struct {
	config    Config
	itl       time.Duration
	clock     clock
	started   time.Time
	mux       *http.ServeMux
	cache     *prefixCache
	engine    *engine // nil: requests do not wait for one another
	faults    faultPlan
	counters  counters
	log       *answerLog
	exchanges sync.Pool // of *exchange
	numbers   atomic.Uint64
}

// New returns a Server that behaves as config says. Its clock starts here. It panics where config.Validate returns an error:
// configurations that come from a user are to be validated before.
func New(config Config) *Server {
	if err := config.Validate(); err != nil {
		panic("mock: " + err.Error())
	}
	config.maxBody = cmp.Or(config.maxBody, maxBody)
	if config.clock == nil {
		config.clock = machineClock{}
	}
	s := &Server{
		config: config,
		itl:    config.tokenInterval(),
		clock:  config.clock,
		mux:    http.NewServeMux(),
		cache:  newPrefixCache(config.CacheBlocks),
		faults: planFaults(config.Faults, config.Seed),
		log:    newAnswerLog(config.Log),
	}
	s.started = s.clock.Now()
	s.engine = newEngine(config, s.started)
	s.exchanges.New = func() any { return &exchange{server: s} }
	s.counters.init(s.faults)
	s.route()
	return s
}

// route says which function answers which path.
func (s *Server) route() {
	addAPIs()
	for _, e := range endpoints {
		s.mux.HandleFunc("POST "+e.Path, func(w http.ResponseWriter, r *http.Request) { s.infer(w, r, e) })
	}
	s.mux.HandleFunc("GET /v1/models", s.serveModels)
	s.mux.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
	s.mux.HandleFunc("POST /reset_prefix_cache", func(http.ResponseWriter, *http.Request) { s.cache.reset() })
	s.mux.HandleFunc("GET /metrics", s.serveMetrics)
	s.mux.HandleFunc("GET /stats", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, s.Stats()) })
}

// ServeHTTP answers one request. Faults that break a connection need a ResponseWriter that can be hijacked, as those of
// HTTP/1.1 can; with another one they panic with http.ErrAbortHandler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mux.ServeHTTP(w, r)
}

// Serve answers on l until ctx ends, and then returns nil; or until l fails, and then returns its error. When it returns, l
// and every connection are closed and every request has ended. Stats.OpenConnections counts the connections of Serve only.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	// Serve closes connections first and ends the requests' context afterwards. In the other order a request could end
	// cleanly on a connection that is still open.
	requests, endRequests := context.WithCancel(context.WithoutCancel(ctx))
	defer endRequests()
	var open sync.WaitGroup
	server := &http.Server{
		Handler:     s,
		BaseContext: func(net.Listener) context.Context { return requests },
		ConnState: func(_ net.Conn, state http.ConnState) {
			// The server reports a new connection before its Serve can return, so no Add runs beside the Wait below.
			switch state {
			case http.StateNew:
				open.Add(1)
				s.counters.openConnections.Add(1)
			case http.StateClosed, http.StateHijacked:
				s.counters.openConnections.Add(-1)
				open.Done()
			}
		},
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	err := server.Serve(l)
	_ = server.Close() // waits for the Close of ctx, if that is running
	endRequests()
	open.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("mock: %s: %w", l.Addr(), err)
}

// serveModels lists one model, which is called "mock".
func (s *Server) serveModels(w http.ResponseWriter, _ *http.Request) {
	type model struct {
		ID      string `json:"id"`
		Object  string `json:"object"`
		Created int64  `json:"created"`
		OwnedBy string `json:"owned_by"`
	}
	list := struct {
		Object string  `json:"object"`
		Data   []model `json:"data"`
	}{Object: "list"}
	list.Data = []model{{modelName, "model", s.started.Unix(), "agentx"}}
	writeJSON(w, http.StatusOK, list)
}

// apiError is the object that OpenAI-compatible servers send under "error".
type apiError struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    *string `json:"code"`
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	writeBody(w, status, "application/json", mustJSON(v))
}

// writeBody sends a whole response. A write fails when the client has disconnected, which is no error of the server.
func writeBody(w http.ResponseWriter, status int, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// mustJSON encodes a value of a type that always encodes.
func mustJSON(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}

// Config says how a Server behaves. The zero value is a server that answers at once, caches DefaultCacheBlocks blocks and
// never fails.
type Config struct {
	// TTFT is the time from the end of a request's body to the first token of its answer. The headers of a stream go out
	// with the first token.
	TTFT time.Duration
	// ITL is the time from one token to the next. Tokens that are due at the same instant share a write: with 0 a whole
	// answer does. Otherwise each token costs the server a timer, a write and a flush.
	ITL time.Duration
	// TokensPerSecond is the speed of one answer after its first token. It counts only where ITL is 0; 0 sets no limit.
	TokensPerSecond float64

	// PrefillSlots, PrefillRate, DecodeSlots and ITLGrowth, if one of them is set, limit what the server does at a time; 0 sets no
	// limit. A prompt holds one of PrefillSlots for TTFT and for its tokens that are not cached, PrefillRate of them a second;
	// then its first token is there. The other tokens come from one batch of at most DecodeSlots answers: a step gives each of
	// n answers a token and takes ITL + (n-1) ITLGrowth. Requests wait in the order in which they arrived, and one whose
	// client has gone holds nothing.
	PrefillSlots int
	PrefillRate  float64
	DecodeSlots  int
	ITLGrowth    time.Duration

	// CacheBlocks bounds the prefix cache, in blocks of BlockTokens tokens and about 40 bytes of memory each. 0 is
	// DefaultCacheBlocks; below 0 there is no cache.
	CacheBlocks int

	// CountTokens returns the number of tokens of one text: a message's content or a prompt. With it usage is exact instead
	// of estimated, and Stats shows the difference. It costs a tokenization of every text prompt, must be safe for
	// concurrent use, and must not keep its argument. nil estimates.
	CountTokens func(text []byte) int

	// Faults are injected at their rates; see FaultKinds. A request gets at most one fault, so if the rates add
	// up to more than 1, the last faults are injected less often, or never.
	Faults []Fault
	// Seed decides, with the number of a request, which fault it gets.
	Seed int64

	// Log, if it is not nil, gets a line of JSON for each request that was answered to its end: an Answer. Requests write to it in turn.
	Log io.Writer

	maxBody int64 // bytes of a body; for tests, 0 is maxBody
	clock   clock // for tests; nil is the machine's
}

// Validate reports the first field with a value that is not allowed: its name, the value, and what is allowed.
func (c Config) Validate() error {
	switch {
	case c.TTFT < 0:
		return fmt.Errorf("ttft %s: want 0 or more", c.TTFT)
	case c.ITL < 0:
		return fmt.Errorf("itl %s: want 0 or more", c.ITL)
	case !(c.TokensPerSecond >= 0) || math.IsInf(c.TokensPerSecond, 0):
		return fmt.Errorf("tokens per second %g: want 0 (no limit) or more", c.TokensPerSecond)
	case c.PrefillSlots < 0:
		return fmt.Errorf("prefill slots %d: want 0 (no limit) or more", c.PrefillSlots)
	case !(c.PrefillRate >= 0) || math.IsInf(c.PrefillRate, 0):
		return fmt.Errorf("prefill rate %g: want 0 (no limit) or more tokens per second", c.PrefillRate)
	case c.DecodeSlots < 0:
		return fmt.Errorf("decode slots %d: want 0 (no limit) or more", c.DecodeSlots)
	case c.ITLGrowth < 0:
		return fmt.Errorf("itl growth %s: want 0 or more", c.ITLGrowth)
	}
	for _, f := range c.Faults {
		if err := f.Validate(); err != nil {
			return err
		}
	}
	return nil
}

// tokenInterval returns the time between two tokens of an answer.
func (c Config) tokenInterval() time.Duration {
	if c.ITL == 0 && c.TokensPerSecond > 0 {
		return time.Duration(float64(time.Second) / c.TokensPerSecond)
	}
	return c.ITL
}

// limited reports whether requests wait for one another.
func (c Config) limited() bool {
	return c.PrefillSlots > 0 || c.PrefillRate > 0 || c.DecodeSlots > 0 || c.ITLGrowth > 0
}

// prefillTime returns how long a prompt holds a slot, by its tokens that are not cached.
func (c Config) prefillTime(tokens int) time.Duration {
	if c.PrefillRate == 0 {
		return c.TTFT
	}
	return c.TTFT + time.Duration(float64(tokens)/c.PrefillRate*float64(time.Second))
}

// Stats are the counts of a Server since New. A request counts when its headers have arrived, its prompt when its body has,
// its output when it is sent. Only POSTs to the endpoints of inference are requests here.
type Stats struct {
	Requests        int64 `json:"requests"`
	OpenRequests    int64 `json:"open_requests"`    // in flight now
	OpenConnections int64 `json:"open_connections"` // now; those of Serve only
	Rejected        int64 `json:"rejected"`         // answered 400 or 413, faults left out
	BytesIn         int64 `json:"bytes_in"`         // of request bodies
	PromptTokens    int64 `json:"prompt_tokens"`
	CachedTokens    int64 `json:"cached_tokens"` // the part of PromptTokens that the prefix cache had
	OutputTokens    int64 `json:"output_tokens"`
	CacheBlocks     int64 `json:"cache_blocks"` // in the prefix cache now

	// ReencodedPrompts counts the text prompts that Config.CountTokens has counted, ReencodedTokens their tokens, and
	// EstimatedTokens the tokens that the estimate gives. All are 0 without CountTokens.
	ReencodedPrompts int64 `json:"reencoded_prompts"`
	ReencodedTokens  int64 `json:"reencoded_tokens"`
	EstimatedTokens  int64 `json:"estimated_tokens"`

	// Faults counts the injected faults, by the Kind of each configured Fault.
	Faults map[string]int64 `json:"faults"`
	// FirstArrival has, by session, the seconds from New to the headers of its first request. The header X-Session-ID, else
	// X-Correlation-ID, names the session; a request with neither is in none. The map keeps an entry for every session.
	FirstArrival map[string]float64 `json:"first_arrival"`
}

// counters is the live form of Stats.
type counters struct {
	requests, openRequests, openConnections, rejected  atomic.Int64
	bytesIn, promptTokens, cachedTokens, outputTokens  atomic.Int64
	reencodedPrompts, reencodedTokens, estimatedTokens atomic.Int64
	answering                                          atomic.Int64 // requests whose prompt was read, and whose answer is not over
	ttft                                               latencies
	faults                                             map[string]*atomic.Int64 // not written after init

	mu           sync.Mutex
	firstArrival map[string]time.Duration
}

// init makes the maps, with a counter for each fault of the plan.
func (c *counters) init(p faultPlan) {
	c.firstArrival = make(map[string]time.Duration)
	c.faults = make(map[string]*atomic.Int64)
	for _, f := range p.faults {
		c.faults[f.name] = new(atomic.Int64)
	}
}

// arrive counts a request that has arrived, at an instant after New.
func (c *counters) arrive(r *http.Request, at time.Duration) {
	c.requests.Add(1)
	session := cmp.Or(r.Header.Get("X-Session-Id"), r.Header.Get("X-Correlation-Id"))
	if session == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if first, seen := c.firstArrival[session]; !seen || at < first {
		c.firstArrival[session] = at
	}
}

// Stats returns the counts. They are read one after the other, so that under load they may disagree by the requests of that
// time.
func (s *Server) Stats() Stats {
	c := &s.counters
	stats := Stats{
		Requests:         c.requests.Load(),
		OpenRequests:     c.openRequests.Load(),
		OpenConnections:  c.openConnections.Load(),
		Rejected:         c.rejected.Load(),
		BytesIn:          c.bytesIn.Load(),
		PromptTokens:     c.promptTokens.Load(),
		CachedTokens:     c.cachedTokens.Load(),
		OutputTokens:     c.outputTokens.Load(),
		CacheBlocks:      int64(s.cache.len()),
		ReencodedPrompts: c.reencodedPrompts.Load(),
		ReencodedTokens:  c.reencodedTokens.Load(),
		EstimatedTokens:  c.estimatedTokens.Load(),
		Faults:           make(map[string]int64, len(c.faults)),
	}
	for name, n := range c.faults {
		stats.Faults[name] = n.Load()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	stats.FirstArrival = make(map[string]float64, len(c.firstArrival))
	for session, at := range c.firstArrival {
		stats.FirstArrival[session] = at.Seconds()
	}
	return stats
}

// serveMetrics writes the counts that vLLM has under vLLM's names, for clients that scrape servers, and the others under names
// of its own.
func (s *Server) serveMetrics(w http.ResponseWriter, _ *http.Request) {
	stats := s.Stats()
	var b bytes.Buffer
	metric := func(kind, name, help string, value any) {
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s %s\n%s %v\n", name, help, name, kind, name, value)
	}
	running := s.counters.answering.Load()
	if s.engine != nil {
		n, _ := s.engine.counts()
		running = int64(n)
	}
	metric("gauge", "vllm:num_requests_running", "Requests that are answered now.", running)
	metric("gauge", "vllm:num_requests_waiting", "Requests whose prompt has not been read, that wait for a slot, or that a fault holds.", max(0, stats.OpenRequests-running))
	metric("gauge", "vllm:kv_cache_usage_perc", "Filled part of the prefix cache, 1 is all.", s.cacheUsage(stats))
	metric("counter", "vllm:prompt_tokens_total", "Prompt tokens.", stats.PromptTokens)
	metric("counter", "vllm:generation_tokens_total", "Output tokens.", stats.OutputTokens)
	metric("counter", "vllm:prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache.", stats.PromptTokens)
	metric("counter", "vllm:prefix_cache_hits_total", "Prompt tokens found there.", stats.CachedTokens)
	fmt.Fprintf(&b, "# HELP vllm:cache_config_info What the cache is.\n# TYPE vllm:cache_config_info gauge\nvllm:cache_config_info{block_size=\"%d\",enable_prefix_caching=%q} 1\n",
		BlockTokens, map[bool]string{true: "True", false: "False"}[s.cache.capacity > 0])
	s.counters.ttft.write(&b, "vllm:time_to_first_token_seconds", "From the end of a prompt to the first token of its answer.")
	metric("counter", "agentx_mock_requests_total", "Requests.", stats.Requests)
	metric("counter", "agentx_mock_request_bytes_total", "Bytes of request bodies.", stats.BytesIn)
	metric("gauge", "agentx_mock_open_connections", "Open connections.", stats.OpenConnections)
	if len(stats.Faults) > 0 {
		const name = "agentx_mock_faults_total"
		fmt.Fprintf(&b, "# HELP %s Injected faults.\n# TYPE %s counter\n", name, name)
		for _, kind := range slices.Sorted(maps.Keys(stats.Faults)) {
			fmt.Fprintf(&b, "%s{kind=%q} %d\n", name, kind, stats.Faults[kind])
		}
	}
	writeBody(w, http.StatusOK, "text/plain; version=0.0.4; charset=utf-8", b.Bytes())
}

// cacheUsage returns which share of the prefix cache is filled.
func (s *Server) cacheUsage(stats Stats) float64 {
	if s.cache.capacity == 0 {
		return 0
	}
	return float64(stats.CacheBlocks) / float64(s.cache.capacity)
}

// latencies is a histogram of times, with the bounds that vLLM has for the time to the first token.
type latencies struct {
	buckets [len(latencyBounds) + 1]atomic.Int64 // the times up to each bound and above the one before; last those above all bounds
	sum     atomic.Int64                         // nanoseconds
}

var latencyBounds = [...]float64{
	0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560,
}

// observe counts a time.
func (l *latencies) observe(d time.Duration) {
	k, _ := slices.BinarySearch(latencyBounds[:], d.Seconds())
	l.buckets[k].Add(1)
	l.sum.Add(int64(d))
}

// write writes the histogram as Prometheus text: its counts are cumulative.
func (l *latencies) write(b *bytes.Buffer, name, help string) {
	fmt.Fprintf(b, "# HELP %s %s\n# TYPE %s histogram\n", name, help, name)
	n := int64(0)
	for k := range l.buckets {
		n += l.buckets[k].Load()
		bound := "+Inf"
		if k < len(latencyBounds) {
			bound = strconv.FormatFloat(latencyBounds[k], 'f', -1, 64)
		}
		fmt.Fprintf(b, "%s_bucket{le=%q} %d\n", name, bound, n)
	}
	fmt.Fprintf(b, "%s_sum %g\n%s_count %d\n", name, time.Duration(l.sum.Load()).Seconds(), name, n)
}
