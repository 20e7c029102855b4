package server

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/scrape"
	"github.com/agentx/agentx/report"
)

// percentiles are those of gauges and histograms.
var percentiles = []float64{1, 5, 10, 25, 50, 75, 90, 95, 99}

// columns are the statistics of a table of the CSV, by type, in their order.
var columns = map[scrape.Type][]string{
	scrape.Gauge:     append([]string{"avg", "min", "max", "std"}, percentileNames("")...),
	scrape.Counter:   {"total", "rate", "rate_avg", "rate_min", "rate_max", "rate_std"},
	scrape.Histogram: append([]string{"count", "count_rate", "sum", "sum_rate", "avg"}, percentileNames("_estimate")...),
	scrape.Summary:   {"count", "count_rate", "sum", "sum_rate", "avg"},
}

// percentileNames returns p1 to p99 with a suffix.
func percentileNames(suffix string) (list []string) {
	for _, q := range percentiles {
		list = append(list, "p"+strconv.FormatFloat(q, 'f', -1, 64)+suffix)
	}
	return list
}

// statsOf returns the statistics of a series of a type in a phase, of which the numbers over it and its slices are known.
func (s *samples) statsOf(t scrape.Type, over stats, parts []slice, phase span, e *scrape.Endpoint) (list figures) {
	switch t {
	case scrape.Counter:
		list.float("total", over.Total)
		list.float("rate", perSecond(over.Total, phase, e))
		var rates []float64
		for _, p := range parts {
			if p.Complete == nil && p.Rate != nil {
				rates = append(rates, p.Rate.Float64())
			}
		}
		return append(list, spread("rate_", rates)...)
	case scrape.Histogram, scrape.Summary:
		list = append(list, figure{"count", report.Int(over.Count.Int64())})
		if over.Count.Float64() <= 0 {
			return list
		}
		list.float("sum", over.Sum)
		list.float("avg", over.Avg)
		list.float("count_rate", perSecond(over.Count, phase, e))
		list.float("sum_rate", perSecond(over.Sum, phase, e))
		if t == scrape.Summary {
			return list
		}
		for k, q := range percentiles {
			n := report.Float(over.Buckets.quantile(q / 100))
			list.float(percentileNames("_estimate")[k], &n)
		}
		return list
	}
	inside := s.inside(phase)
	list = spread("", inside)
	slices.Sort(inside)
	for k, q := range percentiles {
		n := report.Float(measure.Percentile(inside, q))
		list.float(percentileNames("")[k], &n)
	}
	return list
}

// inside returns the values of a gauge in a phase, both ends included; without one, that before it, if there is one.
func (s *samples) inside(phase span) []float64 {
	list := s.between(phase, true)
	if end := s.last(phase.End) + 1; len(list) == 0 && end > 0 {
		list = s.values[end-1 : end]
	}
	return slices.Clone(list)
}

// spread returns mean, extremes and standard deviation of a sample; none without values.
func spread(prefix string, values []float64) (list figures) {
	if len(values) == 0 {
		return nil
	}
	mean, std := measure.MeanAndStd(values)
	if n := float64(len(values)); n > 1 {
		std *= math.Sqrt(n / (n - 1)) // of a sample, not of a population
	}
	for _, f := range []struct {
		name  string
		value float64
	}{{"avg", mean}, {"min", slices.Min(values)}, {"max", slices.Max(values)}, {"std", std}} {
		n := report.Float(f.value)
		list.float(prefix+f.name, &n)
	}
	return list
}

// perSecond divides a growth by the time between the answers that it is between: the last before the phase, or the first, and the last
// in it, that of its end too. It is 0 of no time.
func perSecond(total *report.Number, phase span, e *scrape.Endpoint) *report.Number {
	first, last := int64(0), int64(0)
	for k, a := range e.Answers {
		if k == 0 || a.At < phase.Start {
			first = a.At
		}
		if a.At <= phase.End {
			last = a.At
		}
	}
	n := report.Float(0)
	if seconds := float64(last-first) / 1e9; seconds > 0 {
		n = report.Float(total.Float64() / seconds)
	}
	return &n
}

// quantile estimates a quantile from cumulative counts, as if the values of a bucket lay evenly in it. Of the last bucket, which has no
// upper bound, it is the lower one.
func (b buckets) quantile(q float64) float64 {
	if len(b) == 0 {
		return 0
	}
	rank := q * b[len(b)-1].count.Float64()
	lower, before := 0.0, 0.0
	for _, one := range b {
		upper, err := strconv.ParseFloat(strings.TrimPrefix(one.bound, "+"), 64)
		n := one.count.Float64()
		if err != nil || math.IsInf(upper, 0) {
			break
		}
		if n >= rank && n > before {
			return lower + (upper-lower)*(rank-before)/(n-before)
		}
		lower, before = upper, n
	}
	return lower
}
