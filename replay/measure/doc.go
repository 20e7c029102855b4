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
// A new metric needs a field of Record (record.go, record_json.go), lines in observations.add and observations.metrics
// (observations.go), a field of Metrics (summary.go) and its key in doc/spec/results.md, which a test compares.
//
// Times are seconds since the start of the phase, sizes are bytes. A figure that is not known is [Missing], in JSON null.
package measure
