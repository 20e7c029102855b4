package aiperf

import (
	"math"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/agentx/agentx/internal/lazyregexp"
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

// over returns mean, smallest and largest value of a gauge in a span, or of another series by how much each of its values grew there. closed: a
// gauge's value at the end of the span counts. ok is false if nothing is known of the series there.
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

// slicesOf cuts a phase into slices of a length in nanoseconds, the last maybe shorter, and returns those in which the series is known. rates are
// those of a counter in whole slices. Length 0 makes no slices.
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

// wholeNumber returns a number without its fraction, as an integer.
func wholeNumber(x float64) report.Number { return report.Int(int64(x)) }

// maxExact is the largest whole number up to which a float64 has all of them.
const maxExact = 1 << 53

// numberOf returns a number, as an integer if it is whole.
func numberOf(x float64) report.Number {
	if x == math.Trunc(x) && math.Abs(x) <= maxExact {
		return report.Int(int64(x))
	}
	return report.Float(x)
}

// statsOf returns the statistics of a series in a phase. over is what samples.over returned for the phase, rates what slicesOf did.
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

// inside returns the values of a gauge in a phase, both ends included. If there is none, it returns the last value before the phase.
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

// perSecond divides a growth by the time between two answers: the last one before the phase, or else the first, and the last one in the phase.
// It returns 0 if that time is 0.
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

// quantile estimates a quantile from cumulative counts, as if the values of a bucket were spread evenly. In the last bucket, which has no upper
// bound, it is the lower bound.
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

// span is the time from start to end, both in nanoseconds since 1970.
type span struct {
	Start int64 `json:"start_ns"`
	End   int64 `json:"end_ns"`
}

// seconds returns the length of the span.
func (s span) seconds() float64 { return float64(s.End-s.Start) / 1e9 }

// samples are the values of one series over time. A histogram or summary has width values at each instant, which follow each other in values.
type samples struct {
	at     []int64 // nanoseconds since 1970
	values []float64
	width  int

	// born: the server answered before the first sample without showing the series, so the series began at 0.
	born bool
}

// samplesOf returns the samples of a series. A counter has one for each change, because its value holds until the next. A gauge has one for every
// answer that shows it, so that an average weighs a value by how long it held.
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

// row returns the values of the series at sample k.
func (s *samples) row(k int) []float64 { return s.values[k*s.width : (k+1)*s.width] }

// last returns the position of the last sample at or before an instant, -1 if there is none.
func (s *samples) last(at int64) int {
	return sort.Search(len(s.at), func(k int) bool { return s.at[k] > at }) - 1
}

// growth returns by how much each value grew between two instants. The value at an instant is that of the last sample at or before it. If the
// first value drops, the server has restarted, and the growth goes on from 0. Growth before the first sample is not known and not counted. ok is
// false if there is no sample up to the end.
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

// units are AIPerf's units by the ending of a metric's name. The longest ending that fits decides.
var units = map[string]string{
	"_seconds": "seconds", "_milliseconds": "milliseconds", "_ms": "milliseconds", "_nanoseconds": "nanoseconds", "_ns": "nanoseconds",
	"_bytes": "bytes", "_kilobytes": "kilobytes", "_megabytes": "megabytes", "_gigabytes": "gigabytes",
	"_total": "count", "_count": "count", "_tokens": "tokens", "_requests": "requests", "request_success": "requests",
	"_errors": "errors", "_error_count": "errors", "_reqs": "requests", "_blocks": "blocks", "_block_count": "blocks", "_gb_s": "gb/s",
	"_ratio": "ratio", "_percent": "percent", "_perc": "percent", "_celsius": "celsius", "_joules": "joule", "_watts": "watt",
}

// told are units that descriptions name. The first that fits decides.
var told = []struct {
	says func() *regexp.Regexp
	unit string
}{
	{lazyregexp.New(`(?i)\b0(\.0)?\s*([-–—]+|to)\s*1(\.0)?\b|\b1(\.0)?\s*(means|is|equals?|==?)\s*100\s*(%|percent)`), "ratio"},
	{lazyregexp.New(`(?i)\b0(\.0)?\s*([-–—]+|to)\s*100\b`), "percent"},
	{lazyregexp.New(`\(in (MiB|MB)\)`), "megabytes"},
	{lazyregexp.New(`\(in (GiB|GB)\)`), "gigabytes"},
	{lazyregexp.New(`\(in W\)`), "watt"},
	{lazyregexp.New(`(?i)(\bin\s+|\()seconds?\b`), "seconds"},
	{lazyregexp.New(`(?i)(\bin\s+|\()(milliseconds?|ms)\b`), "milliseconds"},
	{lazyregexp.New(`(?i)(\bin\s+|\()(nanoseconds?|ns)\b`), "nanoseconds"},
	{lazyregexp.New(`(?i)(\bin\s+|\()bytes?\b`), "bytes"},
	{lazyregexp.New(`(?i)(\bin\s+|\()gb/s\b`), "gb/s"},
	{lazyregexp.New(`(?i)(\bin\s+|\()mb/s\b`), "mb/s"},
	{lazyregexp.New(`(?i)(\bin\s+|\()tokens?/s(ec(ond)?)?\b`), "tokens/s"},
	{lazyregexp.New(`(?i)(\bin\s+|\()requests?/s(ec(ond)?)?\b`), "requests/s"},
	{lazyregexp.New(`(?i)\bin\s+tokens?\b`), "tokens"},
}

// unitOf returns the unit of a metric as AIPerf finds it: what its description tells, else what its name ends in, else ""
// but for those of numbers of requests.
func unitOf(name, help string) string {
	for _, t := range told {
		if help != "" && t.says().MatchString(help) {
			return t.unit
		}
	}
	name = strings.ToLower(name)
	unit, length := "", 0
	for end, u := range units {
		if len(end) <= length {
			continue
		}
		if strings.HasSuffix(name, end) || strings.HasSuffix(name, end+"_total") {
			unit, length = u, len(end)
		}
	}
	if unit == "" && strings.Contains(name, "num_requests_") {
		return "requests"
	}
	return unit
}
