package report

import "github.com/agentx/agentx/replay/measure"

// sums are what the scalars of a table are made of.
type sums struct {
	n, good     int          // requests that ended well; of these, those that meet the service levels
	first, last measure.Time // earliest sent, latest last token; last is never without one

	prompt, output, osl, total, reasoning, cached, cacheWrite, cacheMiss measure.TokenSum

	blocks, hits           int64
	mismatched, discrepant int
	divisor                measure.ITLDivisor

	delivered measure.DeliveredTotal
}

// Limits beyond which a request is counted (doc/spec/replay.md 1.5).
const (
	mismatchPercent    = 5  // of the tokens asked for
	mismatchTokens     = 50 // where that is less
	discrepancyPercent = 10 // of the recorded prompt
)

// add adds a request that ended well.
func (s *sums) add(r *row, rules *measure.Rules) {
	if s.n == 0 || r.Sent < s.first {
		s.first = r.Sent
	}
	s.n++
	if r.good {
		s.good++
	}
	s.last = max(s.last, r.LastToken)
	s.delivered.Add(&r.Numbers, r.good)
	for _, t := range []struct {
		sum *measure.TokenSum
		n   int64
	}{
		{&s.prompt, r.PromptTokens.N()}, {&s.output, r.OutputTokens.N()}, {&s.osl, r.OSL()}, {&s.total, r.TotalTokens.N()}, {&s.reasoning, r.ReasoningTokens.N()},
		{&s.cached, r.CachedTokens.N()}, {&s.cacheWrite, r.CacheWriteTokens.N()}, {&s.cacheMiss, r.CacheMissTokens.N()},
	} {
		t.sum.Add(t.n)
	}
	s.blocks += r.RecordedBlocks
	s.hits += r.HitBlocks()
	if off := abs(r.OSL() - r.MaxTokens); r.OSL() != unknown && r.MaxTokens > 0 && off*100 > min(r.MaxTokens*mismatchPercent, mismatchTokens*100) {
		s.mismatched++
	}
	if off := abs(r.PromptTokens.N() - r.RecordedISL); r.PromptTokens.N() != unknown && r.RecordedISL > 0 && off*100 > r.RecordedISL*discrepancyPercent {
		s.discrepant++
	}
	s.divisor.Add(&r.Numbers, *rules)
}

// abs returns a number without its sign.
func abs(n int64) int64 { return max(n, -n) }

// window returns the amounts that rates are made of, and the seconds that they divide by. phase is Missing if it did not come to its end.
func (s *sums) window(rules *measure.Rules, phase, deadline measure.Number) measure.ThroughputWindow {
	return rules.Window(measure.Span{
		Ended: s.n, First: float64(s.first) / 1e9, Last: float64(s.last) / 1e9, Phase: phase, Deadline: deadline, Delivered: s.delivered,
		Amount: measure.Amount{Requests: measure.Number(s.n), PromptTokens: measure.Number(s.prompt.Sum), OutputTokens: measure.Number(s.osl.Sum)},
	})
}

// scalar adds a block of one number.
func (t *tableBuilder) scalar(tag, name, unit string, n Number) {
	t.add(Block{tag, name, unit, Scalar, []Stat{{"avg", n}}})
}

// counts adds the numbers of requests, and the shares made of them.
func (t *tableBuilder) counts() {
	succeeded, failed := int64(t.sums.n), int64(t.failures)
	t.scalar("request_count", "Request Count", "requests", Int(succeeded))
	t.scalar("error_request_count", "Error Request Count", "requests", Int(failed))
	t.scalar("completed_request_count", "Completed Requests (Success + Error)", "requests", Int(succeeded+failed))
	t.scalar("osl_mismatch_count", "OSL Mismatch Count", "requests", Int(int64(t.sums.mismatched)))
	t.scalar("usage_discrepancy_count", "Usage Discrepancy Count", "requests", Int(int64(t.sums.discrepant)))
	if n := succeeded + failed; n > 0 {
		t.scalar("request_error_rate", "Request Error Rate", "%", Float(100*float64(failed)/float64(n)))
	}
	if !t.run.levels() {
		return
	}
	t.scalar("good_request_count", "Good Request Count", "requests", Int(int64(t.sums.good)))
	if n := succeeded + failed; n > 0 {
		t.scalar("good_request_fraction", "Good Request Fraction", "ratio", Float(float64(t.sums.good)/float64(n)))
	}
}

// levels reports whether the run has service levels.
func (run *Run) levels() bool { return len(run.Info.SLO) > 0 }

// totals adds the sums of tokens that some request has.
func (t *tableBuilder) totals() {
	s := &t.sums
	for _, x := range []struct {
		tag, name string
		sum       *measure.TokenSum
	}{
		{"total_isl", "Total Input Sequence Length", &s.prompt},
		{"total_osl", "Total Output Sequence Length", &s.osl},
		{"total_output_tokens", "Total Output Tokens", &s.output},
		{"total_reasoning_tokens", "Total Reasoning Tokens", &s.reasoning},
		{"total_usage_prompt_tokens", "Total Usage Prompt Tokens", &s.prompt},
		{"total_usage_completion_tokens", "Total Usage Completion Tokens", &s.osl},
		{"total_usage_reasoning_tokens", "Total Usage Reasoning Tokens", &s.reasoning},
		{"total_usage_total_tokens", "Total Usage Total Tokens", &s.total},
		{"total_usage_prompt_cache_read_tokens", "Total Usage Prompt Cache Read Tokens", &s.cached},
		{"total_usage_prompt_cache_write_tokens", "Total Usage Prompt Cache Write Tokens", &s.cacheWrite},
		{"total_usage_prompt_cache_miss_tokens", "Total Usage Prompt Cache Miss Tokens", &s.cacheMiss},
	} {
		if x.sum.Known > 0 {
			t.scalar(x.tag, x.name, "tokens", Int(x.sum.Sum))
		}
	}
	if s.cached.Known > 0 && s.prompt.Sum > 0 {
		t.scalar("overall_usage_prompt_cache_read_pct", "Overall Usage Prompt Cache Read %", "%", Float(100*float64(s.cached.Sum)/float64(s.prompt.Sum)))
	}
	if s.blocks > 0 {
		t.add(Block{"theoretical_prefix_cache_hit", "Theoretical Prefix Cache Hit", "%", Scalar, []Stat{
			{"avg", Float(100 * float64(s.hits) / float64(s.blocks))}, {"sum", Int(s.hits)}, {"count", Int(s.blocks)},
		}})
	}
}

// times adds the durations and instants of the requests that ended well.
func (t *tableBuilder) times() {
	s := &t.sums
	if s.n == 0 {
		return
	}
	t.scalar("min_request_timestamp", "Minimum Request Timestamp", "ns", Int(t.origin+int64(s.first)))
	if s.last != never {
		t.scalar("max_response_timestamp", "Maximum Response Timestamp", "ns", Int(t.origin+int64(s.last)))
	}
	if s.last > s.first {
		t.scalar("benchmark_duration", "Benchmark Duration", "sec", Float(float64(s.last-s.first)/1e9))
	}
}

// rates adds the throughputs over a number of seconds: of requests, of those that are good, and of tokens.
func (t *tableBuilder) rates(seconds measure.Number, requests, good, input, output Number) {
	if seconds.IsMissing() {
		return
	}
	over := func(n Number) Number { return Float(n.Float64() / float64(seconds)) }
	t.scalar("request_throughput", "Request Throughput", "requests/sec", over(requests))
	if t.run.levels() {
		t.scalar("goodput", "Goodput", "requests/sec", over(good))
	}
	if t.sums.prompt.Known > 0 {
		t.scalar("input_token_throughput", "Input Token Throughput", "tokens/sec", over(input))
	}
	if t.sums.osl.Known > 0 {
		t.scalar("output_token_throughput", "Output Token Throughput", "tokens/sec", over(output))
		t.scalar("total_token_throughput", "Total Token Throughput", "tokens/sec", over(Float(input.Float64()+output.Float64())))
	}
}
