package report

import (
	"cmp"
	"slices"

	"github.com/agentx/agentx/replay/measure"
)

// errorISL is the metric of the prompts of answers without content.
const errorISL = "error_isl"

// harnessMetrics are the metrics of a request in a run that was played as agentx-harness plays (doc/spec/results.md 15.10). Its bytes
// are those of bodies, where the record tells them: that of an older agentx does not, and has no reads either.
var harnessMetrics = slices.Concat(slices.DeleteFunc(slices.Clone(requestMetrics), func(m metric) bool {
	return m.tag == "http_req_data_sent" || m.tag == "http_req_data_received"
}), []metric{
	{"http_req_dns_lookup", "HTTP DNS Lookup", "ms", span(func(r *row) (int64, bool) { return 0, r.sendStart != never })}, // connecting has it
	{"http_req_connection_overhead", "HTTP Connection Overhead", "ms", span((*row).overhead)},
	{"http_req_duration", "HTTP Duration (excl. conn)", "ms", step(func(r *row) (int64, int64) { return r.sendStart, r.lastByte })},
	{"http_req_total", "HTTP Total Time", "ms", span((*row).exchanged)},
	{"http_req_chunks_sent", "HTTP Chunks Sent", "count", counted(func(r *row) int64 { return min(1, r.bodyReads) })}, // a body is written as one
	{"http_req_chunks_received", "HTTP Chunks Received", "count", counted(func(r *row) int64 { return r.bodyReads })},
	{"http_req_data_sent", "HTTP Data Sent", "KB", kilobytes(func(r *row) int64 { return cmp.Or(r.bodySent, r.bytesSent) })},
	{"http_req_data_received", "HTTP Data Received", "KB", kilobytes(func(r *row) int64 { return cmp.Or(r.bodyReceived, r.bytesReceived) })},
	{"usage_reasoning_tokens", "Usage Reasoning Tokens", "tokens", tokens(func(r *row) int64 { return r.reasoning })},
})

// asHarness gives the numbers of a record the end that the harness has for a request: its last message. One that failed keeps its width.
func (r *row) asHarness(of *measure.Record) {
	r.rowEnd = rowEnd(of)
	if of.LastMessage > 0 {
		r.end = measure.Nanos(of.LastMessage)
	}
}

// rowEnd returns when a request ends in a row of the harness: with its last message, with an error status when it starts.
func rowEnd(r *measure.Record) int64 {
	switch {
	case r.Error != nil && r.Status != 0 && r.Status/100 != 2:
		return measure.Nanos(r.Sent)
	case r.LastMessage > 0:
		return measure.Nanos(r.LastMessage)
	}
	return measure.Nanos(r.End)
}

// between returns the nanoseconds from one instant to another as the harness computes them: from instants as floats, of which
// neighbours are 256 ns apart.
func (t *tableBuilder) between(from, to int64) float64 {
	return float64(t.origin+to) - float64(t.origin+from)
}

// OfRows is what stands behind the tag of a metric that the harness computes otherwise: from the instants of its rows.
const OfRows = "_of_rows"

// fromRows adds what the harness computes from the instants of its rows: the times from the order of a request on, of failed ones too.
func (t *tableBuilder) fromRows() {
	for _, m := range []struct {
		tag, name string
		to        func(r *row) int64
	}{
		{"credit_to_start_latency", "Credit-to-Start Latency", func(r *row) int64 { return r.sent }},
		{"effective_latency", "Effective Latency (CO-aware)", func(r *row) int64 { return r.rowEnd }},
	} {
		t.scratch.reset()
		t.each(func(r *row) {
			if !r.apart {
				t.scratch.add(milliseconds(max(0, t.between(r.admitted, m.to(r)))))
			}
		})
		if len(t.scratch.values) > 0 {
			t.add(Block{m.tag + OfRows, m.name, "ms", Distribution, t.scratch.distribution()})
		}
	}
}

// metrics returns the metrics of a request.
func (run *Run) metrics() []metric {
	if run.Harness() {
		return harnessMetrics
	}
	return requestMetrics
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

// harness adds what only the harness has: the prompts of answers without content, and the reasoning of the servers' counts.
func (t *tableBuilder) harness() {
	if !t.run.Harness() {
		return
	}
	if s := &t.sums.reasoning; s.known > 0 {
		t.scalar("total_usage_reasoning_tokens", "Total Usage Reasoning Tokens", "tokens", Int(s.sum))
	}
	t.fromRows()
	t.scratch.reset()
	t.each(func(r *row) {
		if r.noContent && r.prompt != unknown {
			t.scratch.add(Int(r.prompt))
		}
	})
	if len(t.scratch.values) == 0 {
		return
	}
	t.add(Block{errorISL, "Error Input Sequence Length", "tokens", Distribution, t.scratch.distribution()})
	t.scalar("total_error_isl", "Total Error Input Sequence Length", "tokens", Int(t.scratch.sum))
}

// sliceRates adds the durations and throughputs of a slice, which divide by its length.
func (t *tableBuilder) sliceRates() {
	if !t.run.Harness() || t.sums.n == 0 || t.to <= t.from {
		return
	}
	t.times()
	s := &t.sums
	t.rates(measure.Number(float64(t.to-t.from)/1e9), Int(int64(s.n)), Int(int64(s.good)), Int(s.prompt.sum), Int(s.osl.sum))
}
