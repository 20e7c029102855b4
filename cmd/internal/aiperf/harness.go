package aiperf

import (
	"cmp"
	"slices"
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

func isErrorStatus(status int) bool { return status != 0 && status/100 != 2 }

// rowless reports whether a request has no row under the harness: it did not fit the context, or the run cancelled it.
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

// harnessAggregate returns the object of the aggregate as the harness has it.
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

// addMetrics adds the metrics that stand at the head of the aggregate, or the others.
func (w *writer) addMetrics(o *object, t report.Table, head bool) {
	for _, m := range harnessTags {
		if b := t.Find(m.tag); b != nil && m.head == head {
			o.add(m.tag, blockObject(b))
		}
	}
}

// harnessBranches are the counters of the harness, for which a child that was live when its tree was taken up is one that a turn
// spawned.
func harnessBranches(b *measure.BranchCounts) object {
	return object{
		{"children_spawned", b.ChildrenSpawned + b.ChildrenResumed}, {"children_completed", b.ChildrenCompleted},
		{"children_errored", b.ChildrenErrored}, {"children_truncated", b.ChildrenTruncated}, {"children_delayed", b.ChildrenDelayed},
		{"parents_suspended", b.ParentsSuspended}, {"parents_resumed", b.ParentsResumed}, {"parents_failed_due_to_child_error", 0},
		{"joins_suppressed", b.JoinsSuppressed},
	}
}

// harnessMetadata returns the object metadata: what the harness has, and below agentx what it has not.
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

// beyond returns what the harness does not have.
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

// inOrder returns failures in the order in which the first of each came.
func inOrder(groups []report.ErrorGroup) []report.ErrorGroup {
	return slices.SortedStableFunc(slices.Values(groups), func(x, y report.ErrorGroup) int { return cmp.Compare(x.First, y.First) })
}
