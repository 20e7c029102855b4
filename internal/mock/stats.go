package mock

import (
	"cmp"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

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

func (s *Server) serveStats(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, s.Stats())
}
