// Package report computes what a run measured from the files that it wrote, and knows no player.
//
//	run, err := report.Open("results")
//	results, err := run.Compute()
//	b := results.Headline.Find("time_to_first_token")
//
// A run is read as a stream of records (package replay/measure). The metrics of a request, those of a run, its curves and its
// windows become tables of results (doc/spec/replay.md 8). Package aiperf writes them, and the rows, as the files of AIPerf.
package report

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/merge"
	"github.com/agentx/agentx/replay/preset"
)

// Run is a run that wrote its results to a directory, or all parts of a load as one run.
type Run struct {
	Dir      string
	Info     measure.RunInfo      // of run.json
	Lanes    []measure.LaneReport // of lanes.jsonl; nil if it was not written
	Switches preset.Switches      // of the run's preset, with those that were set
	Missing  []string             // what is not known, one line each; Compute adds to it

	// Slice is the length of the slices of time that Compute cuts the run into, in nanoseconds; 0: none.
	Slice int64

	// Files are the results that were opened.
	Files *merge.Run

	rules measure.Rules
}

// Open reads what the directory of a run has besides its records. A run that was killed lacks some of it: Missing says what. Of the
// parts of a load none may be missing.
func Open(dir string) (*Run, error) {
	files, err := merge.Open(dir, merge.Options{})
	if err != nil {
		return nil, err
	}
	return Of(files)
}

// Of returns the run of results that package merge has opened.
func Of(files *merge.Run) (*Run, error) {
	run := &Run{Dir: files.Dir, Info: files.Info, Files: files}
	run.Missing = append(run.Missing, files.Missing...)
	switch {
	case !files.Known:
		run.miss("%s: there is no %s: what was run is not known", run.Dir, measure.RunFile)
	case run.Info.Facts == nil:
		run.miss("%s: the run has not ended, or was killed: figures known only at its end are left out", run.Dir)
	}
	var err error
	if run.Switches, err = measure.SwitchesOfRun(run.Info.Run); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(run.Dir, measure.RunFile), err)
	}
	if run.Switches.FlowCurve != preset.FlowChunks {
		run.miss("%s: the run set flow-curve %s, which no longer exists: curves spread tokens over the gaps between chunks", run.Dir, run.Switches.FlowCurve)
		run.Switches.FlowCurve = preset.FlowChunks
	}
	run.rules = measure.RulesOf(&run.Switches)
	if run.Lanes, err = files.Lanes(); err != nil {
		return nil, err
	}
	return run, nil
}

// Harness reports whether the run was played as agentx-harness plays. Then tables have what its files have as well.
func (run *Run) Harness() bool {
	name, _ := preset.Canonical(run.Info.Preset)
	return name == preset.AgentX
}

// Rules returns the rules by which records become numbers.
func (run *Run) Rules() measure.Rules { return run.rules }

// miss notes something that is not known of the run.
func (run *Run) miss(format string, args ...any) {
	run.Missing = append(run.Missing, fmt.Sprintf(format, args...))
}

// Origin returns when a phase started, in nanoseconds since 1970: the wall clock of an instant of its records is Origin plus
// measure.Nanos of it. Of a run whose phases are not known it is the start of the run.
func (run *Run) Origin(phase string) int64 {
	for _, p := range run.Info.Phases {
		if p.Name == phase {
			return p.Start.UnixNano()
		}
	}
	if run.Info.Start.IsZero() {
		return 0
	}
	return run.Info.Start.UnixNano()
}

// RowMetric is one metric of a request: a value, or of inter_chunk_latency a list.
type RowMetric struct {
	Tag   string
	Unit  string
	Value Number
	List  []Number // nil for a value
}

// RowMetrics returns the metrics that a request has, in the order of doc/spec/replay.md 8.2. A failed request has none, but for the
// prompt of an answer without content in a run that was played as the harness plays.
func (run *Run) RowMetrics(r *measure.Record) (list []RowMetric) {
	numbers := newRow(r)
	if r.Error != nil {
		if run.Harness() && numbers.noContent && numbers.PromptTokens != 0 {
			list = append(list, RowMetric{Tag: errorISL, Unit: "tokens", Value: Int(numbers.PromptTokens.N())})
		}
		return list
	}
	for _, m := range run.metrics() {
		if m.of == nil {
			if gaps := gapList(r); len(gaps) > 0 {
				list = append(list, RowMetric{Tag: m.tag, Unit: m.unit, List: gaps})
			}
		} else if v, ok := m.of(&numbers, &run.rules); ok {
			list = append(list, RowMetric{Tag: m.tag, Unit: m.unit, Value: v})
		}
	}
	return list
}

// gapList returns the times between the content messages of an answer.
func gapList(r *measure.Record) (list []Number) {
	last := int64(-1)
	for at := range r.Contents.All() {
		if last >= 0 {
			list = append(list, milliseconds(float64(int64(at)-last)))
		}
		last = int64(at)
	}
	return list
}

// collection is what one pass over the records keeps.
type collection struct {
	warmup, headline, cooldown, rest rows // by bucket; rest: cancelled, or did not fit the context

	counts Counts
	errors errorGroups

	contentsErr error // the instants of content messages are not known
}

// Compute reads the records once and computes what the run measured. It keeps numbers, about 300 bytes of each request.
func (run *Run) Compute() (*Results, error) {
	c, err := run.collect()
	if err != nil {
		return nil, err
	}
	chunks, err := openChunks(run.Files.ContentsFiles(), c.contentsErr)
	if err != nil {
		return nil, err
	}
	defer chunks.close()
	return run.results(c, chunks)
}

// collect reads the records.
func (run *Run) collect() (*collection, error) {
	reader, err := run.Files.Records()
	if err != nil {
		return nil, fmt.Errorf("%s: not the results of a run: %w", run.Dir, err)
	}
	defer reader.Close()
	c := &collection{errors: errorGroups{}}
	judge := measure.NewJudge(run.rules, run.Info.SLO)
	for r, err := range measure.All(reader) {
		if err != nil {
			return nil, err
		}
		x := newRow(r)
		x.good = judge.Good(r)
		if run.Harness() {
			x.asHarness(r)
		}
		if x.packed = int32(len(r.Contents.Packed())); x.packed > 0 {
			x.contents = reader.ContentsEnd() - int64(x.packed)
		}
		c.add(r, x)
	}
	if reader.Torn() {
		run.miss("%s: the last line is cut off and left out", filepath.Join(run.Dir, measure.RecordsFile))
	}
	if c.contentsErr = reader.ContentsError(); c.contentsErr != nil {
		run.miss("%v: curves and gaps of content messages are left out", c.contentsErr)
	}
	return c, nil
}

// add counts a record, and adds its numbers, x, to those of its bucket.
func (c *collection) add(r *measure.Record, x row) {
	if r.Phase == measure.WarmupPhase {
		c.warmup.add(x)
		c.counts.Warmup++
		return
	}
	c.counts.Sent++
	switch r.Bucket {
	case measure.Profiling:
		c.headline.add(x)
		if r.Error != nil {
			c.counts.Failed++
			c.errors.add(r.Error)
		} else {
			c.counts.Succeeded++
		}
	case measure.Cooldown:
		c.cooldown.add(x)
		c.counts.Cooldown++
	case measure.CancelledAtEnd:
		c.rest.add(x)
		c.counts.CancelledAtEnd++
	default:
		c.rest.add(x)
		c.counts.ContextOverflow++
	}
}

// results computes the results from what collect has kept, and from the instants of content messages.
func (run *Run) results(c *collection, chunks *chunkFile) (*Results, error) {
	c.counts.Wedged = -1
	if f := run.Info.Facts; f != nil {
		c.counts.Wedged = f.Branches.TreesDeadlocked
	}
	res := &Results{HeadlineRule: run.rules.Headline(), Flow: preset.FlowChunks, Counts: c.counts, Errors: c.errors.sorted()}

	headline := run.newPhaseTable(chunks, measure.ProfilingPhase, &c.headline, &c.cooldown, &c.rest)
	cooldown := run.newTable(chunks, measure.ProfilingPhase, &c.cooldown)
	tables := []*tableBuilder{headline, cooldown, run.newSteady(chunks, c)}
	if c.warmup.n > 0 {
		tables = append(tables, run.newPhaseTable(chunks, measure.WarmupPhase, &c.warmup))
	}
	if err := buildAll(tables); err != nil {
		return nil, err
	}
	headline.buckets(c.counts)
	res.Headline, res.Cooldown, res.Steady = headline.sorted(), cooldown.sorted(), tables[2].sorted()
	if c.warmup.n > 0 {
		res.Warmup = tables[3].sorted()
	}
	w, origin := headline.window, headline.origin
	res.Window = Window{Kind: w.Kind}
	if !w.Seconds.IsMissing() {
		res.Window = Window{w.Kind, origin + measure.Nanos(float64(w.Start)), origin + measure.Nanos(float64(w.End)), float64(w.Seconds), true}
	}
	res.ITLDivisor = measure.ITLDivisor{Rule: run.rules.DivisorRule(), Known: headline.sums.divisor.Known, Unusable: headline.sums.divisor.Unusable}
	res.Start, res.End = origin, origin+int64(run.headlineEnd(&c.headline))
	if !headline.phase.IsMissing() {
		res.PhaseEnd = origin + measure.Nanos(float64(headline.phase))
	}
	var err error
	if run.Slice > 0 {
		res.Slices, err = run.slices(headline)
	}
	return res, err
}

// buildAll builds tables, each in a goroutine of its own.
func buildAll(tables []*tableBuilder) error {
	var building sync.WaitGroup
	errs := make([]error, len(tables))
	for k, t := range tables {
		building.Go(func() { errs[k] = t.build() })
	}
	building.Wait()
	return errors.Join(errs...)
}

// phaseLength returns the seconds of a phase, Missing if they are not known.
func (run *Run) phaseLength(name string) measure.Number {
	if f := run.Info.Facts; name == measure.ProfilingPhase && f != nil {
		return measure.Number(f.PhaseDuration)
	}
	for _, p := range run.Info.Phases {
		if p.Name == name {
			return measure.Number(p.Duration)
		}
	}
	return measure.Missing
}

// wholePhase returns the seconds of a phase that came to its end, else Missing: a cancelled run did not complete its last phase.
func (run *Run) wholePhase(name string) measure.Number {
	list := run.Info.Phases
	if last := len(list) - 1; name == measure.ProfilingPhase || last >= 0 && list[last].Name == name {
		if run.Info.Facts.WholePhase().IsMissing() {
			return measure.Missing
		}
	}
	return run.phaseLength(name)
}

// deliveredEnd returns the instant up to which what a phase delivered counts. sets are its requests.
func (run *Run) deliveredEnd(phase string, sets []*rows) measure.Number {
	var last, late measure.Time
	each(sets, func(r *row) { last, late = max(last, r.done), max(late, r.Deadline) })
	facts := run.Info.Facts
	if phase != measure.ProfilingPhase {
		facts = nil
	}
	return measure.DeliveredEnd(facts, last.Seconds(), late.Seconds())
}

// headlineEnd returns when the headline ends, on the clock of the phase: at the deadline, or with the last of its requests if there is no
// deadline, if the grace belongs to the headline, or if the phase was over before.
func (run *Run) headlineEnd(headline *rows) measure.Time {
	last := measure.Time(0)
	each([]*rows{headline}, func(r *row) { last = max(last, r.End) })
	f := run.Info.Facts
	if run.rules.GraceIncluded || f == nil || f.Deadline <= 0 {
		return last
	}
	return min(measure.At(f.Deadline), max(last, measure.At(f.PhaseDuration)))
}
