package html

import (
	"fmt"
	"math"
	"strings"

	"github.com/agentx/agentx/cmd/internal/report/page"
	"github.com/agentx/agentx/replay/scrape"
)

// serverMetrics are what a page shows of a server, with the names that servers give them. Of each the first counts that a server has: a
// worker of Dynamo shows those of its engine beside its own. vLLM under Ray has its names with another prefix.
var serverMetrics = []serverMetric{
	{"kv", "%", []string{"vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", "sglang:token_usage", "trtllm_kv_cache_utilization",
		"dynamo_component_gpu_cache_usage_percent", "dynamo_component_kvstats_gpu_cache_usage_percent"}, true, false},
	{"running", "", []string{"vllm:num_requests_running", "sglang:num_running_reqs", "trtllm_num_requests_running", "dynamo_frontend_inflight_requests", "dynamo_component_inflight_requests"}, false, false},
	{"waiting", "", []string{"vllm:num_requests_waiting", "sglang:num_queue_reqs", "trtllm_num_requests_waiting", "dynamo_frontend_queued_requests"}, false, false},
	{"hit_rate", "%", []string{"sglang:cache_hit_rate", "trtllm_kv_cache_hit_rate", "dynamo_component_kvstats_gpu_prefix_cache_hit_rate", "lmcache:retrieve_hit_rate"}, true, false},
	{"hits", "tokens", []string{"vllm:prefix_cache_hits", "vllm:gpu_prefix_cache_hits", "lmcache:num_hit_tokens"}, false, true},
	{"queries", "tokens", []string{"vllm:prefix_cache_queries", "vllm:gpu_prefix_cache_queries", "lmcache:num_requested_tokens"}, false, true},
}

type serverMetric struct {
	column, unit string
	names        []string
	share        bool // of several series of a server, such as its engines, the mean counts, else the sum
	counter      bool // it grows, and begins again with the server
}

const (
	maxAnswers = 2000 // of one server on the page
	maxServers = 8    // on the page
)

// serverTables returns a table for each server that answered, and the list of these. Instants are ns since origin, the wall clock of
// the start of profiling; those after the end are left out.
func serverTables(d *scrape.Data, origin, end int64) (tables []page.Table) {
	var urls []string
	for k := range d.Endpoints {
		columns := serverColumns(d, k, origin, end)
		if len(columns) < 2 { // the instants alone
			continue
		}
		if len(urls) < maxServers {
			tables = append(tables, page.Table{Name: fmt.Sprintf("server.%d", len(urls)), Columns: columns})
		}
		urls = append(urls, cut(d.Endpoints[k].URL))
	}
	return append(tables, page.Table{Name: "servers", Columns: []page.Column{page.Texts("url", urls)}})
}

// serverColumns returns the instants of the answers of a server, and what it said then.
func serverColumns(d *scrape.Data, endpoint int, origin, end int64) []page.Column {
	answers := d.Endpoints[endpoint].Answers
	var kept []int
	var at []int64
	step := (len(answers) + maxAnswers - 1) / maxAnswers
	for k := 0; k < len(answers); k += step {
		if t := answers[k].At - origin; t <= end {
			kept, at = append(kept, k), append(at, t)
		}
	}
	list := []page.Column{page.Ints("at", "ns", at)}
	for _, m := range serverMetrics {
		all := m.of(d, endpoint)
		if all == nil || len(kept) == 0 {
			continue
		}
		values := make([]float64, len(kept))
		for i, k := range kept {
			values[i] = all[k]
		}
		list = append(list, page.Floats(m.column, m.unit, values))
	}
	return list
}

// of returns the metric at each answer of a server, nil where the server does not have it.
func (m *serverMetric) of(d *scrape.Data, endpoint int) []float64 {
	for _, name := range m.names {
		total, n := make([]float64, len(d.Endpoints[endpoint].Answers)), 0
		for s := range d.Series {
			if one := &d.Series[s]; one.Endpoint == endpoint && vllmName(one.Name) == name {
				addSeries(total, one, m.counter)
				n++
			}
		}
		for k := range total {
			if m.share && n > 0 {
				total[k] /= float64(n)
			}
		}
		if n > 0 {
			return total
		}
	}
	return nil
}

// vllmName returns a name of vLLM without the prefix of Ray, another name as it is.
func vllmName(name string) string {
	if rest, ok := strings.CutPrefix(name, "ray_vllm_"); ok {
		return "vllm:" + rest
	}
	return name
}

// addSeries adds to total the value that a series has at each answer of its server. It is 0 where the server does not show the
// series. A counter that falls has begun again at 0: it grows on.
func addSeries(total []float64, s *scrape.Series, counter bool) {
	next, value, base := 0, 0.0, 0.0
	for k := range total {
		for next < s.Len() {
			at, values := s.Change(next)
			if at > k {
				break
			}
			now := 0.0
			if len(values) > 0 && !math.IsInf(values[0], 0) {
				now = values[0]
			}
			if counter && now < value {
				base += value
			}
			value = now
			next++
		}
		total[k] += base + value
	}
}
