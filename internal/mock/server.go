// Package mock is an inference server without a model: it speaks the
// OpenAI-compatible protocol, answers with words that mean nothing, and keeps to
// a time model, a prefix cache and a list of faults that its caller chooses. It
// is for tests and demonstrations of clients, so it must cost little beside
// them: a request body is read once into a pooled buffer, scanned once by hand,
// and answered in as few writes as the time model allows.
//
// # Endpoints
//
//	POST /v1/chat/completions   messages with string or text-part contents
//	POST /v1/completions        prompt as a string or as an array of token ids
//	GET  /v1/models             Config.Models
//	GET  /health                200
//	POST /reset_prefix_cache    200; the prefix cache is empty
//	GET  /metrics               Prometheus text
//	GET  /stats                 Stats as JSON
//
// # Tokens
//
// There is no tokenizer here. A prompt of token ids has as many tokens as ids. A
// text prompt has a quarter of its contents' bytes, rounded, unless
// Config.CountTokens says better. An answer has exactly max_completion_tokens
// (else max_tokens, else 16) tokens, with or without ignore_eos, one per chunk
// of a stream; each is a common English word behind a space.
//
// # What is not checked
//
// A body must be JSON and the fields that are read must have the right type. The
// model's name, roles, sampling parameters, tools and all else pass unread. A key
// that stands twice is read twice: of numbers, flags and names the last counts, of
// messages and contents all do. Bytes that are not UTF-8 are kept as they are.
package mock

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// DefaultMaxBody is the request body limit, in bytes, where Config has none.
const DefaultMaxBody = 64 << 20

// Config says how a Server behaves. The zero value is a server that answers at
// once, caches DefaultCacheBlocks blocks and never fails.
type Config struct {
	// Models are the names that GET /v1/models lists; empty means "mock". A
	// request may name any model, and gets it back.
	Models []string

	// TTFT is the time from the end of a request's body to the first token of
	// its answer. The headers of a stream go out with the first token.
	TTFT time.Duration
	// TTFTPerToken is added to TTFT for each prompt token that was not cached.
	TTFTPerToken time.Duration
	// ITL is the time from one token to the next. Tokens that are due at the
	// same instant share a write: with 0 a whole answer does. Otherwise each
	// token costs the server a timer, a write and a flush.
	ITL time.Duration
	// TokensPerSecond is the speed of one answer after its first token. It
	// counts only where ITL is 0; 0 sets no limit.
	TokensPerSecond float64

	// CacheBlocks bounds the prefix cache, in blocks of BlockTokens tokens and
	// about 40 bytes of memory each. 0 is DefaultCacheBlocks; below 0 there is
	// no cache.
	CacheBlocks int

	// CountTokens returns the number of tokens of one text: a message's content
	// or a prompt. With it usage is exact instead of estimated, and Stats shows
	// the drift. It costs a tokenization of every text prompt, must be safe for
	// concurrent use, and must not keep its argument. nil estimates.
	CountTokens func(text []byte) int

	// Faults are played at their rates; see FaultKinds. At most one fault befalls
	// a request, so rates that add up to more than 1 starve the last ones.
	Faults []Fault
	// Seed decides, with the number of a request, which fault befalls it.
	Seed int64

	// MaxBody is the longest request body, in bytes, that is read; a longer one
	// gets a 413. 0 is DefaultMaxBody. Up to this much is allocated for a
	// request on the word of its Content-Length.
	MaxBody int64

	// Clock tells and spends the time; nil is the machine's.
	Clock Clock
}

// A Server is an http.Handler that plays an inference server. Make one with New.
// It is safe for concurrent use.
type Server struct {
	config    Config
	model     []byte // what a request without a model gets, as a JSON string
	itl       time.Duration
	clock     Clock
	started   time.Time
	mux       *http.ServeMux
	cache     *prefixCache
	faults    faultPlan
	counters  counters
	exchanges sync.Pool // of *exchange
	numbers   atomic.Uint64
}

// New returns a Server that behaves as config says. Its clock starts here.
func New(config Config) *Server {
	if len(config.Models) == 0 {
		config.Models = []string{"mock"}
	}
	if config.MaxBody == 0 {
		config.MaxBody = DefaultMaxBody
	}
	if config.Clock == nil {
		config.Clock = machineClock{}
	}
	s := &Server{
		config: config,
		model:  mustJSON(config.Models[0]),
		itl:    tokenInterval(config),
		clock:  config.Clock,
		mux:    http.NewServeMux(),
		cache:  newPrefixCache(config.CacheBlocks),
		faults: planFaults(config.Faults, config.Seed),
	}
	s.started = s.clock.Now()
	s.exchanges.New = func() any { return &exchange{server: s} }
	s.counters.init(s.faults)
	s.route()
	return s
}

func (s *Server) route() {
	s.mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) { s.infer(w, r, &chatEndpoint) })
	s.mux.HandleFunc("POST /v1/completions", func(w http.ResponseWriter, r *http.Request) { s.infer(w, r, &textEndpoint) })
	s.mux.HandleFunc("GET /v1/models", s.serveModels)
	s.mux.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
	s.mux.HandleFunc("POST /reset_prefix_cache", func(http.ResponseWriter, *http.Request) { s.cache.reset() })
	s.mux.HandleFunc("GET /metrics", s.serveMetrics)
	s.mux.HandleFunc("GET /stats", s.serveStats)
}

// ServeHTTP answers one request. The faults that break a connection need a
// ResponseWriter that can be hijacked, as those of HTTP/1.1 can; without one
// they panic with http.ErrAbortHandler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mux.ServeHTTP(w, r)
}

// Serve answers on l until ctx ends, and then returns nil; or until l fails, and
// then returns its error. In either case l and every connection are closed and
// every request has ended when it returns. Only the connections of Serve count
// in Stats.OpenConnections.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	// Requests end when their connections are closed, before their context is:
	// the other way round one could come to a clean end that it did not have.
	requests, endRequests := context.WithCancel(context.WithoutCancel(ctx))
	defer endRequests()
	var open sync.WaitGroup
	server := &http.Server{
		Handler:     s,
		BaseContext: func(net.Listener) context.Context { return requests },
		ConnState: func(_ net.Conn, state http.ConnState) {
			// The server reports a new connection before its Serve can return,
			// so no Add meets the Wait below.
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
	_ = server.Close() // or waits for the other Close
	endRequests()
	open.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("mock: %s: %w", l.Addr(), err)
}

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
	for _, name := range s.config.Models {
		list.Data = append(list.Data, model{name, "model", s.started.Unix(), "agentx"})
	}
	writeJSON(w, http.StatusOK, list)
}

// An apiError is the object that OpenAI-compatible servers send under "error".
type apiError struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    *string `json:"code"`
}

// body is the JSON document that carries e.
func (e apiError) body() []byte {
	return mustJSON(map[string]apiError{"error": e})
}

func writeError(w http.ResponseWriter, status int, e apiError) {
	writeBody(w, status, "application/json", e.body())
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	writeBody(w, status, "application/json", mustJSON(v))
}

// writeBody sends a whole response. A failing write means that the client has
// gone, which is nobody's error here.
func writeBody(w http.ResponseWriter, status int, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// mustJSON encodes values whose types cannot fail to encode.
func mustJSON(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}
