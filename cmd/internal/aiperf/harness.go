package aiperf

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/wire"
	"github.com/agentx/agentx/report"
)

// harnessVersion is the version of the harness whose files these are.
const harnessVersion = "1.0.12"

// harnessMetadata changes the metadata of a row to that of the harness: the warmup has no name, and an answer with an error status ends
// when the request starts, and is not acknowledged.
func harnessMetadata(m *Metadata, r *measure.Record) {
	if r.Bucket == measure.WarmupBucket {
		m.PhaseName = ""
	}
	if r.Error != nil && isErrorStatus(r.Status) {
		m.RequestAck, m.RequestEnd = 0, m.RequestStart
	}
}

// isErrorStatus reports whether a server answered, with another HTTP status than 2xx.
func isErrorStatus(status int) bool { return status != 0 && status/100 != 2 }

// rowless reports whether the harness writes no row for a request: it did not fit the context, or the run cancelled it.
func rowless(r *measure.Record) bool {
	return excluded(r) || r.Error != nil && (r.Error.Category == wire.ContextOverflow || r.Error.Category == wire.Cancelled)
}

// harnessCSV returns the table of the CSV: without the overflows, which the harness counts for the JSON alone.
func harnessCSV(t report.Table) report.Table {
	t = slices.DeleteFunc(sorted(t), func(b report.Block) bool {
		return b.Tag == "skipped_context_overflow_count" || b.Tag == "context_overflow_count" && !failed(t)
	})
	if b := t.Find("context_overflow_count"); b != nil {
		b.Stats = []report.Stat{{Name: "avg", Value: report.Float(0)}}
	}
	return t
}

// harnessAggregate returns the JSON file of the whole run as the harness writes it.
func (w *writer) harnessAggregate() object {
	run, f := w.run, w.run.Info.Facts
	o := object{
		{"schema_version", run.Rules().SchemaVersion}, {"aiperf_version", harnessVersion}, {"benchmark_id", harnessID(run.Info.BenchmarkID)},
	}
	w.addMetrics(&o, w.shown.Headline, true)
	o.add("input_config", w.harnessInput())
	o.add("run_info", launchInfo(run, harnessID(run.Info.BenchmarkID)))
	o.add("was_cancelled", f != nil && f.Cancelled)
	o.add("error_summary", errorSummary(inOrder(w.results.Errors), harnessError))
	if start, end := w.results.Start, max(w.results.End, w.results.PhaseEnd); end > start {
		o.add("start_time", localText(start))
		o.add("end_time", localText(end))
	}
	if f != nil && !f.Cancelled {
		o.add("branch_stats", harnessBranches(&f.Branches))
	}
	if w.shown.Warmup != nil {
		warmup := object{}
		warmup.addTable(w.shown.Warmup)
		o.add("warmup_metrics", warmup)
	}
	w.addMetrics(&o, w.shown.Headline, false)
	o.add("metadata", w.harnessMetadata())
	return o
}

// addMetrics adds the metrics of a table that the aggregate has at its head, or without head the others.
func (w *writer) addMetrics(o *object, t report.Table, head bool) {
	for _, m := range harnessTags {
		if b := t.Find(m.tag); b != nil && m.head == head {
			o.add(m.tag, blockObject(b))
		}
	}
}

// harnessBranches returns the counters of children under the names of the harness. It counts a child that was live when its tree was resumed
// as spawned.
func harnessBranches(b *measure.BranchCounts) object {
	return object{
		{"children_spawned", b.ChildrenSpawned + b.ChildrenResumed}, {"children_completed", b.ChildrenCompleted},
		{"children_errored", b.ChildrenErrored}, {"children_truncated", b.ChildrenTruncated}, {"children_delayed", b.ChildrenDelayed},
		{"parents_suspended", b.ParentsSuspended}, {"parents_resumed", b.ParentsResumed}, {"parents_failed_due_to_child_error", 0},
		{"joins_suppressed", b.JoinsSuppressed},
	}
}

// harnessMetadata returns the object metadata of the harness, with everything else that agentx knows below the key agentx.
func (w *writer) harnessMetadata() object {
	run, o := w.run, object{}
	if d := publicDataset(run); d != nil {
		o.add("dataset", d)
	}
	if f := run.Info.Facts; f != nil && f.Coverage != nil {
		c := f.Coverage
		o.add("metric_duration_coverage", []object{{
			{"phase_name", measure.ProfilingPhase}, {"expected_duration_seconds", report.Float(c.Expected)}, {"required_ratio", report.Float(c.Required)},
			{"ttft_ratio", report.Float(c.FirstToken)}, {"inter_token_latency_ratio", report.Float(c.ITL)},
		}})
	}
	o.addVerdict(run)
	o.add("agentx", w.beyond())
	return o
}

// beyond returns what agentx tells of a run and the harness does not.
func (w *writer) beyond() object {
	run, o := w.run, w.agentx()
	reason := incomplete(&run.Info)
	o.add("is_complete", reason == "")
	if reason != "" {
		o.add("incomplete_reason", reason)
	}
	others := object{}
	for k := range w.results.Headline {
		if b := &w.results.Headline[k]; w.shown.Headline.Find(strings.TrimSuffix(b.Tag, report.OfRows)) == nil {
			others.add(b.Tag, blockObject(b))
		}
	}
	o.add("metrics", others)
	if len(w.results.Cooldown) > 0 && w.results.Counts.Cooldown > 0 {
		o.add("cooldown_metrics", tableObject(w.results.Cooldown))
	}
	o.add("steady_metrics", tableObject(w.results.Steady))
	if f := run.Info.Facts; f != nil {
		o.add("branches", f.Branches)
	}
	o.add("dataset", datasetObject(run))
	o.add("run", runInfo(run))
	return o
}

// inOrder returns groups of failures in the order of their first failures.
func inOrder(groups []report.ErrorGroup) []report.ErrorGroup {
	return slices.SortedStableFunc(slices.Values(groups), func(x, y report.ErrorGroup) int { return cmp.Compare(x.First, y.First) })
}

// harnessStats are the statistics of a block in the order of the harness.
var harnessStats = []string{"avg", "p1", "p5", "p10", "p25", "p50", "p75", "p90", "p95", "p99", "min", "max", "std", "count", "sum"}

// group is a table of metrics in the console file.
type group uint8

// The groups, in the order of their tables.
const (
	unseen group = iota
	effective
	active
	usage
	general
)

// The scopes of most metrics.
const (
	everywhere = inRows | inWhole | inSlices
	overTime   = inWhole | inSlices
)

// harnessTags are the metrics of agentx-harness 1.0.12, in the order of the files. The harness itself has a fixed order only for those at the
// head of an aggregate; the order of the others differs from run to run.
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

// has returns a function that reports whether a table has a metric.
func has(tag string) func(report.Table) bool {
	return func(t report.Table) bool { return t.Find(tag) != nil }
}

// above returns a function that reports whether a metric of a table is above 0.
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

// These report whether a table has requests that ended well, failed ones, both, or failed or overflowed ones.
var (
	succeeded, failed  = above("request_count"), above("error_request_count")
	mixed              = func(t report.Table) bool { return succeeded(t) && failed(t) }
	failedOrOverflowed = func(t report.Table) bool { return failed(t) || above("context_overflow_count")(t) }
)

// zeros returns the block of a metric that is 0: an average, or of a curve all statistics.
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

// failure maps a kind of failure to the exception that the harness tells of it.
type failure struct {
	category wire.Category
	answered bool     // of Connection: the head of an answer had come
	begins   string   // how our message begins
	code     int      // of the exception; 0: none
	chain    []string // names of the exception and of its causes
	text     string   // text of the first cause; "": our message
}

// brokenChunk is the message of Python's aiohttp about a body that ends inside a chunk.
const brokenChunk = `<TransferEncodingError: 400, message='Not enough data to satisfy transfer length header.'>`

// failures are the kinds of failures without an error status. The first that fits a failure decides.
var failures = []failure{
	{category: wire.NoContent, chain: []string{"InvalidInferenceResultError"}},
	{category: wire.StreamPayload, chain: []string{"InvalidInferenceResultError"}},
	{category: wire.StreamTruncated, chain: []string{"InvalidInferenceResultError"}},
	{category: wire.StreamEvent, code: 502, chain: []string{"SSEResponseError"}},
	{category: wire.Stalled, chain: []string{"TimeoutError", "CancelledError"}},
	{category: wire.Timeout, chain: []string{"TimeoutError", "CancelledError"}},
	{category: wire.Cancelled, code: 499, chain: []string{"RequestCancellationError"}},
	{category: wire.Internal, begins: "dial ", chain: []string{"ClientConnectorError", "OSError"}}, // a limit of this machine
	{category: wire.Internal, begins: "write ", chain: []string{"ClientOSError", "OSError"}},
	{category: wire.Connection, answered: true, chain: []string{"ClientPayloadError", "TransferEncodingError"}, text: brokenChunk},
	{category: wire.Connection, begins: "lookup ", chain: []string{"ClientConnectorDNSError", "gaierror"}},
	{category: wire.Connection, begins: "tls: ", chain: []string{"ClientConnectorSSLError", "SSLError"}},
	{category: wire.Connection, begins: "dial ", chain: []string{"ClientConnectorError", "ConnectionRefusedError"}},
	{category: wire.Connection, begins: "the server closed the connection", chain: []string{"ServerDisconnectedError"}},
	{category: wire.Connection, begins: "response ", chain: []string{"ClientResponseError", "HttpProcessingError", "BadHttpMessage"}},
	{category: wire.Connection, chain: []string{"ClientOSError", "ConnectionResetError"}},
}

// statusErrors are the categories of answers with an error status.
var statusErrors = map[wire.Category]bool{wire.HTTPStatus: true, wire.Overload: true, wire.ContextOverflow: true}

// harnessError returns a failure as the harness writes it. The message of an error status is the body of the answer. The message of another
// failure is ours; the harness has the text of an exception.
func harnessError(e *measure.Error) *Error {
	if statusErrors[e.Category] && isErrorStatus(e.Code) {
		phrase, body, _ := strings.Cut(strings.TrimPrefix(e.Message, strconv.Itoa(e.Code)+" "), ": ")
		return &Error{Type: phrase, Code: e.Code, Message: body}
	}
	for _, f := range failures {
		if f.category == e.Category && f.answered == (f.category == wire.Connection && e.Code != 0) && strings.HasPrefix(e.Message, f.begins) {
			out := &Error{Type: f.chain[0], Code: f.code, Message: e.Message, CauseChain: f.chain}
			if len(f.chain) > 1 {
				out.Cause = e.Message
			}
			if f.text != "" {
				out.Message, out.Cause = fmt.Sprintf("%s(%q)", out.Type, "Response payload is not completed: "+f.text), f.text
			}
			return out
		}
	}
	return &Error{Type: string(e.Category), Message: e.Message} // the fault is on this side
}
