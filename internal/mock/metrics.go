package mock

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
	"time"
)

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
