package report

import (
	"cmp"
	"slices"

	"github.com/agentx/agentx/replay/measure"
)

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

// asHarness gives the numbers of a record the end that the harness has for a request: its last message. One that failed keeps its width.
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

// OfRows is what stands behind the tag of a metric that the harness computes otherwise: from the instants of its rows.
const OfRows = "_of_rows"

// fromRows adds what the harness computes from the instants of its rows: the times from the order of a request on, of failed ones too.
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

// metrics returns the metrics of a request.
func (run *Run) metrics() []metric {
	if run.Harness() {
		return harnessMetrics
	}
	return requestMetrics
}

// harness adds what only the harness has: the prompts of answers without content.
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
