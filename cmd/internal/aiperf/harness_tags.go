package aiperf

import "github.com/agentx/agentx/report"

// harnessStats are the statistics of a block in the order of the harness.
var harnessStats = []string{"avg", "p1", "p5", "p10", "p25", "p50", "p75", "p90", "p95", "p99", "min", "max", "std", "count", "sum"}

// group is a table of the console file.
type group uint8

// The groups, in the order of their tables.
const (
	unseen group = iota
	effective
	active
	usage
	general
)

// Where metrics stand.
const (
	everywhere = inRows | inWhole | inSlices
	overTime   = inWhole | inSlices
)

// harnessTags are the metrics of agentx-harness 1.0.12. The harness writes those that do not stand at the head of an aggregate, and
// those of rows and slices, in an order that differs from run to run; here it is always this one.
var harnessTags = []tag{
	{tag: "request_throughput", in: overTime, head: true, group: general, order: 900},
	{tag: "request_latency", in: everywhere, head: true, group: general, order: 300},
	{tag: "request_count", in: overTime, head: true, when: succeeded, group: general, order: 1100},
	{tag: "time_to_first_token", in: everywhere, head: true, group: general, order: 100},
	{tag: "time_to_second_token", in: everywhere, head: true, group: general, order: 200},
	{tag: "inter_token_latency", in: everywhere, head: true, group: general, order: 400},
	{tag: "output_token_throughput", in: overTime, head: true, group: general, order: 800},
	{tag: "output_token_throughput_per_user", in: everywhere, head: true, group: general, order: 500},
	{tag: "full_decode_duration", in: everywhere, head: true, group: general, order: 360},
	{tag: "full_response_inter_token_latency", in: everywhere, head: true, name: "Full-Response Inter Token Latency", group: general, order: 410},
	{tag: "full_response_output_token_throughput_per_user", in: everywhere, head: true, name: "Full-Response Output Token Throughput Per User", group: general, order: 520},
	{tag: "output_sequence_length", in: everywhere, head: true, group: general, order: 600},
	{tag: "input_sequence_length", in: everywhere, head: true, group: general, order: 700},
	{tag: "goodput", in: overTime, head: true, group: general, order: 1000},
	{tag: "good_request_count", in: overTime, head: true},
	{tag: "output_token_count", in: everywhere, head: true},
	{tag: "reasoning_token_count", in: everywhere, head: true},
	{tag: "inter_chunk_latency", in: everywhere, head: true},
	{tag: "total_output_tokens", in: overTime, head: true},
	{tag: "total_reasoning_tokens", in: overTime, head: true},
	{tag: "benchmark_duration", in: overTime, head: true},
	{tag: "total_isl", in: overTime, head: true},
	{tag: "total_osl", in: overTime, head: true},
	{tag: "error_request_count", in: overTime, head: true, when: failed},
	{tag: "error_isl", in: everywhere, head: true},
	{tag: "total_error_isl", in: overTime, head: true},

	{tag: "time_to_first_output_token", in: everywhere, group: general, order: 210},
	{tag: "decode_duration", in: everywhere, group: general, order: 350},
	{tag: "prefill_throughput_per_user", in: everywhere},
	{tag: "e2e_output_token_throughput", in: everywhere, group: general, order: 510},
	{tag: "http_req_blocked", in: everywhere},
	{tag: "http_req_dns_lookup", in: everywhere},
	{tag: "http_req_connecting", in: everywhere},
	{tag: "http_req_sending", in: everywhere},
	{tag: "http_req_waiting", in: everywhere},
	{tag: "http_req_receiving", in: everywhere},
	{tag: "http_req_connection_reused", in: everywhere},
	{tag: "http_req_data_sent", in: everywhere},
	{tag: "http_req_chunks_sent", in: everywhere},
	{tag: "http_req_data_received", in: everywhere},
	{tag: "http_req_chunks_received", in: everywhere},
	{tag: "http_req_connection_overhead", in: everywhere},
	{tag: "http_req_duration", in: everywhere},
	{tag: "http_req_total", in: everywhere},
	{tag: "usage_prompt_tokens", in: everywhere, group: usage, order: 1000},
	{tag: "usage_prompt_cache_read_tokens", in: everywhere, group: usage, order: 1010},
	{tag: "usage_prompt_cache_write_tokens", in: everywhere, group: usage, order: 1015},
	{tag: "usage_prompt_cache_miss_tokens", in: everywhere, group: usage, order: 1017},
	{tag: "usage_completion_tokens", in: everywhere, group: usage, order: 1100},
	{tag: "usage_reasoning_tokens", in: everywhere, group: usage, order: 1110},
	{tag: "usage_total_tokens", in: everywhere, group: usage, order: 1200},
	{tag: "osl_mismatch_diff_pct", in: everywhere},
	{tag: "osl_mismatch_count", in: overTime, when: has("osl_mismatch_diff_pct")},
	{tag: "good_request_fraction", in: overTime, name: "GoodRequestFraction"},
	{tag: "context_overflow_count", in: overTime, name: "Context Overflow Count", unit: "requests", when: failedOrOverflowed, zero: failed},
	{tag: "skipped_context_overflow_count", in: inWhole, when: above("skipped_context_overflow_count")},
	{tag: "completed_request_count", in: overTime, when: mixed, group: general, order: 1075},
	{tag: "request_error_rate", in: overTime, when: mixed, group: general, order: 1080},
	{tag: "total_usage_prompt_tokens", in: overTime, group: usage, order: 2000},
	{tag: "total_usage_prompt_cache_read_tokens", in: overTime, group: usage, order: 2010},
	{tag: "overall_usage_prompt_cache_read_pct", in: overTime, group: usage, order: 2012},
	{tag: "total_usage_prompt_cache_write_tokens", in: overTime, group: usage, order: 2015},
	{tag: "total_usage_prompt_cache_miss_tokens", in: overTime, group: usage, order: 2017},
	{tag: "total_usage_completion_tokens", in: overTime, group: usage, order: 2100},
	{tag: "total_usage_reasoning_tokens", in: overTime, group: usage, order: 2110},
	{tag: "total_usage_total_tokens", in: overTime, group: usage, order: 2200},
	{tag: "input_token_throughput", in: overTime, group: general, order: 805},
	{tag: "total_token_throughput", in: overTime},
	{tag: "adj_request_latency", in: overTime, group: general, order: 5001},
	{tag: "adj_time_to_first_token", in: overTime, group: general, order: 5002},
	{tag: "adj_full_decode_duration", in: overTime, group: general, order: 5003},
	{tag: "adj_decode_duration", in: overTime, group: general, order: 5004},
	{tag: "adj_inter_token_latency", in: overTime, group: general, order: 5005},
	{tag: "adj_full_response_inter_token_latency", in: overTime, name: "Full-Response Inter Token Latency (error-adjusted)", group: general, order: 5006},
	{tag: "effective_concurrency", in: overTime, group: effective, order: 1},
	{tag: "effective_decode_throughput", in: overTime, group: effective, order: 2},
	{tag: "effective_prefill_throughput", in: overTime, group: effective, order: 3},
	{tag: "effective_decode_concurrency", in: overTime, group: effective, order: 4},
	{tag: "effective_prefill_concurrency", in: overTime, group: effective, order: 5},
	{tag: "effective_total_throughput", in: overTime, group: effective, order: 6},
	{tag: "effective_decode_throughput_per_user", in: overTime, group: effective, order: 7},
	{tag: "effective_prefill_throughput_per_user", in: overTime, group: effective, order: 8},
	{tag: "tokens_in_flight", in: overTime, group: effective, order: 9},
	{tag: "active_decode_throughput", in: overTime, name: "Active Decode Throughput", unit: "tokens/sec", zero: has("effective_decode_throughput"), group: active, order: 1},
	{tag: "active_prefill_throughput", in: overTime, name: "Active Prefill Throughput", unit: "tokens/sec", zero: has("effective_prefill_throughput"), group: active, order: 2},
	{tag: "active_decode_throughput_per_user", in: overTime, name: "Active Decode Throughput Per User", unit: "tokens/sec/user", zero: has("effective_decode_throughput_per_user"), group: active, order: 3},
	{tag: "active_prefill_throughput_per_user", in: overTime, name: "Active Prefill Throughput Per User", unit: "tokens/sec/user", zero: has("effective_prefill_throughput_per_user"), group: active, order: 4},
	{tag: "active_total_throughput", in: overTime, name: "Active Total Throughput", unit: "tokens/sec", zero: has("effective_total_throughput"), group: active, order: 5},
	{tag: "credit_to_start_latency", from: "credit_to_start_latency" + report.OfRows, in: inWhole},
	{tag: "effective_latency", from: "effective_latency" + report.OfRows, in: inWhole, group: effective, order: 10},
	{tag: "theoretical_prefix_cache_hit", in: inWhole, group: general, order: 6000},
}

// has returns whether a table has a metric.
func has(tag string) func(report.Table) bool {
	return func(t report.Table) bool { return t.Find(tag) != nil }
}

// above returns whether a metric of a table is above 0.
func above(tag string) func(report.Table) bool {
	return func(t report.Table) bool {
		b := t.Find(tag)
		if b == nil {
			return false
		}
		n, _ := b.Find("avg")
		return n.Float64() > 0
	}
}

// What a table is about: requests that ended well, requests that failed, both, failures or overflows.
var (
	succeeded, failed  = above("request_count"), above("error_request_count")
	mixed              = func(t report.Table) bool { return succeeded(t) && failed(t) }
	failedOrOverflowed = func(t report.Table) bool { return failed(t) || above("context_overflow_count")(t) }
)

// zeros returns the block of a metric that is 0: of a curve all statistics.
func zeros(m *tag) *report.Block {
	b := report.Block{Tag: m.tag, Name: m.name, Unit: m.unit, Kind: report.Scalar, Stats: []report.Stat{{Name: "avg"}}}
	if m.group == active {
		b.Kind = report.Curve
		for _, name := range []string{"p50", "p90", "p95", "p99", "min", "max", "std"} {
			b.Stats = append(b.Stats, report.Stat{Name: name})
		}
	}
	return &b
}
