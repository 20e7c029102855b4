package compare

import (
	"cmp"
	"math"
	"slices"
	"sync"

	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/slo"
	"github.com/agentx/agentx/report/interval"
)

// statistics are those that a metric of requests has.
var statistics = interval.Statistics()

// sampled are the metrics whose figures are statistics of requests. That of the error rate is the mean, of 1 and 0.
var sampled = append(slices.Clone(eachRequest), *measure.MetricNamed("error-rate"))

// sampledFigure returns the figure that is a statistic of a metric, by its place in statistics; false: there is none.
func sampledFigure(m *measure.Metric, k int) (slo.Figure, bool) {
	if !m.OfEach {
		return slo.Figure{Metric: m.Metric}, statistics[k] == interval.Mean
	}
	return slo.Figure{Metric: m.Metric, Statistic: slo.Statistics[k]}, true
}

// addIntervals adds the intervals of the figures of one run. It returns why no figure has one; nil: some do.
func addIntervals(r *run, to map[string]*Figure) (why error) {
	lists, errs := make([][]interval.Interval, len(sampled)), make([]error, len(sampled))
	eachMetric(func(n int, metric string) {
		if s := r.sample(metric); len(s.Values) > 0 {
			lists[n], errs[n] = interval.Of(s, statistics, r.seed())
		}
	})
	added := false
	for n, list := range lists {
		if errs[n] != nil {
			why = errs[n]
		}
		for k, i := range list {
			if f, ok := sampledFigure(&sampled[n], k); ok && i.Known() {
				to[f.String()].Interval, added = &i, true
			}
		}
	}
	if added {
		return nil
	}
	return why
}

// eachMetric calls a function for every metric that is resampled, each in a goroutine of its own: resampling takes seconds.
func eachMetric(do func(n int, metric string)) {
	var all sync.WaitGroup
	for n, m := range sampled {
		all.Go(func() { do(n, m.Name) })
	}
	all.Wait()
}

// compareRuns adds the differences of a run to the first.
func (c *Comparison) compareRuns(first, other *run, k int) {
	a, b := c.Runs[0].Figures, c.Runs[k].Figures
	for _, f := range figures {
		name := f.String()
		x, y := a[name], b[name]
		if x.Value.IsMissing() || y.Value.IsMissing() {
			continue
		}
		d := &Difference{Absolute: y.Value - x.Value, Ratio: (y.Value - x.Value) / x.Value, Method: NoInterval}
		if y.Value == x.Value {
			d.Ratio = 0
		}
		if x.Interval != nil && y.Interval != nil {
			overlap := x.Interval.Low <= y.Interval.High && y.Interval.Low <= x.Interval.High
			d.Overlap = &overlap
		}
		y.Difference = d
	}
	v := Verdict{Run: k, Method: NoInterval, Figures: []string{}}
	pairs := make([]pair, len(sampled))
	eachMetric(func(n int, metric string) { pairs[n] = pairOf(first, other, metric) })
	for n, p := range pairs {
		if p.Method == NoInterval {
			v.Why = cmp.Or(v.Why, p.why)
			continue
		}
		v.Method, v.Trees, v.Why = p.Method, max(v.Trees, p.trees), p.why
		v.Figures = append(v.Figures, p.judge(&sampled[n], b)...)
	}
	c.Verdicts = append(c.Verdicts, v)
}

// judge adds the intervals of the differences of one metric. It returns the figures that differ.
func (p *pair) judge(metric *measure.Metric, to map[string]*Figure) (differ []string) {
	for k, d := range p.list {
		f, ok := sampledFigure(metric, k)
		if y := to[f.String()]; ok && y.Difference != nil && d.Relative.Known() {
			y.Difference.judge(d, p.Method, f)
			y.Difference.Trees = p.common
			if y.Difference.Differs {
				differ = append(differ, f.String())
			}
		}
	}
	return differ
}

// judge adds what resampling says of a difference. Of paired runs it is that of the trees that both played.
func (d *Difference) judge(r interval.Difference, method Method, f slo.Figure) {
	d.Method, d.Interval = method, &r.Relative
	if method == Paired && r.B != 0 {
		d.Absolute, d.Ratio = measure.Number(r.A-r.B), measure.Number((r.A-r.B)/r.B)
	}
	d.Beyond = !d.Interval.Has(0)
	if d.Judged = isJudged(f); d.Judged {
		wide := widened(d.Interval, float64(d.Ratio), widening)
		d.Deciding = &wide
		d.Differs = d.Beyond && !wide.Has(0) && math.Abs(float64(d.Ratio)) >= leastDifference
	}
}

// widened returns the interval with its distances from a value multiplied.
func widened(i *interval.Interval, about, by float64) interval.Interval {
	return interval.Interval{Low: about - by*(about-i.Low), High: about + by*(i.High-about)}
}

// widening is how much wider the interval of one of the judged figures must be, so that together they hold their values with a
// probability of 95 %: the ratio of two quantiles of the normal distribution, at 0.05 divided by their number (Bonferroni) and at 0.05.
// Without it one comparison in three of equal runs would name a difference.
var widening = normalQuantile(1-0.025/float64(len(judged))) / normalQuantile(1-0.025)

func normalQuantile(p float64) float64 { return math.Sqrt2 * math.Erfinv(2*p-1) }

// pair is a metric of two runs, compared.
type pair struct {
	Method
	trees  int
	common int    // trees that were paired, where one run has others; else 0
	why    string // it is not paired, or has no interval
	list   []interval.Difference
}

// pairOf compares a metric of two runs: tree by tree where both played the same ones.
func pairOf(first, other *run, metric string) pair {
	if first.samples != nil && other.samples != nil {
		c, err := interval.Compare(other.samples, first.samples, metric, statistics)
		switch {
		case err == nil && c.Paired:
			p := pair{Method: Paired, trees: c.Trees, list: c.Differences}
			if p.trees < max(first.sample(metric).TreeCount(), other.sample(metric).TreeCount()) {
				p.common = p.trees
			}
			return p
		case err == nil:
			return pair{Method: Independent, trees: c.Trees, why: c.Why, list: c.Differences}
		case !c.Paired:
			return pair{Method: NoInterval, why: err.Error()}
		}
	}
	a, b := other.sample(metric), first.sample(metric)
	if len(a.Values) == 0 || len(b.Values) == 0 {
		return pair{Method: NoInterval}
	}
	list, err := interval.Unpaired(a, b, statistics, other.seed().With(first.seed()))
	if err != nil {
		return pair{Method: NoInterval, why: err.Error()}
	}
	return pair{Method: Independent, why: "they have too few trees in common", list: list}
}
