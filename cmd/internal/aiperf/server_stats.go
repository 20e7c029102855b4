package aiperf

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/scrape"
	"github.com/agentx/agentx/report"
)

// serverPercentiles are those of gauges and histograms.
var serverPercentiles = []float64{1, 5, 10, 25, 50, 75, 90, 95, 99}

// percentileNames returns p1 to p99 with a suffix.
func percentileNames(suffix string) (list []string) {
	for _, q := range serverPercentiles {
		list = append(list, "p"+strconv.FormatFloat(q, 'f', -1, 64)+suffix)
	}
	return list
}

// addFloat adds a number as a float, unless it is not finite.
func (o *object) addFloat(key string, x float64) {
	if !math.IsInf(x, 0) && !math.IsNaN(x) {
		o.add(key, report.Float(x))
	}
}

// over returns what a series did in a span: of a gauge, whose span has its end in it if closed is set, mean, smallest and largest value, of
// another by how much each of its values grew. ok is false if nothing is known of it there.
func (s *samples) over(t scrape.Type, in span, closed bool) (values []float64, ok bool) {
	if t != scrape.Gauge {
		return s.growth(in.Start, in.End)
	}
	inside := s.between(in, closed)
	if len(inside) == 0 {
		return nil, false
	}
	mean, _ := measure.MeanAndStd(inside)
	return []float64{mean, slices.Min(inside), slices.Max(inside)}, !math.IsInf(mean, 0)
}

// slicesOf cuts a phase into slices of a length, the last of which may be shorter, and returns those in which something is known of
// the series, and of a counter the rates in the whole ones. Slices of no length are none.
func (s *samples) slicesOf(t scrape.Type, bounds []string, phase span, length int64) (list []object, rates []float64) {
	for start := phase.Start; length > 0 && start < phase.End; start += length {
		in := span{start, min(start+length, phase.End)}
		values, ok := s.over(t, in, in.End == phase.End)
		if !ok {
			continue
		}
		whole := in.End == start+length
		one := object{{"start_ns", in.Start}, {"end_ns", in.End}}
		if !whole {
			one.add("is_complete", false)
		}
		switch t {
		case scrape.Counter:
			rate := values[0] / in.seconds()
			one.addFloat("total", values[0])
			one.addFloat("rate", rate)
			if whole {
				rates = append(rates, rate)
			}
		case scrape.Gauge:
			for k, name := range []string{"avg", "min", "max"} {
				one.addFloat(name, values[k])
			}
		default:
			one.add("count", wholeNumber(values[0]))
			one.addFloat("sum", values[1])
			avg := values[1] / values[0]
			if values[0] <= 0 || math.IsInf(avg, 0) {
				avg = 0
			}
			one.addFloat("avg", avg)
			if t == scrape.Histogram && values[0] > 0 {
				one.add("buckets", bucketsOf(bounds, values, numberOf))
			}
		}
		list = append(list, one)
	}
	return list, rates
}

// bucketsOf returns the growths of the cumulative counts of a histogram by their bounds.
func bucketsOf(bounds []string, grown []float64, as func(float64) report.Number) (o object) {
	for k, bound := range bounds {
		o.add(bound, as(grown[2+k]))
	}
	return o
}

func wholeNumber(x float64) report.Number { return report.Int(int64(x)) }

// maxExact is the largest whole number up to which a float64 has all of them.
const maxExact = 1 << 53

// numberOf returns a number, as an integer where it is one.
func numberOf(x float64) report.Number {
	if x == math.Trunc(x) && math.Abs(x) <= maxExact {
		return report.Int(int64(x))
	}
	return report.Float(x)
}

// statsOf returns the statistics of a series in a phase, of which the numbers over it and the rates in its slices are known.
func (s *samples) statsOf(of *scrape.Series, over, rates []float64, phase span, e *scrape.Endpoint) (list object) {
	switch of.Type {
	case scrape.Counter:
		list.addFloat("total", over[0])
		list.addFloat("rate", perSecond(over[0], phase, e))
		return append(list, spread("rate_", rates)...)
	case scrape.Histogram, scrape.Summary:
		list.add("count", wholeNumber(over[0]))
		if over[0] <= 0 {
			return list
		}
		list.addFloat("sum", over[1])
		list.addFloat("avg", over[1]/over[0])
		list.addFloat("count_rate", perSecond(over[0], phase, e))
		list.addFloat("sum_rate", perSecond(over[1], phase, e))
		for k, name := range percentileNames("_estimate") {
			if of.Type == scrape.Histogram {
				list.addFloat(name, quantile(of.Bounds, over[2:], serverPercentiles[k]/100))
			}
		}
		return list
	}
	inside := s.inside(phase)
	list = spread("", inside)
	slices.Sort(inside)
	for k, name := range percentileNames("") {
		list.addFloat(name, measure.Percentile(inside, serverPercentiles[k]))
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
func spread(prefix string, values []float64) (list object) {
	if len(values) == 0 {
		return nil
	}
	mean, std := measure.MeanAndStd(values)
	if n := float64(len(values)); n > 1 {
		std *= math.Sqrt(n / (n - 1)) // of a sample, not of a population
	}
	list.addFloat(prefix+"avg", mean)
	list.addFloat(prefix+"min", slices.Min(values))
	list.addFloat(prefix+"max", slices.Max(values))
	list.addFloat(prefix+"std", std)
	return list
}

// perSecond divides a growth by the time between the answers that it is between: the last before the phase, or the first, and the last
// in it, that of its end too. It is 0 of no time.
func perSecond(total float64, phase span, e *scrape.Endpoint) float64 {
	first, last := int64(0), int64(0)
	for k, a := range e.Answers {
		if k == 0 || a.At < phase.Start {
			first = a.At
		}
		if a.At <= phase.End {
			last = a.At
		}
	}
	if last <= first {
		return 0
	}
	return total / (span{first, last}).seconds()
}

// quantile estimates a quantile from cumulative counts, as if the values of a bucket lay evenly in it. Of the last bucket, which has no
// upper bound, it is the lower one.
func quantile(bounds []string, counts []float64, q float64) float64 {
	lower, before := 0.0, 0.0
	for k, bound := range bounds {
		upper, err := strconv.ParseFloat(strings.TrimPrefix(bound, "+"), 64)
		if err != nil || math.IsInf(upper, 0) {
			break
		}
		if rank := q * counts[len(bounds)-1]; counts[k] >= rank && counts[k] > before {
			return lower + (upper-lower)*(rank-before)/(counts[k]-before)
		}
		lower, before = upper, counts[k]
	}
	return lower
}
