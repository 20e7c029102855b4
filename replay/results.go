package replay

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/replay/conductor"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/merge"
	"github.com/agentx/agentx/replay/payload"
	"github.com/agentx/agentx/replay/scrape"
	"github.com/agentx/agentx/replay/slo"
)

// results gathers what a run measures..
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

// newResults returns the results of a run that has not begun.
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

// writeRecord notes the prompt of a request, and writes its record.
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

// Files of the results in Options.Out. RunFile is written first and says what is run; it is completed at the end, and
// SummaryFile comes last.
const (
	RunFile      = measure.RunFile
	RecordsFile  = measure.RecordsFile
	ContentsFile = measure.ContentsFile
	LanesFile    = measure.LanesFile
	SummaryFile  = "summary.json"

	// ConcurrenciesFile is the index of a list of runs, in the directory above theirs.
	ConcurrenciesFile = "concurrencies.json"
)

// resultFiles are all files of results, in the order in which old ones are removed: what needs others first.
var resultFiles = []string{SummaryFile, LanesFile, RunFile, RecordsFile, ContentsFile, measure.ClockFile, scrape.File, ConcurrenciesFile}

// reportFiles are the files that agentx report makes of results by default. Old ones are removed with the results: readers would
// take them for those of the new run.
var reportFiles = []string{
	".aiperf_results_ready.json", "profile_export_aiperf.json", "profile_export_aiperf.csv", "profile_export_console.txt",
	"profile_export_aiperf_timeslices.json", "profile_export_aiperf_timeslices.csv", "profile_export.jsonl", "profile_export_excluded.jsonl",
	"server_metrics_export.json", "server_metrics_export.csv", "records.parquet", "report.html",
}

// resultsDir is the directory of the results.
type resultsDir struct {
	path      string // "": none
	unique    bool
	overwrite bool
	ofPart    bool // it lies in that of the whole load
}

// CheckResultsDir returns an error that wraps ErrResultsExist if a directory holds results. Those of a run that ended
// without a request do not count.
func CheckResultsDir(dir string) error {
	if sentNothing(dir) {
		return nil
	}
	for _, name := range resultFiles {
		_, err := os.Lstat(filepath.Join(dir, name))
		if err == nil {
			return fmt.Errorf("%s: %w: %s", dir, ErrResultsExist, name)
		}
	}
	return nil
}

// sentNothing reports whether a directory holds the files of a run, or of a list of runs, that came to its end without a
// record.
func sentNothing(dir string) bool {
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return true
	}
	if list, err := ReadList(dir); err == nil {
		return !slices.ContainsFunc(list.Runs, func(r measure.ListedRun) bool {
			return r.Headline != nil && !sentNothing(filepath.Join(dir, r.Dir))
		})
	}
	_, err := os.Lstat(filepath.Join(dir, SummaryFile))
	records, recordsErr := os.Lstat(filepath.Join(dir, RecordsFile))
	return err == nil && recordsErr == nil && records.Size() == 0
}

// check returns an error if the directory cannot be made, or holds results that stay. It leaves nothing behind.
func (d *resultsDir) check() error {
	if d.path == "" {
		return nil
	}
	dir := d.path
	if d.unique {
		dir = filepath.Dir(dir)
	} else if err := d.checkNames(); err != nil {
		return fmt.Errorf("results: %w", err)
	} else if !d.overwrite {
		if err := CheckResultsDir(dir); err != nil {
			return err
		}
	}
	for _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) && dir != filepath.Dir(dir); _, err = os.Stat(dir) {
		dir = filepath.Dir(dir)
	}
	trial, err := os.MkdirTemp(dir, ".agentx-*")
	var refused *fs.PathError
	if errors.As(err, &refused) {
		return fmt.Errorf("results: mkdir %s: %w", d.path, refused.Err)
	}
	return errors.Join(err, os.Remove(trial))
}

// checkNames returns an error if a directory has the name of a file of the results, or of one that is made of them.
func (d *resultsDir) checkNames() error {
	for _, name := range slices.Concat(resultFiles, reportFiles) {
		if err := durable.CheckFile(d.file(name)); err != nil {
			return err
		}
	}
	return nil
}

// make makes the directory. Runs that want the same new directory each get their own. Old results are removed, if that is
// allowed, before the first new file is written.
func (d *resultsDir) make() error {
	if d.unique {
		return d.makeUnique()
	}
	if err := errors.Join(os.MkdirAll(d.path, 0o777), d.checkNames()); err != nil {
		return err
	}
	if !d.overwrite && !sentNothing(d.path) {
		return CheckResultsDir(d.path)
	}
	for _, path := range d.old() {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// old returns the paths of old results. Where a part overwrites its own, they are also what was made of all parts.
func (d *resultsDir) old() (paths []string) {
	if d.ofPart && d.overwrite {
		for _, name := range append(slices.Clone(reportFiles), SummaryFile) {
			paths = append(paths, filepath.Join(filepath.Dir(d.path), name))
		}
	}
	for _, name := range slices.Concat(reportFiles, resultFiles) {
		paths = append(paths, d.file(name))
	}
	return paths
}

// makeUnique makes a new directory, and appends a number to a name that is taken.
func (d *resultsDir) makeUnique() error {
	if err := os.MkdirAll(filepath.Dir(d.path), 0o777); err != nil {
		return err
	}
	name := d.path
	for n := 2; ; n++ {
		err := os.Mkdir(d.path, 0o777)
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
		d.path = fmt.Sprintf("%s-%d", name, n)
	}
}

func (d *resultsDir) file(name string) string { return filepath.Join(d.path, name) }

// open makes the directory, writes what is run, and opens the file of the records.
func (r *results) open() (err error) {
	r.info.Start = utc()
	if r.dir.path == "" {
		return nil
	}
	if err := r.dir.make(); errors.Is(err, ErrResultsExist) {
		return err
	} else if err != nil {
		return fmt.Errorf("results: %w", err)
	}
	if r.records, err = measure.Create(r.dir.path); err != nil {
		if errors.Is(err, fs.ErrExist) { // another run was faster
			return fmt.Errorf("%s: %w: %s", r.dir.path, ErrResultsExist, RecordsFile)
		}
		return fmt.Errorf("results: %w", err)
	}
	r.info.Out, r.info.Records = r.dir.path, RecordsFile
	if err := r.writeInfo(); err != nil {
		return errors.Join(fmt.Errorf("results: %w", err), r.closeRecords())
	}
	return nil
}

// closeRecords closes the file of the records, if there is one.
func (r *results) closeRecords() error {
	if r.records == nil {
		return nil
	}
	return r.records.Close()
}

// write completes the results. The summary comes last.
func (r *results) write(s *measure.Summary) error {
	if r.dir.path == "" {
		return nil
	}
	var errs []error
	if err := r.closeRecords(); err != nil {
		errs = append(errs, fmt.Errorf("results: %s: %w", r.dir.file(RecordsFile), err))
	}
	if err := r.checkOwner(); err != nil {
		return errors.Join(append(errs, fmt.Errorf("results: %w", err))...)
	}
	var lines bytes.Buffer
	e := json.NewEncoder(&lines)
	for _, l := range r.lanes {
		errs = append(errs, e.Encode(l))
	}
	errs = append(errs, durable.WriteFile(r.dir.file(LanesFile), lines.Bytes()), r.writeInfo(), WriteSummary(r.dir.path, s))
	return errors.Join(errs...)
}

// checkOwner returns an error if another run has replaced the results since this one opened them.
func (r *results) checkOwner() error {
	written, err := measure.ReadInfo(r.dir.path)
	if err == nil && !written.Start.Equal(r.info.Start) {
		return fmt.Errorf("%s: another run has replaced the results: this run writes no more", r.dir.path)
	}
	return nil
}

// writeInfo writes RunFile.
func (r *results) writeInfo() error {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false) // as in the summary
	e.SetIndent("", "  ")
	if err := e.Encode(r.info); err != nil {
		return err
	}
	return durable.WriteFile(r.dir.file(RunFile), text.Bytes())
}

// WriteSummary writes SummaryFile into a directory.
func WriteSummary(dir string, s *measure.Summary) error {
	var line bytes.Buffer
	if err := s.WriteJSON(&line); err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(dir, SummaryFile), line.Bytes())
}
