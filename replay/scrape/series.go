package scrape

import (
	"fmt"
	"math"
)

// Type is the type of a metric as its server declares it. What a server leaves untyped is a gauge.
type Type string

// The types.
const (
	Counter   Type = "counter"
	Gauge     Type = "gauge"
	Histogram Type = "histogram"
	Summary   Type = "summary"
)

// Series is one series of an endpoint: a name with its labels, and the values that it had.
type Series struct {
	Endpoint int               `json:"endpoint"` // position in Data.Endpoints
	Name     string            `json:"name"`
	Type     Type              `json:"type"`
	Labels   map[string]string `json:"labels"`
	Bounds   []string          `json:"bounds,omitempty"` // upper bounds of the buckets of a histogram, the last is +Inf
	Help     string            `json:"help,omitempty"`   // what the server says that it is; "": nothing

	answers []int32   // those in which the values changed, by their position at the endpoint
	values  []float64 // width of them for each
}

// width returns how many values an answer has of the series.
func (s *Series) width() int {
	switch s.Type {
	case Histogram:
		return 2 + len(s.Bounds)
	case Summary:
		return 2
	}
	return 1
}

// Len returns how often the values changed.
func (s *Series) Len() int { return len(s.answers) }

// Change returns the position of the k-th answer with other values than the one before, and these values; nil: from this answer on
// the server has not shown the series. The values are valid as long as the series.
func (s *Series) Change(k int) (answer int, values []float64) {
	n := s.width()
	values = s.values[k*n : (k+1)*n]
	if math.IsNaN(values[0]) {
		values = nil
	}
	return int(s.answers[k]), values
}

// add appends a change. Without values the series is gone.
func (s *Series) add(answer int, values []float64) error {
	n := s.width()
	switch {
	case values == nil:
		for range n {
			s.values = append(s.values, math.NaN())
		}
	case len(values) != n:
		return fmt.Errorf("%d values of series %s: want %d", len(values), s.Name, n)
	default:
		s.values = append(s.values, values...)
	}
	s.answers = append(s.answers, int32(answer))
	return nil
}

// validate returns an error about a series that a file cannot have.
func (s *Series) validate() error {
	switch s.Type {
	case Histogram:
		if len(s.Bounds) == 0 {
			return fmt.Errorf("series %s: a histogram without bounds", s.Name)
		}
	case Counter, Gauge, Summary:
		if len(s.Bounds) > 0 {
			return fmt.Errorf("series %s: a %s with bounds", s.Name, s.Type)
		}
	default:
		return fmt.Errorf("series %s: type %q: want counter, gauge, histogram or summary", s.Name, s.Type)
	}
	return nil
}
