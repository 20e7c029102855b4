package replay

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/agentx/agentx/replay/conductor"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/merge"
	"github.com/agentx/agentx/replay/payload"
	"github.com/agentx/agentx/replay/slo"
)

// results gathers what a run measures. results_dir.go writes it.
type results struct {
	dir       resultsDir
	info      measure.RunInfo // what no record knows
	aggregate *measure.Aggregate
	records   *measure.Writer // nil without a directory
	lanes     []measure.LaneReport
	deadlocks []measure.DeadlockReport // the first of them
	prompts   promptLog                // that were sent
	occupancy occupancy                // of the lanes, in the phase that is measured

	sampler *sampler // knows the trees that lanes play
	fields  payload.Fields
	newID   func() string
	warn    func(string)
}

func newResults(o Options, s *sampler, warn func(string)) *results {
	r := &results{
		dir: resultsDir{path: o.Out, unique: o.UniqueOut, overwrite: o.Overwrite, ofPart: o.Part.IsSet()}, info: newRunInfo(o, s.ledger.benchmark), aggregate: measure.NewAggregate(measure.RulesOf(o.Switches), o.SLO...),
		occupancy: newOccupancy(o.Concurrency), sampler: s, fields: o.Fields, newID: o.NewID, warn: warn,
	}
	for n := range o.Concurrency {
		r.lane(n)
	}
	return r
}

// lane returns what is known of a lane. Where trees arrive, there are as many as were open at a time.
func (r *results) lane(n int) *measure.LaneReport {
	for k := len(r.lanes); k <= n; k++ {
		r.lanes = append(r.lanes, measure.LaneReport{Lane: r.sampler.part.whole(k), Finished: measure.Missing, FirstRequest: measure.Missing, TStar: measure.Missing})
	}
	return &r.lanes[n]
}

// newRunInfo returns what is known of a run before it begins.
func newRunInfo(o Options, benchmark string) measure.RunInfo {
	r := o.Provenance
	r.Host, r.Model = "unknown", o.Model
	for _, url := range o.URLs {
		r.URLs, r.Servers = append(r.URLs, RedactURL(url)), append(r.Servers, measure.Server{URL: RedactURL(url)})
	}
	r.URL = r.URLs[0]
	if host, err := os.Hostname(); err == nil {
		r.Host = host
	}
	r.Preset, r.Counting, r.Switches, r.Scenario = o.Preset, measure.Counting, o.Switches.Deviations(o.Preset), o.Scenario
	r.Dataset.Key, r.Dataset.Path = o.Cache.Manifest.Key, o.Cache.Path()
	r.Dataset.Traces, r.BenchmarkID = o.Cache.Facts.Traces, benchmark
	return measure.RunInfo{Run: r, Lanes: o.Concurrency, Arrivals: o.Arrivals.plan(o.Concurrency), SLO: o.SLO}
}

// utc returns the time as JSON reads it back.
func utc() time.Time { return time.Now().UTC().Round(0) }

// begin notes where the lanes begin.
func (r *results) begin(starts []startedLane) {
	for n, s := range starts {
		r.lanes[n].Trace, r.lanes[n].TStar = s.trace, measure.Number(s.tStar/1000)
		r.lanes[n].StartSkipped, r.lanes[n].FirstDue = s.skipped.Seconds(), s.due.Seconds()
	}
}

// record counts and writes the record of a request that is over.
func (r *results) record(record *measure.Record) error {
	lane := r.lane(r.sampler.part.own(record.Lane))
	lane.Requests++
	if first := measure.Number(record.Sent.Seconds()); lane.FirstRequest.IsMissing() || first < lane.FirstRequest {
		lane.FirstRequest = first
	}
	for _, n := range r.aggregate.Add(record) {
		if !expected(n.Kind, r.fields) {
			r.warn(n.Message + " (the summary counts them)")
		}
	}
	return r.writeRecord(record)
}

// recordWarmup counts and writes the record of a request of the warmup.
func (r *results) recordWarmup(record *measure.Record) error {
	r.aggregate.Add(record)
	return r.writeRecord(record)
}

func (r *results) writeRecord(record *measure.Record) error {
	r.prompts.add(record)
	if r.records == nil {
		return nil
	}
	return r.records.Write(record)
}

// expected reports whether the fields of the bodies cause a kind of deviation.
func expected(kind string, f payload.Fields) bool {
	switch kind {
	case "short_output":
		return !f.IgnoresEOS()
	case "long_output":
		return f.Length == payload.NoLength
	case "no_usage":
		return f.OmitStreamOptions
	}
	return false
}

// onEvent records what the conductor did.
func (r *results) onEvent(e conductor.Event) {
	r.occupancy.onEvent(e)
	switch e.Kind {
	case conductor.TreeOpened:
		r.lane(e.Lane).Trees++
	case conductor.TreeIdleSkipped:
		r.lanes[e.Lane].Skipped += e.Skipped.Seconds()
	case conductor.LaneFinished:
		r.lanes[e.Lane].Finished = measure.Number(e.At.Seconds())
		if e.Err != nil {
			r.warn(fmt.Sprintf("lane %d ends: %v", r.sampler.part.whole(e.Lane), e.Err))
		}
	case conductor.TreeDeadlocked:
		r.onDeadlock(measure.ProfilingPhase, e)
	}
}

// onDeadlock records a deadlocked tree, and warns of it. Those after the first measure.MaxDeadlocks are counted only.
func (r *results) onDeadlock(phase string, e conductor.Event) {
	if len(r.deadlocks) < measure.MaxDeadlocks {
		d := r.describeDeadlock(e, r.sampler.lanes[e.Lane])
		d.Phase = phase
		r.deadlocks = append(r.deadlocks, d)
		r.warn(d.String())
	}
}

// describeDeadlock names what waits for what in a tree in which nothing can happen any more.
func (r *results) describeDeadlock(e conductor.Event, t *activeTree) measure.DeadlockReport {
	name := func(session int) string { return t.plan.Sessions[session].ID }
	last := e.Deadlock.Last
	d := measure.DeadlockReport{
		At: e.At.Seconds(), Lane: r.sampler.part.whole(e.Lane), Tree: t.ordinal, Trace: t.plan.Trace.ID, Root: t.correlationID(0, r.newID),
		Last: measure.LastEvent{At: last.At.Seconds(), Kind: "sent", Session: name(last.Session), Turn: last.Turn},
	}
	switch last.Kind {
	case conductor.TurnReturned:
		d.Last.Kind = "returned"
	case conductor.TreeOpened: // it has sent nothing
		d.Last.Kind = "opened"
	}
	for _, b := range e.Deadlock.Blocked {
		s := measure.BlockedSession{Session: name(b.Session), CorrelationID: t.correlationID(b.Session, r.newID), Turn: b.Turn, BlockedBy: "predecessor"}
		for _, n := range b.Branches {
			s.BlockedBy, s.WaitsFor = "gate", append(s.WaitsFor, t.branchIDs[n])
		}
		for _, a := range b.After {
			s.WaitsFor = append(s.WaitsFor, fmt.Sprintf("%s#%d", name(a.Session), a.Turn))
		}
		d.Blocked = append(d.Blocked, s)
	}
	return d
}

// maxSilentLanes is how many lanes that sent nothing are named.
const maxSilentLanes = 3

// warnAtEnd warns of lanes that sent nothing, and of deadlocked trees that were not named.
func (r *results) warnAtEnd(s *measure.Summary) {
	silent := 0
	for _, l := range r.lanes {
		if l.Trace != "" && l.Requests == 0 {
			if silent++; silent <= maxSilentLanes {
				r.warn(l.DescribeSilence())
			}
		}
	}
	if silent > maxSilentLanes {
		r.warn(fmt.Sprintf("and %d more lanes sent nothing: %s names them", silent-maxSilentLanes, LanesFile))
	}
	named := 0
	for _, d := range r.deadlocks {
		if d.Phase == measure.ProfilingPhase {
			named++
		}
	}
	if more := int(s.DeadlockedTrees) - named; more > 0 {
		r.warn(fmt.Sprintf("and %d more trees are deadlocked", more))
	}
}

// summary ends the run and returns its summary.
func (r *results) summary(f measure.Facts) *measure.Summary {
	end := utc()
	r.info.End, r.info.Facts = &end, &f
	s := r.aggregate.Summary(r.info)
	f.Valid, f.Reasons, f.Coverage = s.Valid, s.Reasons, s.Coverage
	r.info.Servers = s.Run.Servers
	return &s
}

// Summarize computes the summary of a run, or of all parts of a load, from the files that it wrote. The summary of a run that was killed
// has what its records say; missing says, in one line each, what is not known. Service levels that are not nil take the place of
// those of the run.
func Summarize(run *merge.Run, levels []slo.Condition) (s *measure.Summary, missing []string, err error) {
	info := run.Info
	missing = append(missing, run.Missing...)
	if !run.Known {
		missing = append(missing, fmt.Sprintf("%s: there is no %s: what was run is not known", run.Dir, RunFile))
	}
	rules, err := measure.RulesOfRun(info.Run)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", filepath.Join(run.Dir, RunFile), err)
	}
	if levels != nil {
		info.SLO = levels
	}
	a := measure.NewAggregate(rules, info.SLO...)
	records, err := run.Records()
	if err != nil {
		return nil, nil, fmt.Errorf("%s: not the results of a run: %w", run.Dir, err)
	}
	defer records.Close()
	if err := a.Rebuild(records); err != nil {
		return nil, nil, err
	}
	if records.Torn() {
		missing = append(missing, fmt.Sprintf("%s: the last line is cut off and left out", filepath.Join(run.Dir, RecordsFile)))
	}
	if err := records.ContentsError(); err != nil {
		missing = append(missing, fmt.Sprintf("%v: from there on the instants of content messages are not known, which no figure of the summary needs", err))
	}
	if info.Facts == nil {
		missing = append(missing, fmt.Sprintf("%s: the run has not ended, or was killed: figures known only at its end are null", run.Dir))
	}
	summary := a.Summary(info)
	return &summary, missing, nil
}
