package report

import (
	"slices"
	"strconv"

	"github.com/agentx/agentx/replay/measure"
)

// percentiles are those of every distribution.
var percentiles = [...]float64{1, 5, 10, 25, 50, 75, 90, 95, 99}

// percentileName returns the name of a percentile: p99.
func percentileName(q float64) string { return "p" + strconv.FormatFloat(q, 'f', -1, 64) }

// samples are the values of one metric.
type samples struct {
	values []float64
	sum    int64 // of integers
	floats bool  // not all are integers
}

func (s *samples) reset() { *s = samples{values: s.values[:0]} }

func (s *samples) add(n Number) {
	s.values = append(s.values, n.Float64())
	if n.IsInt() {
		s.sum += n.Int64()
	} else {
		s.floats = true
	}
}

// number returns a value that is one of the samples, or the sum of some.
func (s *samples) number(v float64) Number {
	if s.floats {
		return Float(v)
	}
	return Int(int64(v))
}

// distribution sorts at least one sample and returns their statistics.
func (s *samples) distribution() []Stat {
	slices.Sort(s.values)
	mean, std := measure.MeanAndStd(s.values)
	n := len(s.values)
	stats := []Stat{{"avg", Float(mean)}, {"min", s.number(s.values[0])}, {"max", s.number(s.values[n-1])}}
	for _, q := range percentiles {
		stats = append(stats, Stat{percentileName(q), Float(measure.Percentile(s.values, q))})
	}
	sum := Int(s.sum)
	if s.floats {
		sum = Float(mean * float64(n))
	}
	return append(stats, Stat{"std", Float(std)}, Stat{"count", Int(int64(n))}, Stat{"sum", sum})
}

// adjusted returns the statistics of sorted samples and an infinite one of each failure: those that are finite. A percentile is the
// sample nearest to its position.
func (s *samples) adjusted(failures int) []Stat {
	n := len(s.values) + failures
	stats := []Stat{{"min", s.number(s.values[0])}}
	for _, q := range percentiles {
		if at, _ := measure.Nearest(int64(n), q); at < int64(len(s.values)) {
			stats = append(stats, Stat{percentileName(q), s.number(s.values[at])})
		}
	}
	return append(stats, Stat{"count", Int(int64(n))})
}

// adjustedTags are the metrics that have an adjusted form.
var adjustedTags = map[string]bool{
	"request_latency": true, "time_to_first_token": true, "inter_token_latency": true, "decode_duration": true, "effective_latency": true,
}

// isAdjusted reports whether a metric has an adjusted form.
func (run *Run) isAdjusted(tag string) bool {
	return adjustedTags[tag] || run.Harness() && (tag == "full_decode_duration" || tag == "full_response_inter_token_latency")
}

// distributions adds a block for each metric of a request that some request has.
func (t *tableBuilder) distributions() {
	for _, m := range t.run.metrics() {
		if m.of == nil {
			continue
		}
		t.scratch.reset()
		t.each(func(r *row) {
			if r.failed {
				return
			}
			if v, ok := m.of(r, &t.run.rules); ok {
				t.scratch.add(v)
			}
		})
		if len(t.scratch.values) == 0 {
			continue
		}
		t.add(Block{m.tag, m.name, m.unit, Distribution, t.scratch.distribution()})
		if t.failures > 0 && t.run.isAdjusted(m.tag) {
			t.add(Block{"adj_" + m.tag, m.name + " (error-adjusted)", m.unit, Adjusted, t.scratch.adjusted(t.failures)})
		}
	}
}
