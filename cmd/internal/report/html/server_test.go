package html

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/replay/scrape"
)

// The names of each kind of server are shown, of several names of one metric the first that the server has.
//
// Covers T-133.
func TestServerNames(t *testing.T) {
	for name, c := range map[string]struct {
		series string // name=value of gauges, name+value of counters
		want   string
	}{
		"Ray": {"ray_vllm_num_requests_running=3 ray_vllm_kv_cache_usage_perc=0.5 ray_vllm_prefix_cache_hits+100 ray_vllm_prefix_cache_queries+200",
			"kv 0.5 running 3 hits 100 queries 200"},
		"frontend of Dynamo": {"dynamo_frontend_inflight_requests=3 dynamo_frontend_queued_requests=1", "running 3 waiting 1"},
		"worker of Dynamo":   {"dynamo_component_inflight_requests=9 vllm:num_requests_running=3 dynamo_component_gpu_cache_usage_percent=0.4", "kv 0.4 running 3"},
		"TensorRT-LLM":       {"trtllm_kv_cache_utilization=0.25 trtllm_num_requests_running=2 trtllm_num_requests_waiting=4 trtllm_kv_cache_hit_rate=0.75", "kv 0.25 running 2 waiting 4 hit_rate 0.75"},
		"LMCache":            {"lmcache:retrieve_hit_rate=0.5 lmcache:num_hit_tokens+10 lmcache:num_requested_tokens+20", "hit_rate 0.5 hits 10 queries 20"},
		"with LMCache":       {"lmcache:num_hit_tokens+10 vllm:prefix_cache_hits+7", "hits 7"},
	} {
		var file bytes.Buffer
		fmt.Fprintln(&file, `{"endpoint":0,"url":"http://h/metrics"}`)
		var values []string
		for k, s := range strings.Fields(c.series) {
			kind := "gauge"
			at := strings.IndexAny(s, "=+")
			if s[at] == '+' {
				kind = "counter"
			}
			fmt.Fprintf(&file, "{\"series\":%d,\"endpoint\":0,\"name\":%q,\"type\":%q,\"labels\":{}}\n", k, s[:at], kind)
			values = append(values, fmt.Sprintf("[%d,%s]", k, s[at+1:]))
		}
		fmt.Fprintf(&file, "{\"endpoint\":0,\"at\":5,\"took\":1,\"values\":[%s]}\n", strings.Join(values, ","))
		d, err := scrape.Read(&file)
		require.NoError(t, err)
		var got []string
		for _, m := range serverMetrics {
			if values := m.of(d, 0); values != nil {
				got = append(got, fmt.Sprintf("%s %v", m.column, values[0]))
			}
		}
		require.Len(t, serverColumns(d, 0, 0, 10, 0), len(got)+1)
		require.Equal(t, c.want, strings.Join(got, " "), name)
	}
}
