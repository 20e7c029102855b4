package html

import (
	"fmt"
	"math"
	"slices"

	"github.com/agentx/agentx/replay/scrape"
	"github.com/agentx/agentx/report/page"
)

// serverMetrics are what a page shows of a server, with the names that servers give them. A server has one name of each.
var serverMetrics = []struct {
	column, unit string
	names        []string
	share        bool // of several series of a server, such as its engines, the mean counts, else the sum
	counter      bool // it grows, and begins again with the server
}{
	{"kv", "%", []string{"vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", "sglang:token_usage"}, true, false},
	{"running", "", []string{"vllm:num_requests_running", "sglang:num_running_reqs"}, false, false},
	{"waiting", "", []string{"vllm:num_requests_waiting", "sglang:num_queue_reqs"}, false, false},
	{"hit_rate", "%", []string{"sglang:cache_hit_rate"}, true, false},
	{"hits", "tokens", []string{"vllm:prefix_cache_hits", "vllm:gpu_prefix_cache_hits"}, false, true},
	{"queries", "tokens", []string{"vllm:prefix_cache_queries", "vllm:gpu_prefix_cache_queries"}, false, true},
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
		total, n := make([]float64, len(answers)), 0
		for s := range d.Series {
			if one := &d.Series[s]; one.Endpoint == endpoint && slices.Contains(m.names, one.Name) {
				addSeries(total, one, m.counter)
				n++
			}
		}
		if n == 0 || len(kept) == 0 {
			continue
		}
		values := make([]float64, len(kept))
		for i, k := range kept {
			if values[i] = total[k]; m.share {
				values[i] /= float64(n)
			}
		}
		list = append(list, page.Floats(m.column, m.unit, values))
	}
	return list
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
