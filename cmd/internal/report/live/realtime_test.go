package live

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/wire"
)

// The block has the words, fields, order and blanks of agentx-harness 1.0.12. Its numbers are those of the measured requests since the
// start, over the time from the first to the last token.
func TestRealtimeBlock(t *testing.T) {
	s := NewState(measure.Rules{}, 4)
	r := NewRealtime(s)
	require.Empty(t, r.Block(time.Second, Servers{}), "nothing is over")
	s.Add(bad(9, measure.CancelledAtEnd, wire.Cancelled))
	require.Empty(t, r.Block(2*time.Second, Servers{}))
	s.Add(bad(0, measure.Profiling, wire.HTTPStatus))
	require.Equal(t, strings.TrimSpace(`
[realtime 00:03 profiling]
  rps=- (avg -)  tput_in=-/s  tput_out=-/s  done=1 ok=0 err=1
  ttft    p50=-  p75=-  p95=-  p99=-
  itl     p50=-  p75=-  p95=-  p99=-
  e2e     p50=-  p75=-  p95=-  p99=-
  intvty  p50=-  p75=-  p95=-  p99=-  (1/tpot tok/s)`), strings.Join(r.Block(3*time.Second, Servers{}), "\n"))

	for k := range 100 {
		g := good(k, 0, 0.1, 0.02, 51)
		if k >= 50 {
			g.Sent, g.FirstToken, g.LastToken = measure.At(18.9), measure.At(19), measure.At(20) // the first was sent at 1 s
		}
		if k >= 90 {
			g.PromptTokens, g.FirstToken = measure.Tokens(128000), measure.At(18.95)
		}
		g.RecordedBlocks, g.RecordedHits = 8, 7
		s.Add(g)
	}
	warm := good(100, 0, 9, 9, 5)
	warm.Phase, warm.Bucket, warm.RecordedBlocks = measure.WarmupPhase, measure.WarmupBucket, 1000
	s.Add(warm)
	servers := Servers{
		Counters: map[string]float64{"vllm:prefix_cache_hits": 910, "vllm:prefix_cache_queries": 1000, "vllm:prompt_tokens": 1_480_000, "vllm:generation_tokens": 74},
		Gauges:   map[string]float64{"vllm:num_requests_running": 3, "vllm:num_requests_waiting": 1, "vllm:kv_cache_usage_perc": 0.125},
	}
	require.Equal(t, strings.TrimSpace(`
[realtime 01:14 profiling]
  rps=1.4 (avg 5.3)  tput_in=67,842/s  tput_out=268/s  done=101 ok=100 err=1
  ttft    p50=  100ms  p75=  100ms  p95=  100ms  p99=  100ms
  itl     p50=   20ms  p75=   20ms  p95=   21ms  p99=   21ms
  e2e     p50=1,103ms  p75=1,103ms  p95=1,103ms  p99=1,103ms
  intvty  p50=     50  p75=     50  p95=     50  p99=     50  (1/tpot tok/s)
  isl     p50=    100  p75=    100  p90=    100  p99=128,256  (tokens)
  osl     p50=     51  p75=     51  p90=     51  p99=     51  (tokens)
  tot     in=1,289,000  out=5,100
  trace  theoretical_prefix_cache_hit=87.5%
  srv    prefix_cache_hit=91.0% unique_in_srv=90 kv_usage=12.5% queue=3r/1w tput_in_srv=20,000/s tput_out_srv=1/s`),
		strings.Join(r.Block(74*time.Second, servers), "\n"), "1.1 s and 128,000 within 1 %")
	require.Empty(t, r.Block(80*time.Second, servers), "nothing has changed")
	servers.Gauges = map[string]float64{"sglang:token_usage": 0.5, "sglang:num_running_reqs": 2}
	servers.Counters = map[string]float64{"sglang:cached_tokens": 30, "sglang:prompt_tokens": 40}
	lines := r.Block(3671*time.Second, servers)
	require.Equal(t, "[realtime 1:01:11 profiling]", lines[0])
	require.Contains(t, lines[1], "rps=0.0 (avg ")
	require.Equal(t, "  srv    prefix_cache_hit=75.0% unique_in_srv=10 kv_usage=50.0% queue=2r/0w tput_in_srv=0/s", lines[len(lines)-1])
}
