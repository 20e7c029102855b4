package report

import (
	"math"

	"github.com/agentx/agentx/replay/measure"
)

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

// tables returns a builder for each slice, with the metrics of its requests.
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
