package report

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/preset"
	"github.com/agentx/agentx/replay/wire"
)

// A request is counted when it lies beyond a limit, not at it: an answer 5 % or 50 tokens off what was asked for, a prompt 10 % off the
// recorded one.
func TestLimitsOfCounts(t *testing.T) {
	for _, c := range []struct {
		asked, output, recorded, prompt int64
		mismatched, discrepant          float64
	}{
		{100, 105, 1000, 1100, 0, 0}, {100, 106, 1000, 1101, 1, 1}, // above
		{100, 95, 1000, 900, 0, 0}, {100, 94, 1000, 899, 1, 1}, // below
		{9000, 9050, 9, 9, 0, 0}, {9000, 9051, 9, 10, 1, 1}, // 50 tokens are less than 5 %
		{0, 7, 0, 7, 0, 0}, // nothing to compare with
	} {
		r := success(0, second, c.prompt, c.output, 100*ms, 300*ms)
		r.MaxTokens, r.RecordedISL = c.asked, c.recorded
		h := compute(t, infoOf(preset.Default, 10), r).Headline
		requireStats(t, h, "osl_mismatch_count", map[string]float64{"avg": c.mismatched})
		requireStats(t, h, "usage_discrepancy_count", map[string]float64{"avg": c.discrepant})
		if c.asked == 0 {
			require.Nil(t, h.Find("osl_mismatch_diff_pct"))
			continue
		}
		diff := 100 * float64(c.output-c.asked) / float64(c.asked)
		require.InDelta(t, diff, value(t, h, "osl_mismatch_diff_pct", "avg"), 1e-9)
	}
}

// Every count of the usage has its own metric and its own sum. What no request has is left out, a rate without a prompt too.
func TestCountsOfUsage(t *testing.T) {
	r := success(0, second, 1000, 20, 100*ms, 300*ms)
	r.CachedTokens, r.ReasoningTokens, r.TotalTokens, r.CacheWriteTokens, r.CacheMissTokens = measure.Tokens(600), measure.Tokens(7), measure.Tokens(1028), measure.Tokens(300), measure.Tokens(101)
	h := compute(t, infoOf(preset.Default, 10), r, r).Headline
	for tag, n := range map[string]float64{
		"input_sequence_length": 1000, "output_sequence_length": 27, "output_token_count": 20, "reasoning_token_count": 7,
		"usage_prompt_tokens": 1000, "usage_completion_tokens": 27, "usage_total_tokens": 1028, "usage_prompt_cache_read_tokens": 600,
		"usage_prompt_cache_write_tokens": 300, "usage_prompt_cache_miss_tokens": 101,
	} {
		requireStats(t, h, tag, map[string]float64{"avg": n, "count": 2, "sum": 2 * n})
		if sum, ok := map[string]string{
			"input_sequence_length": "total_isl", "output_sequence_length": "total_osl", "output_token_count": "total_output_tokens",
			"reasoning_token_count": "total_reasoning_tokens",
		}[tag]; ok {
			requireStats(t, h, sum, map[string]float64{"avg": 2 * n})
			continue
		}
		requireStats(t, h, "total_"+tag, map[string]float64{"avg": 2 * n})
	}
	requireStats(t, h, "overall_usage_prompt_cache_read_pct", map[string]float64{"avg": 60})

	r.PromptTokens = measure.Tokens(0)
	require.Nil(t, compute(t, infoOf(preset.Default, 10), r).Headline.Find("overall_usage_prompt_cache_read_pct"))
	r.CachedTokens, r.TotalTokens, r.CacheWriteTokens, r.CacheMissTokens, r.OutputTokens, r.ReasoningTokens = 0, 0, 0, 0, 0, 0
	h = compute(t, infoOf(preset.Default, 10), r).Headline
	for _, b := range h {
		require.NotContains(t, []string{
			"total_osl", "total_usage_completion_tokens", "total_usage_total_tokens", "total_usage_prompt_cache_read_tokens", "total_usage_prompt_cache_write_tokens",
			"total_usage_prompt_cache_miss_tokens", "output_sequence_length", "usage_total_tokens", "osl_mismatch_diff_pct", "output_token_throughput",
		}, b.Tag)
	}
	requireStats(t, h, "osl_mismatch_count", map[string]float64{"avg": 0})
}

// The cooldown divides by the window of the same kind as the headline.
func TestThroughputOfTheCooldown(t *testing.T) {
	late := success(9*second, 12*second, 100, 10, 500*ms, 2000*ms)
	late.Bucket = measure.Cooldown
	info := infoOf(preset.Default, 20)
	for window, seconds := range map[string]float64{`"benchmark"`: 2, `"phase"`: 20} {
		info.Switches = map[string]json.RawMessage{"ThroughputWindow": json.RawMessage(window)}
		requireStats(t, compute(t, info, late).Cooldown, "request_throughput", map[string]float64{"avg": 1 / seconds})
	}
}

// The steady table has the requests that were sent by the deadline, be it at its very instant; not one that left a nanosecond later.
func TestSteadyStartsInItsWindow(t *testing.T) {
	list := []measure.Record{success(10*second, 11*second, 100, 10, 500*ms), success(10*second+1, 11*second, 100, 10, 600*ms, 700*ms)}
	bad := failure(10*second+1, 11*second, wire.HTTPStatus)
	for k := range list {
		list[k].Admitted, list[k].Bucket = measure.At(9.9), measure.Cooldown
	}
	bad.Bucket = measure.Cooldown
	info := infoOf(preset.Default, 12)
	info.Facts.Deadline = 10
	s := compute(t, info, append(list, bad)...).Steady
	requireStats(t, s, "time_to_first_token", map[string]float64{"avg": 500, "count": 1})
	requireStats(t, s, "request_count", map[string]float64{"avg": 1})
	requireStats(t, s, "error_request_count", map[string]float64{"avg": 0})
	require.Nil(t, s.Find(interChunkLatency))
}
