package report

import (
	"cmp"
	"slices"

	"github.com/agentx/agentx/replay/measure"
)

// metric is one number of a successful request.
type metric struct {
	tag, name, unit string
	of              func(r *row, rules *measure.Rules) (Number, bool) // nil: a list of the gaps between content messages
}

// requestMetrics are the metrics of a request in the order in which rows have them (doc/spec/replay.md 8.2, 8.11).
var requestMetrics = []metric{
	{"time_to_first_token", "Time to First Token", "ms", span(took((*row).TTFT))},
	{"request_latency", "Request Latency", "ms", span(took((*row).Latency))},
	{"inter_token_latency", "Inter Token Latency", "ms", perToken(took((*row).Decode))},
	{"full_response_inter_token_latency", "Full Response Inter Token Latency", "ms", perToken((*row).fullDecode)},
	{"input_sequence_length", "Input Sequence Length", "tokens", tokens(func(r *row) int64 { return r.PromptTokens.N() })},
	{"output_sequence_length", "Output Sequence Length", "tokens", tokens((*row).OSL)},
	{"time_to_second_token", "Time to Second Token", "ms", span(func(r *row) (measure.Time, bool) { return r.SecondToken - r.FirstToken, r.SecondToken != never })},
	{"time_to_first_output_token", "Time to First Output Token", "ms", span(func(r *row) (measure.Time, bool) { return r.FirstOutput - r.Sent, r.FirstOutput != never })},
	{"decode_duration", "Decode Duration", "ms", span(took((*row).Decode))},
	{"full_decode_duration", "Full Decode Duration", "ms", span((*row).fullDecode)},
	{tag: interChunkLatency, name: "Inter Chunk Latency", unit: "ms"},
	{"output_token_throughput_per_user", "Output Token Throughput Per User", perUser, reciprocal(took((*row).Decode))},
	{"full_response_output_token_throughput_per_user", "Full Response Output Token Throughput Per User", perUser, reciprocal((*row).fullDecode)},
	{"prefill_throughput_per_user", "Prefill Throughput Per User", perUser, prefillPerUser},
	{"e2e_output_token_throughput", "E2E Output Token Throughput", perUser, ratePerUser((*row).OSL, took((*row).Latency))},
	{"due_to_sent_latency", "Due to Sent Latency", "ms", span(func(r *row) (measure.Time, bool) { return r.Lateness(), true })},
	{"credit_to_start_latency", "Credit-to-Start Latency", "ms", span(func(r *row) (measure.Time, bool) { return r.Sent - r.Admitted, true })},
	{"effective_latency", "Effective Latency (CO-aware)", "ms", span(func(r *row) (measure.Time, bool) { return r.End - r.Admitted, true })},
	{"http_req_blocked", "HTTP Blocked", "ms", span(func(r *row) (measure.Time, bool) { return r.WaitEnd - r.Sent, r.WaitEnd != never })},
	{"http_req_connecting", "HTTP Connecting", "ms", span((*row).connecting)},
	{"http_req_dns_lookup", "HTTP DNS Lookup", "ms", span(func(r *row) (measure.Time, bool) { return 0, r.SendStart != never })}, // connecting has it
	{"http_req_sending", "HTTP Sending", "ms", step(func(r *row) (from, to measure.Time) { return r.SendStart, r.SendEnd })},
	{"http_req_waiting", "HTTP Waiting (TTFB)", "ms", step(func(r *row) (from, to measure.Time) { return r.SendEnd, r.FirstByte })},
	{"http_req_receiving", "HTTP Receiving", "ms", step(func(r *row) (from, to measure.Time) { return r.FirstByte, r.LastByte })},
	{"http_req_data_sent", "HTTP Data Sent", "KB", kilobytes(func(r *row) int64 { return r.BytesSent })},
	{"http_req_data_received", "HTTP Data Received", "KB", kilobytes(func(r *row) int64 { return r.BytesReceived })},
	{"http_req_connection_reused", "HTTP Connection Reused", "ratio", reused},
	{"http_req_connection_overhead", "HTTP Connection Overhead", "ms", span((*row).overhead)},
	{"http_req_duration", "HTTP Duration (excl. conn)", "ms", step(func(r *row) (from, to measure.Time) { return r.SendStart, r.LastByte })},
	{"http_req_total", "HTTP Total Time", "ms", span((*row).exchanged)},
	{"http_req_chunks_sent", "HTTP Chunks Sent", "count", counted(func(r *row) int64 { return int64(min(1, r.BodyReads)) })}, // a body is written as one
	{"http_req_chunks_received", "HTTP Chunks Received", "count", counted(func(r *row) int64 { return int64(r.BodyReads) })},
	{"first_chunk_tokens", "First Chunk Tokens", "tokens", firstChunkTokens},
	{"output_token_count", "Output Token Count", "tokens", tokens(func(r *row) int64 { return r.OutputTokens.N() })},
	{"reasoning_token_count", "Reasoning Token Count", "tokens", tokens(func(r *row) int64 { return r.ReasoningTokens.N() })},
	{"usage_prompt_tokens", "Usage Prompt Tokens", "tokens", tokens(func(r *row) int64 { return r.PromptTokens.N() })},
	{"usage_completion_tokens", "Usage Completion Tokens", "tokens", tokens((*row).OSL)},
	{"usage_reasoning_tokens", "Usage Reasoning Tokens", "tokens", tokens(func(r *row) int64 { return r.ReasoningTokens.N() })},
	{"usage_total_tokens", "Usage Total Tokens", "tokens", tokens(func(r *row) int64 { return r.TotalTokens.N() })},
	{"usage_prompt_cache_read_tokens", "Usage Prompt Cache Read Tokens", "tokens", tokens(func(r *row) int64 { return r.CachedTokens.N() })},
	{"usage_prompt_cache_write_tokens", "Usage Prompt Cache Write Tokens", "tokens", tokens(func(r *row) int64 { return r.CacheWriteTokens.N() })},
	{"usage_prompt_cache_miss_tokens", "Usage Prompt Cache Miss Tokens", "tokens", tokens(func(r *row) int64 { return r.CacheMissTokens.N() })},
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
func span(of func(r *row) (ns measure.Time, ok bool)) valueOf {
	return func(r *row, _ *measure.Rules) (Number, bool) {
		ns, ok := of(r)
		return milliseconds(float64(ns)), ok
	}
}

// took returns a time as its nanoseconds.
func took(of func(r *row) (measure.Lapse, bool)) func(r *row) (measure.Time, bool) {
	return func(r *row) (measure.Time, bool) {
		l, ok := of(r)
		return l.To - l.From, ok
	}
}

// step returns a metric that is the time between two instants on the connection.
func step(of func(r *row) (from, to measure.Time)) valueOf {
	return span(func(r *row) (measure.Time, bool) {
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

// kilobytes returns a metric that is a number of bytes in KB.
func kilobytes(of func(r *row) int64) valueOf {
	return func(r *row, _ *measure.Rules) (Number, bool) { return Float(float64(of(r)) / 1024), true }
}

// perToken returns a metric that divides a time by the tokens after the first chunk.
func perToken(of func(r *row) (ns measure.Time, ok bool)) valueOf {
	return func(r *row, rules *measure.Rules) (Number, bool) {
		ns, ok := of(r)
		n, known := rules.Divisor(&r.Numbers)
		if !ok || !known {
			return Number{}, false
		}
		return milliseconds(float64(ns) / float64(n)), true
	}
}

// reciprocal returns a metric that is tokens per second: the reciprocal of perToken, absent where that is 0.
func reciprocal(of func(r *row) (ns measure.Time, ok bool)) valueOf {
	return func(r *row, rules *measure.Rules) (Number, bool) {
		ns, ok := of(r)
		n, known := rules.Divisor(&r.Numbers)
		if !ok || !known || ns <= 0 {
			return Number{}, false
		}
		return Float(float64(n) * 1e9 / float64(ns)), true
	}
}

// ratePerUser returns a metric that is tokens per second over a time, absent where that is 0.
func ratePerUser(n func(r *row) int64, of func(r *row) (ns measure.Time, ok bool)) valueOf {
	return func(r *row, _ *measure.Rules) (Number, bool) {
		ns, ok := of(r)
		count := n(r)
		if !ok || ns <= 0 || count == unknown {
			return Number{}, false
		}
		return Float(float64(count) * 1e9 / float64(ns)), true
	}
}

var prefillPerUser = ratePerUser(func(r *row) int64 { return r.PromptTokens.N() }, took((*row).TTFT))

// fullDecode is the time from the first token until the client was done with the request.
func (r *row) fullDecode() (measure.Time, bool) { return r.done - r.FirstToken, r.FirstToken != never }

// connecting is the time that it took to connect: 0 on a connection that was used before.
func (r *row) connecting() (measure.Time, bool) {
	if r.ConnectStart == never {
		return 0, r.SendStart != never
	}
	return r.ConnectEnd - r.ConnectStart, r.ConnectEnd != never
}

// counted returns a metric that is a number of reads or writes; a request without any does not have it.
func counted(of func(r *row) int64) valueOf {
	return func(r *row, _ *measure.Rules) (Number, bool) { return Int(of(r)), of(r) > 0 }
}

// overhead is the time before the request could be written: that for a connection of the pool, and for connecting.
func (r *row) overhead() (measure.Time, bool) {
	ns, ok := r.connecting()
	return r.WaitEnd - r.Sent + ns, ok && r.WaitEnd != never
}

// exchanged is the time of all steps on the connection.
func (r *row) exchanged() (measure.Time, bool) {
	ns, ok := r.overhead()
	return r.LastByte - r.SendStart + ns, ok && r.SendStart != never && r.LastByte != never
}

// reused is 1 on a connection that was used before, else 0.
func reused(r *row, _ *measure.Rules) (Number, bool) {
	if r.Reused {
		return Int(1), true
	}
	return Int(0), true
}

// firstChunkTokens are the tokens of the first chunk, which some divisors leave out.
func firstChunkTokens(r *row, _ *measure.Rules) (Number, bool) {
	return Int(r.FirstChunk()), r.FirstChunk() != unknown
}

// mismatch is by how many percent of the tokens asked for the answer is longer.
func mismatch(r *row, _ *measure.Rules) (Number, bool) {
	if r.MaxTokens <= 0 || r.OSL() == unknown {
		return Number{}, false
	}
	return Float(float64(r.OSL()-r.MaxTokens) / float64(r.MaxTokens) * 100), true
}

// errorISL is the metric of the prompts of answers without content.
const errorISL = "error_isl"

// harnessMetrics are the metrics of a request in a run that was played as agentx-harness plays (doc/spec/results.md 15.10). Its bytes
// are those of bodies, where the record tells them: that of an older agentx does not.
var harnessMetrics = slices.Concat(slices.DeleteFunc(slices.Clone(requestMetrics), func(m metric) bool {
	return m.tag == "http_req_data_sent" || m.tag == "http_req_data_received"
}), []metric{
	{"http_req_data_sent", "HTTP Data Sent", "KB", kilobytes(func(r *row) int64 { return cmp.Or(r.BodySent, r.BytesSent) })},
	{"http_req_data_received", "HTTP Data Received", "KB", kilobytes(func(r *row) int64 { return cmp.Or(r.BodyReceived, r.BytesReceived) })},
})

// asHarness sets the end of a request to the one that the harness has: its last message. A failed request keeps its own end.
func (r *row) asHarness(of *measure.Record) {
	r.rowEnd = rowEnd(of)
	if of.LastMessage > 0 {
		r.End = of.LastMessage
	}
}

// rowEnd returns when a request ends in a row of the harness: with its last message, with an error status when it starts.
func rowEnd(r *measure.Record) measure.Time {
	switch {
	case r.Error != nil && r.Status != 0 && r.Status/100 != 2:
		return r.Sent
	case r.LastMessage > 0:
		return r.LastMessage
	}
	return r.End
}

// between returns the nanoseconds from one instant to another as the harness computes them: from instants as floats, of which
// neighbours are 256 ns apart.
func (t *tableBuilder) between(from, to measure.Time) float64 {
	return float64(t.origin+int64(to)) - float64(t.origin+int64(from))
}

// OfRows ends the tag of a metric in the form that the harness computes from the instants of its rows.
const OfRows = "_of_rows"

// fromRows adds the metrics that the harness computes from the instants of its rows: times since a request was admitted, of failed requests
// too.
func (t *tableBuilder) fromRows() {
	for _, m := range []struct {
		tag, name string
		to        func(r *row) measure.Time
	}{
		{"credit_to_start_latency", "Credit-to-Start Latency", func(r *row) measure.Time { return r.Sent }},
		{"effective_latency", "Effective Latency (CO-aware)", func(r *row) measure.Time { return r.rowEnd }},
	} {
		t.scratch.reset()
		t.each(func(r *row) {
			if !r.apart {
				t.scratch.add(milliseconds(max(0, t.between(r.Admitted, m.to(r)))))
			}
		})
		if len(t.scratch.values) > 0 {
			t.add(Block{m.tag + OfRows, m.name, "ms", Distribution, t.scratch.distribution()})
		}
	}
}

// metrics returns the metrics of a request by the run's preset.
func (run *Run) metrics() []metric {
	if run.Harness() {
		return harnessMetrics
	}
	return requestMetrics
}

// harness adds the blocks that only a run played as the harness has.
func (t *tableBuilder) harness() {
	if !t.run.Harness() {
		return
	}
	t.fromRows()
	t.scratch.reset()
	t.each(func(r *row) {
		if r.noContent && r.PromptTokens.N() != unknown {
			t.scratch.add(Int(r.PromptTokens.N()))
		}
	})
	if len(t.scratch.values) == 0 {
		return
	}
	t.add(Block{errorISL, "Error Input Sequence Length", "tokens", Distribution, t.scratch.distribution()})
	t.scalar("total_error_isl", "Total Error Input Sequence Length", "tokens", Int(t.scratch.sum))
}
