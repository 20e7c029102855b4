package server

import (
	"math"
	"slices"
	"sort"

	"github.com/agentx/agentx/replay/scrape"
)

// samples are the values of one series over time, in the order of the instants. The values of a counter stand behind one another
// in values, width of them for each instant.
type samples struct {
	at     []int64 // nanoseconds since 1970
	values []float64
	width  int

	// born: the server answered before the first sample, and did not show the series then. Its value was 0 there.
	born bool
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
