package simulate

import (
	"math"
	"slices"

	"github.com/agentx/agentx/replay/measure"
)

// dynamo returns the flat object that users of Dynamo's report read, in milliseconds: doc/spec/simulate.md 9.4. wall is how long
// the run took, in seconds.
func (r *Result) dynamo(s *Summary, wall float64) map[string]any {
	rate := func(tokens int64) measure.Number { return perSecond(tokens, r.Duration) }
	o := map[string]any{
		"num_requests": s.Requests, "completed_requests": s.Completed, "total_input_tokens": s.InputTokens, "total_output_tokens": s.OutputTokens,
		"duration_ms": float64(r.Duration) / 1e6, "wall_time_ms": wall * 1e3, "request_throughput_rps": s.RequestRate,
		"input_throughput_tok_s": rate(s.InputTokens), "output_throughput_tok_s": rate(s.OutputTokens), "total_throughput_tok_s": rate(s.InputTokens + s.OutputTokens),
		"prefix_cache_reused_ratio": s.ReuseMax, "first_admission_prefix_cache_reused_ratio": s.Reuse,
	}
	add := func(name string, d Distribution, factor float64) {
		for stat, v := range d.named() {
			o[stat+"_"+name] = v * measure.Number(factor)
		}
	}
	add("ttft_ms", s.TTFT, 1e3)
	add("ttst_ms", s.TTST, 1e3)
	add("tpot_ms", s.ITL, 1e3)
	add("itl_ms", s.TokenGap, 1e3)
	add("e2e_latency_ms", s.RequestLatency, 1e3)
	add("output_token_throughput_per_user", r.tokensPerUser(), 1)
	return o
}

// named returns the nine figures under the names of Dynamo's report.
func (d *Distribution) named() map[string]measure.Number {
	return map[string]measure.Number{
		"mean": d.Mean, "min": d.Min, "max": d.Max, "median": d.P50, "p75": d.P75, "p90": d.P90, "p95": d.P95, "p99": d.P99, "std": d.Std,
	}
}

// tokensPerUser returns the distribution of the inverse of every gap, per second, within a thousandth. Gaps of no time have none.
func (r *Result) tokensPerUser() Distribution {
	var values, counts []float64
	n, mean := 0.0, 0.0
	for ns, count := range r.Gaps.All() {
		if ns > 0 {
			values, counts = append(values, 1e9/ns), append(counts, float64(count))
			n += float64(count)
			mean += float64(float64(count) * 1e9 / ns)
		}
	}
	if n == 0 {
		return distributionOf[int64](nil)
	}
	mean /= n
	squares := 0.0
	for k, v := range values {
		squares += float64(counts[k] * float64((v-mean)*(v-mean)))
	}
	at := func(q float64) measure.Number {
		left := math.Floor((n-1)*q/100 + 0.5)
		for k, v := range slices.Backward(values) { // gaps rise, so rates fall
			if left -= counts[k]; left < 0 {
				return measure.Number(v)
			}
		}
		return measure.Number(values[0])
	}
	return Distribution{
		Mean: measure.Number(mean), Min: at(0), Max: at(100), Std: measure.Number(math.Sqrt(squares / n)),
		P50: at(50), P75: at(75), P90: at(90), P95: at(95), P99: at(99), N: int64(n),
	}
}
