package mock

import (
	"cmp"
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

func (s *Server) route() {
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
