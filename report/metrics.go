package report

import "github.com/agentx/agentx/replay/measure"

// metric is one number of a successful request.
type metric struct {
	tag, name, unit string
	of              func(r *row, rules *measure.Rules) (Number, bool) // nil: a list of the gaps between content messages
}

// requestMetrics are the metrics of a request in the order in which rows have them (doc/spec/replay.md 8.2, 8.11).
var requestMetrics = []metric{
	{"time_to_first_token", "Time to First Token", "ms", span((*row).ttft)},
	{"request_latency", "Request Latency", "ms", span((*row).latency)},
	{"inter_token_latency", "Inter Token Latency", "ms", perToken((*row).decode)},
	{"full_response_inter_token_latency", "Full Response Inter Token Latency", "ms", perToken((*row).fullDecode)},
	{"input_sequence_length", "Input Sequence Length", "tokens", tokens(func(r *row) int64 { return r.prompt })},
	{"output_sequence_length", "Output Sequence Length", "tokens", tokens((*row).osl)},
	{"time_to_second_token", "Time to Second Token", "ms", span(func(r *row) (int64, bool) { return r.secondToken - r.firstToken, r.secondToken != never })},
	{"time_to_first_output_token", "Time to First Output Token", "ms", span(func(r *row) (int64, bool) { return r.firstOutput - r.sent, r.firstOutput != never })},
	{"decode_duration", "Decode Duration", "ms", span((*row).decode)},
	{"full_decode_duration", "Full Decode Duration", "ms", span((*row).fullDecode)},
	{tag: interChunkLatency, name: "Inter Chunk Latency", unit: "ms"},
	{"output_token_throughput_per_user", "Output Token Throughput Per User", perUser, reciprocal((*row).decode)},
	{"full_response_output_token_throughput_per_user", "Full Response Output Token Throughput Per User", perUser, reciprocal((*row).fullDecode)},
	{"prefill_throughput_per_user", "Prefill Throughput Per User", perUser, ratePerUser(func(r *row) int64 { return r.prompt }, (*row).ttft)},
	{"e2e_output_token_throughput", "E2E Output Token Throughput", perUser, ratePerUser((*row).osl, (*row).latency)},
	{"due_to_sent_latency", "Due to Sent Latency", "ms", span(func(r *row) (int64, bool) { return r.sent - r.due - r.queued, true })},
	{"credit_to_start_latency", "Credit-to-Start Latency", "ms", span(func(r *row) (int64, bool) { return r.sent - r.admitted, true })},
	{"effective_latency", "Effective Latency (CO-aware)", "ms", span(func(r *row) (int64, bool) { return r.end - r.admitted, true })},
	{"http_req_blocked", "HTTP Blocked", "ms", span(func(r *row) (int64, bool) { return r.waitEnd - r.sent, r.waitEnd != never })},
	{"http_req_connecting", "HTTP Connecting", "ms", span((*row).connecting)},
	{"http_req_dns_lookup", "HTTP DNS Lookup", "ms", span(func(r *row) (int64, bool) { return 0, r.sendStart != never })}, // connecting has it
	{"http_req_sending", "HTTP Sending", "ms", step(func(r *row) (int64, int64) { return r.sendStart, r.sendEnd })},
	{"http_req_waiting", "HTTP Waiting (TTFB)", "ms", step(func(r *row) (int64, int64) { return r.sendEnd, r.firstByte })},
	{"http_req_receiving", "HTTP Receiving", "ms", step(func(r *row) (int64, int64) { return r.firstByte, r.lastByte })},
	{"http_req_data_sent", "HTTP Data Sent", "KB", kilobytes(func(r *row) int64 { return r.bytesSent })},
	{"http_req_data_received", "HTTP Data Received", "KB", kilobytes(func(r *row) int64 { return r.bytesReceived })},
	{"http_req_connection_reused", "HTTP Connection Reused", "ratio", reused},
	{"http_req_connection_overhead", "HTTP Connection Overhead", "ms", span((*row).overhead)},
	{"http_req_duration", "HTTP Duration (excl. conn)", "ms", step(func(r *row) (int64, int64) { return r.sendStart, r.lastByte })},
	{"http_req_total", "HTTP Total Time", "ms", span((*row).exchanged)},
	{"http_req_chunks_sent", "HTTP Chunks Sent", "count", counted(func(r *row) int64 { return min(1, r.bodyReads) })}, // a body is written as one
	{"http_req_chunks_received", "HTTP Chunks Received", "count", counted(func(r *row) int64 { return r.bodyReads })},
	{"first_chunk_tokens", "First Chunk Tokens", "tokens", firstChunkTokens},
	{"output_token_count", "Output Token Count", "tokens", tokens(func(r *row) int64 { return r.output })},
	{"reasoning_token_count", "Reasoning Token Count", "tokens", tokens(func(r *row) int64 { return r.reasoning })},
	{"usage_prompt_tokens", "Usage Prompt Tokens", "tokens", tokens(func(r *row) int64 { return r.prompt })},
	{"usage_completion_tokens", "Usage Completion Tokens", "tokens", tokens((*row).osl)},
	{"usage_reasoning_tokens", "Usage Reasoning Tokens", "tokens", tokens(func(r *row) int64 { return r.reasoning })},
	{"usage_total_tokens", "Usage Total Tokens", "tokens", tokens(func(r *row) int64 { return r.total })},
	{"usage_prompt_cache_read_tokens", "Usage Prompt Cache Read Tokens", "tokens", tokens(func(r *row) int64 { return r.cached })},
	{"usage_prompt_cache_write_tokens", "Usage Prompt Cache Write Tokens", "tokens", tokens(func(r *row) int64 { return r.cacheWrite })},
	{"usage_prompt_cache_miss_tokens", "Usage Prompt Cache Miss Tokens", "tokens", tokens(func(r *row) int64 { return r.cacheMiss })},
	{"osl_mismatch_diff_pct", "OSL Mismatch Diff %", "%", mismatch},
}

const (
	interChunkLatency = "inter_chunk_latency"
	perUser           = "tokens/sec/user"
)

// milliseconds returns a number of nanoseconds as a latency.
func milliseconds(ns float64) Number { return Float(ns / 1e6) }

type valueOf = func(r *row, rules *measure.Rules) (Number, bool)

// span returns a metric that is a time.
func span(of func(r *row) (ns int64, ok bool)) valueOf {
	return func(r *row, _ *measure.Rules) (Number, bool) {
		ns, ok := of(r)
		return milliseconds(float64(ns)), ok
	}
}

// step returns a metric that is the time between two instants on the connection.
func step(of func(r *row) (from, to int64)) valueOf {
	return span(func(r *row) (int64, bool) {
		from, to := of(r)
		return to - from, from != never && to != never
	})
}

// tokens returns a metric that is a number of tokens.
func tokens(of func(r *row) int64) valueOf {
	return func(r *row, _ *measure.Rules) (Number, bool) {
		n := of(r)
		return Int(n), n != unknown
	}
}

func kilobytes(of func(r *row) int64) valueOf {
	return func(r *row, _ *measure.Rules) (Number, bool) { return Float(float64(of(r)) / 1024), true }
}

// perToken returns a metric that divides a time by the tokens after the first chunk.
func perToken(of func(r *row) (ns int64, ok bool)) valueOf {
	return func(r *row, rules *measure.Rules) (Number, bool) {
		ns, ok := of(r)
		n, known := rules.Divisor(r.osl(), r.firstChunk)
		if !ok || !known {
			return Number{}, false
		}
		return milliseconds(float64(ns) / float64(n)), true
	}
}

// reciprocal returns a metric that is tokens per second: the reciprocal of perToken, absent where that is 0.
func reciprocal(of func(r *row) (ns int64, ok bool)) valueOf {
	return func(r *row, rules *measure.Rules) (Number, bool) {
		ns, ok := of(r)
		n, known := rules.Divisor(r.osl(), r.firstChunk)
		if !ok || !known || ns <= 0 {
			return Number{}, false
		}
		return Float(float64(n) * 1e9 / float64(ns)), true
	}
}

// ratePerUser returns a metric that is tokens per second over a time, absent where that is 0.
func ratePerUser(n func(r *row) int64, of func(r *row) (ns int64, ok bool)) valueOf {
	return func(r *row, _ *measure.Rules) (Number, bool) {
		ns, ok := of(r)
		count := n(r)
		if !ok || ns <= 0 || count == unknown {
			return Number{}, false
		}
		return Float(float64(count) * 1e9 / float64(ns)), true
	}
}

func (r *row) ttft() (int64, bool)       { return r.firstToken - r.sent, r.firstToken != never }
func (r *row) latency() (int64, bool)    { return r.lastToken - r.sent, r.lastToken != never }
func (r *row) decode() (int64, bool)     { return r.lastToken - r.firstToken, r.firstToken != never }
func (r *row) fullDecode() (int64, bool) { return r.done - r.firstToken, r.firstToken != never }

// connecting is 0 on a kept connection, which was connected before.
func (r *row) connecting() (int64, bool) {
	if r.connectStart == never {
		return 0, r.sendStart != never
	}
	return r.connectEnd - r.connectStart, r.connectEnd != never
}

// counted returns a metric that is a number of reads or writes, of which there is at least one.
func counted(of func(r *row) int64) valueOf {
	return func(r *row, _ *measure.Rules) (Number, bool) { return Int(of(r)), of(r) > 0 }
}

// overhead is the time before the request could be written: that for a connection of the pool, and for connecting.
func (r *row) overhead() (int64, bool) {
	ns, ok := r.connecting()
	return r.waitEnd - r.sent + ns, ok && r.waitEnd != never
}

// exchanged is the time of all steps on the connection.
func (r *row) exchanged() (int64, bool) {
	ns, ok := r.overhead()
	return r.lastByte - r.sendStart + ns, ok && r.sendStart != never && r.lastByte != never
}

func reused(r *row, _ *measure.Rules) (Number, bool) {
	if r.reused {
		return Int(1), true
	}
	return Int(0), true
}

// firstChunkTokens are told where a divisor can leave them out.
func firstChunkTokens(r *row, _ *measure.Rules) (Number, bool) {
	return Int(r.firstChunk), measure.UsableFirstChunk(r.osl(), r.firstChunk)
}

func mismatch(r *row, _ *measure.Rules) (Number, bool) {
	if r.asked <= 0 || r.osl() == unknown {
		return Number{}, false
	}
	return Float(float64(r.osl()-r.asked) / float64(r.asked) * 100), true
}
