package report

import (
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

// newPhaseTable returns the builder for all requests of a phase that count. Where the rates divide by the phase, or by what of it is before
// the deadline, the curves are over it, too; one that did not come to its end is over with its last response.
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

// buckets adds the numbers of requests that are in no other number.
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
