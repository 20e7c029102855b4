package aiperf

import (
	"math"
	"slices"
	"sort"

	"github.com/agentx/agentx/replay/scrape"
)

// span is a time from start to end, nanoseconds since 1970.
type span struct {
	Start int64 `json:"start_ns"`
	End   int64 `json:"end_ns"`
}

func (s span) seconds() float64 { return float64(s.End-s.Start) / 1e9 }

// samples are the values of one series over time, in the order of the instants. The values of a counter stand behind one another
// in values, width of them for each instant.
type samples struct {
	at     []int64 // nanoseconds since 1970
	values []float64
	width  int

	// born: the server answered before the first sample, and did not show the series then. Its value was 0 there.
	born bool
}

// samplesOf returns the samples of a series. A counter has one where its value changed, which is enough: its value holds until the
// next. A gauge has one for every answer that shows it, so that an average weighs a value by how long it held, and so that a gauge
// that never changes has statistics at all.
func samplesOf(d *scrape.Data, s *scrape.Series) samples {
	answers := d.Endpoints[s.Endpoint].Answers
	list := samples{}
	for k := range s.Len() {
		n, values := s.Change(k)
		if k == 0 {
			list.born = n > 0
		}
		if values == nil {
			continue
		}
		list.width = len(values)
		until := n + 1
		if s.Type == scrape.Gauge {
			if until = len(answers); k+1 < s.Len() {
				until, _ = s.Change(k + 1)
			}
		}
		for ; n < until; n++ {
			list.at = append(list.at, answers[n].At)
			list.values = append(list.values, values...)
		}
	}
	return list
}

// closing returns the instant up to which counters count in a phase that has an end: that of the first answer of a page that was asked
// for at or after the end, and has come by the next phase or, without one, in the tail of the run. Without such an answer it is the end.
func closing(answers []scrape.Answer, phase span, next int64) int64 {
	for _, a := range answers {
		if a.At > next {
			break
		}
		if a.At-a.Took >= phase.End {
			return a.At
		}
	}
	return phase.End
}

func (s *samples) row(k int) []float64 { return s.values[k*s.width : (k+1)*s.width] }

// last returns the position of the last sample at or before an instant, -1 if there is none.
func (s *samples) last(at int64) int {
	return sort.Search(len(s.at), func(k int) bool { return s.at[k] > at }) - 1
}

// growth returns by how much each value grew from one instant to another. The value at an instant is that of the last sample at
// or before it. A drop of the first value is a restart of the server: the growth across it is what the series has then. ok is
// false if the series has no sample until the end. What was there before the first sample of a server is not known, and not
// counted.
func (s *samples) growth(from, to int64) (grown []float64, ok bool) {
	first, end := s.last(from), s.last(to)
	if end < 0 {
		return nil, false
	}
	grown = slices.Clone(s.row(end))
	before := make([]float64, s.width)
	if first < 0 && !s.born {
		first = 0
	}
	if first >= 0 {
		before = s.row(first)
	}
	for n := range grown {
		grown[n] -= before[n]
	}
	for k := first + 1; k <= end; k++ {
		now := s.row(k)
		if now[0] < before[0] {
			for n := range grown {
				grown[n] += before[n]
			}
		}
		before = now
	}
	return grown, !slices.ContainsFunc(grown, func(x float64) bool { return math.IsInf(x, 0) || math.IsNaN(x) })
}

// between returns the values of the samples in a span; its end belongs to it if closed is set.
func (s *samples) between(in span, closed bool) []float64 {
	end := in.End
	if !closed {
		end--
	}
	return s.values[s.last(in.Start-1)+1 : s.last(end)+1]
}
