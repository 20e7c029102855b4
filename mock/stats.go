package mock

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
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
