package report

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/preset"
)

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

// add adds a record and its numbers.
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

// results computes the tables.
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

// wholePhase returns the seconds of a phase that came to its end, Missing of another: of a run that was cancelled, the last.
func (run *Run) wholePhase(name string) measure.Number {
	list := run.Info.Phases
	if last := len(list) - 1; name == measure.ProfilingPhase || last >= 0 && list[last].Name == name {
		if run.Info.Facts.WholePhase().IsMissing() {
			return measure.Missing
		}
	}
	return run.phaseLength(name)
}

// deliveredEnd returns the end of what a phase delivered, of whose requests there are sets.
func (run *Run) deliveredEnd(phase string, sets []*rows) measure.Number {
	var last, late measure.Time
	each(sets, func(r *row) { last, late = max(last, r.done), max(late, r.Deadline) })
	facts := run.Info.Facts
	if phase != measure.ProfilingPhase {
		facts = nil
	}
	return measure.DeliveredEnd(facts, last.Seconds(), late.Seconds())
}

// headlineEnd returns when the headline ends, on the clock of the phase: at the deadline, or with the last of its requests where the
// grace belongs to it, where there is no deadline, and where the phase was over before.
func (run *Run) headlineEnd(headline *rows) measure.Time {
	last := measure.Time(0)
	each([]*rows{headline}, func(r *row) { last = max(last, r.End) })
	f := run.Info.Facts
	if run.rules.GraceIncluded || f == nil || f.Deadline <= 0 {
		return last
	}
	return min(measure.At(f.Deadline), max(last, measure.At(f.PhaseDuration)))
}
