// Package measure records the requests of a replay and computes their statistics. It does not know how requests are chosen
// or sent.
//
// A [Record] is one request, one line of records.jsonl. A [Writer] appends records to that file without waiting for the disk,
// and the instants of their content messages to contents.bin beside it; a [RecordReader] reads both.
// An [Aggregate] keeps of each record the numbers that exact percentiles need and computes the [Summary], which is
// summary.json and the table that a run prints:
//
//	a := measure.NewAggregate(measure.Rules{})
//	a.Add(&record)
//	s := a.Summary(info)
//	s.WriteTable(os.Stdout, 0)
//
// [Rules] say which requests and which seconds the numbers are over. The verdict on a run is in verdict.go.
//
// [Aggregate.Rebuild] computes the same from the files of a run that was killed. A [Live] gathers what a run prints of itself
// while it runs.
//
// The time to the first token is [Numbers.TTFT] (record.go), from Sent to FirstToken, which the row ttft of [MetricList] (metric.go) names.
// A new metric is such a row with its formula over [Numbers]: summaries, live metrics, gates, intervals, pages and comparisons follow.
// doc/spec/results.md 3.9 has the same rows, which a test compares. A new number of a request is a field of Numbers or of [Transfer]: its
// tag says how records.jsonl has it (record_json.go).
//
// Instants of a record are nanoseconds since the start of the phase; what a summary says is in seconds, sizes are bytes. A figure that is not known is [Missing], in JSON null.
package measure
