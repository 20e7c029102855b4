package report

import (
	"math"
	"slices"
	"strings"

	"github.com/agentx/agentx/replay/measure"
)

// tableBuilder makes the table of some requests.
type tableBuilder struct {
	run     *Run
	chunks  *chunkFile
	samples []*rows        // of these requests, those that ended well are samples
	present []*rows        // of the curves
	origin  int64          // of the instants, nanoseconds since 1970
	phase   measure.Number // its length
	whole   measure.Number // as phase, but Missing if it did not come to its end

	beside   []*rows        // others of the phase, which may have brought tokens by the deadline
	deadline measure.Number // of what is delivered; Missing: the table has no such rates

	steady   bool         // rates are of what lay between from and to, latencies of what was sent by to
	from, to measure.Time // of the curves

	sums     sums
	failures int // failed requests that are not counted apart
	window   measure.ThroughputWindow
	scratch  samples
	table    Table
}

// newTable returns the builder for requests of a phase. Its curves begin with the first of them that was issued and end with the last
// response.
func (run *Run) newTable(chunks *chunkFile, phase string, of *rows) *tableBuilder {
	t := &tableBuilder{
		run: run, chunks: chunks.another(), samples: []*rows{of}, present: []*rows{of},
		origin: run.Origin(phase), phase: run.phaseLength(phase), whole: run.wholePhase(phase), deadline: measure.Missing,
	}
	first := true
	each(t.present, func(r *row) {
		if first || r.Admitted < t.from {
			t.from = r.Admitted
		}
		t.to, first = max(t.to, r.End), false
	})
	return t
}

// newPhaseTable returns the builder for the requests of a phase that count. beside are its other requests, which may have brought tokens by
// the deadline. If rates divide by the phase, or by its time up to the deadline, the curves are over the same time. A phase that did not come
// to its end is over with its last response.
func (run *Run) newPhaseTable(chunks *chunkFile, phase string, of *rows, beside ...*rows) *tableBuilder {
	t := run.newTable(chunks, phase, of)
	t.beside, t.deadline = beside, run.deliveredEnd(phase, append(beside, of))
	switch {
	case of.n == 0 || !run.rules.PhaseWindow && !run.rules.DeliveredOnly:
		return t
	case run.rules.DeliveredOnly:
		t.from, t.to = 0, measure.At(float64(t.deadline))
		return t
	}
	t.from = 0
	if !t.whole.IsMissing() {
		t.to = max(t.to, measure.At(float64(t.whole)))
	}
	return t
}

// add adds a block.
func (t *tableBuilder) add(b Block) { t.table = append(t.table, b) }

// build computes every block.
func (t *tableBuilder) build() error {
	t.count()
	t.distributions()
	t.harness()
	t.counts()
	t.totals()
	t.times()
	if err := t.throughputs(); err != nil {
		return err
	}
	if err := t.gaps(); err != nil {
		return err
	}
	return t.curves()
}

// each calls visit for every request of the table. The steady one has those that were sent by the end of its time.
func (t *tableBuilder) each(visit func(r *row)) {
	each(t.samples, func(r *row) {
		if !t.steady || r.Sent <= t.to {
			visit(r)
		}
	})
}

// count counts the requests and adds up their tokens.
func (t *tableBuilder) count() {
	t.each(func(r *row) {
		switch {
		case !r.failed:
			t.sums.add(r, &t.run.rules)
		case !r.apart:
			t.failures++
		}
	})
	each(t.beside, func(r *row) {
		if !r.failed {
			t.sums.delivered.Add(&r.Numbers, r.good)
		}
	})
}

// throughputs adds the rates and what they divide by.
func (t *tableBuilder) throughputs() error {
	if t.steady {
		return t.steadyRates()
	}
	t.window = t.sums.window(&t.run.rules, t.whole, t.deadline)
	if !t.phase.IsMissing() {
		t.scalar("phase_duration", "Phase Duration", "sec", Float(float64(t.phase)))
	}
	good := t.sums.good
	if t.run.rules.DeliveredOnly {
		good = t.sums.delivered.Good
	}
	known := func(n measure.Number) Number {
		if n.IsMissing() {
			return Int(0)
		}
		return Float(float64(n))
	}
	w := &t.window
	t.rates(w.Seconds, known(w.Requests), Int(int64(good)), known(w.PromptTokens), known(w.OutputTokens))
	return nil
}

// buckets adds the counts of requests that no other block counts.
func (t *tableBuilder) buckets(n Counts) {
	t.scalar("context_overflow_count", "Context Overflow Count", "requests", Int(int64(n.ContextOverflow)))
	t.scalar("skipped_context_overflow_count", "Skipped Context Overflow Count", "requests", Int(int64(n.ContextOverflow)))
	t.scalar("cooldown_request_count", "Cooldown Request Count", "requests", Int(int64(n.Cooldown)))
	t.scalar("cancelled_at_end_count", "Cancelled At End Count", "requests", Int(int64(n.CancelledAtEnd)))
	if n.Wedged >= 0 {
		t.scalar("wedged_tree_count", "Wedged Tree Count", "trees", Int(int64(n.Wedged)))
	}
}

// sorted returns the table, sorted by tag.
func (t *tableBuilder) sorted() Table {
	slices.SortFunc(t.table, func(x, y Block) int { return strings.Compare(x.Tag, y.Tag) })
	return t.table
}

// slicer cuts the requests of the headline into slices of time. A request belongs to the slice in which it started; curves are cut at
// the bounds of slices.
type slicer struct {
	headline *tableBuilder
	length   measure.Time
	list     []*row       // by start
	from, to measure.Time // first start, last end
}

// slices returns the slices of the headline that have requests.
func (run *Run) slices(headline *tableBuilder) ([]Slice, error) {
	s := &slicer{headline: headline, length: measure.Time(run.Slice), list: sortedBySent(headline.samples)}
	if len(s.list) == 0 {
		return nil, nil
	}
	s.from = s.list[0].Sent
	for _, r := range s.list {
		s.to = max(s.to, r.End)
	}
	tables, err := s.tables()
	if err == nil {
		err = s.curves(tables)
	}
	if err != nil {
		return nil, err
	}
	list := make([]Slice, len(tables))
	for k, t := range tables {
		list[k] = Slice{Start: t.origin + int64(t.from), End: t.origin + int64(t.to), Complete: t.to-t.from == s.length, Table: t.sorted()}
	}
	return list, nil
}

// tables returns a builder for each slice that has requests, with all blocks but the curves.
func (s *slicer) tables() (list []*tableBuilder, err error) {
	for first := 0; first < len(s.list); {
		from := s.from + (s.list[first].Sent-s.from)/s.length*s.length
		of := &rows{}
		for ; first < len(s.list) && s.list[first].Sent < from+s.length; first++ {
			of.add(*s.list[first])
		}
		t := s.headline.run.newTable(s.headline.chunks, measure.ProfilingPhase, of)
		t.chunks = s.headline.chunks // they are built one after another
		t.from, t.to = from, min(from+s.length, s.to)
		t.count()
		t.distributions()
		t.harness()
		t.counts()
		t.totals()
		t.sliceRates()
		if err := t.gaps(); err != nil {
			return nil, err
		}
		t.samples, t.present = nil, nil // the numbers are in the table
		list = append(list, t)
	}
	return list, nil
}

// sliceRates adds the durations and throughputs of a slice, which divide by its length.
func (t *tableBuilder) sliceRates() {
	if t.sums.n == 0 || t.to <= t.from {
		return
	}
	t.times()
	s := &t.sums
	t.rates(measure.Number(float64(t.to-t.from)/1e9), Int(int64(s.n)), Int(int64(s.good)), Int(s.prompt.Sum), Int(s.osl.Sum))
}

// curves adds the curves to the tables of the slices, in one sweep.
func (s *slicer) curves(tables []*tableBuilder) error {
	h := s.headline
	stats := h.newCurveStats(math.MaxInt)
	end := func(t *tableBuilder) {
		for _, c := range stats {
			c.endPass()
			t.table = append(t.table, c.blocks()...)
		}
		stats = h.newCurveStats(math.MaxInt)
	}
	k := 0
	err := sweep(s.list, &h.run.rules, h.chunks, s.from, s.to, func(from, to measure.Time, at *levels) {
		for k < len(tables) && from < to {
			t := tables[k]
			if cut := min(to, t.to); max(from, t.from) < cut {
				for _, c := range stats {
					c.add(max(from, t.from), cut, at)
				}
			}
			if to < t.to {
				return
			}
			end(t)
			k++
		}
	})
	for ; k < len(tables); k++ { // of no width
		end(tables[k])
	}
	return err
}

// newSteady returns the builder of the steady state: the time from the end of the warmup to the deadline. Latencies are of requests that were
// sent in that time and ended, also in the grace. Rates count the part of each request, and the tokens, that lie in that time.
func (run *Run) newSteady(chunks *chunkFile, c *collection) *tableBuilder {
	t := run.newTable(chunks, measure.ProfilingPhase, &c.headline)
	t.samples = []*rows{&c.headline, &c.cooldown}
	t.present = []*rows{&c.headline, &c.cooldown, &c.rest}
	t.steady, t.from, t.to = true, 0, 0
	if f := run.Info.Facts; f != nil && f.Deadline > 0 {
		t.to = measure.At(min(f.Deadline, f.PhaseDuration))
		return t
	}
	each(t.present, func(r *row) { t.to = max(t.to, r.End) })
	return t
}

// steadyRates adds the rates of the steady state. A request that lies in it in part counts as that share of a request.
func (t *tableBuilder) steadyRates() error {
	seconds := measure.Number(float64(t.to-t.from) / 1e9)
	if !(seconds > 0) {
		return nil
	}
	t.scalar("phase_duration", "Phase Duration", "sec", Float(float64(seconds)))
	var requests, good, input, output float64
	var err error
	t.each(func(r *row) {
		if r.failed || err != nil {
			return
		}
		var n float64
		share := t.within(r.Sent, r.End)
		requests += share
		if r.good {
			good += share
		}
		input += float64(max(0, r.PromptTokens.N())) * t.within(r.Sent, max(r.FirstToken, r.Sent))
		n, err = t.outputWithin(r)
		output += n
	})
	if err != nil {
		return err
	}
	t.rates(seconds, Float(requests), Float(good), Float(input), Float(output))
	return nil
}

// within returns the share of an interval that lies in the window; of an instant, whether it does.
func (t *tableBuilder) within(from, to measure.Time) float64 {
	if to <= from {
		if from >= t.from && from < t.to {
			return 1
		}
		return 0
	}
	return float64(max(0, min(to, t.to)-max(from, t.from))) / float64(to-from)
}

// outputWithin returns the output tokens that a request got in the window.
func (t *tableBuilder) outputWithin(r *row) (float64, error) {
	if r.OSL() == unknown || r.End <= t.to {
		return float64(max(0, r.OSL())), nil
	}
	contents, err := t.chunks.of(r)
	if err != nil {
		return 0, err
	}
	steps := flow(nil, r, contents)
	if len(steps) == 0 {
		return 0, nil
	}
	n := steps[0].tokens * t.within(steps[0].at, steps[0].at)
	for k := range steps[1:] {
		from, to := steps[k].at, steps[k+1].at
		n += steps[k].rate * float64(to-from) * t.within(from, to)
	}
	return n, nil
}
