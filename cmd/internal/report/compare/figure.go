package compare

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/agentx/agentx/cmd/internal/report/interval"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/slo"
)

// eachRequest are the metrics that every request has, drawn those of them that charts and selections show.
var (
	eachRequest = slices.DeleteFunc(slices.Clone(measure.MetricList), func(m measure.Metric) bool { return !m.OfEach })
	drawn       = slices.DeleteFunc(slices.Clone(eachRequest), func(m measure.Metric) bool { return m.Decides == "" })
)

// figures are the rows of compare.json and compare.csv in their order: every statistic of the metrics of requests, then the metrics of a run.
// TableFigures are those that tables show. judged are those that decide whether runs differ: figures by which people choose a server, and two
// that tell whether the runs had the same work. All others are shown with their intervals and decide nothing.
var (
	figures      = figuresOf(measure.MetricList, func(*measure.Metric) string { return strings.Join(slo.Statistics, " ") })
	TableFigures = figuresOf(measure.MetricList, func(m *measure.Metric) string { return m.Compared })
	judged       = figuresOf(eachRequest, func(m *measure.Metric) string { return m.Decides })
)

// figuresOf lists the figures of metrics. statistics names those of a metric, with blanks between.
func figuresOf(metrics []measure.Metric, statistics func(*measure.Metric) string) (list []slo.Figure) {
	for k := range metrics {
		list = append(list, metrics[k].Figures(statistics(&metrics[k]))...)
	}
	return list
}

// isJudged reports whether a figure decides whether runs differ.
func isJudged(f slo.Figure) bool { return slices.Contains(judged, f) }

// Figure is one number of one run.
type Figure struct {
	Value      measure.Number     `json:"value"`
	Few        bool               `json:"few,omitempty"`        // a percentile of few samples: measure.Stat.Few
	Interval   *interval.Interval `json:"interval"`             // in which the value lies with a probability of 95 %; nil: there is none
	Difference *Difference        `json:"difference,omitempty"` // to the first run; nil of that run, and where one has no value
}

// Difference is how a figure differs from that of the first run. All but Absolute are parts of the figure of the first run.
type Difference struct {
	Absolute measure.Number     `json:"absolute"`
	Ratio    measure.Number     `json:"ratio"`              // 0.1: 10 % more than the first
	Interval *interval.Interval `json:"interval"`           // of Ratio; nil: there is none
	Method   Method             `json:"method"`             // how the interval came about
	Trees    int                `json:"trees,omitempty"`    // common ones, which all but Overlap is over; 0: it is over all of both runs
	Deciding *interval.Interval `json:"deciding,omitempty"` // of a judged figure: Interval, widened for the number of such figures
	Overlap  *bool              `json:"overlap"`            // the intervals of the two values have a number in common; nil: one has none
	Beyond   bool               `json:"beyond"`             // the interval does not have 0
	Judged   bool               `json:"judged"`             // the figure decides whether the runs differ
	Differs  bool               `json:"differs"`            // Decision is Differs
	Decision Decision           `json:"decision,omitempty"` // of a judged figure that has an interval

	MoreTrees int                `json:"more_trees,omitempty"` // about so many more in each run would decide what is Open
	Pair      *[2]measure.Number `json:"pair,omitempty"`       // where Trees is not 0: the figure of the first and of this run over them
}

// shown returns the interval that is shown beside a difference: the one that decides whether the figure is marked. nil: there is none.
func (d *Difference) shown() *interval.Interval {
	if d.Deciding != nil {
		return d.Deciding
	}
	return d.Interval
}

// oneLevel is the level of the interval of one figure, and of a gate.
const oneLevel = "95 %"

// DecidingLevel is the level of an interval that decides: higher, so that all of these together have oneLevel. DecidingNote says so.
var (
	DecidingLevel = fmt.Sprintf("%.3g %%", 100*(1-0.05/float64(len(judged))))
	DecidingNote  = fmt.Sprintf("%s of all %d figures that decide together", oneLevel, len(judged))
)

// ShownText writes the interval beside a difference with its level; "" if there is none.
func (d *Difference) ShownText() string {
	i, level := d.shown(), oneLevel
	if i == nil {
		return ""
	}
	if d.Deciding != nil {
		level = DecidingLevel
	}
	return fmt.Sprintf("%s to %s (%s)", FormatChange(i.Low), FormatChange(i.High), level)
}

// Change writes the relative difference of a figure that has a unit, and over how many trees it is if these are not all.
func (d *Difference) Change(unit slo.Unit) string {
	return d.relative(unit) + d.over(unit)
}

// relative writes the relative difference. For a figure that is itself a share it adds "relative": percentage points are not meant.
func (d *Difference) relative(unit slo.Unit) string {
	text := FormatChange(float64(d.Ratio))
	if unit == slo.Share && d.Ratio != 0 && strings.HasSuffix(text, "%") {
		text += " relative"
	}
	return text
}

// over says over how many trees the difference is, if these are not all, and what the figures of both runs are over them.
func (d *Difference) over(unit slo.Unit) string {
	if d.Trees == 0 {
		return ""
	}
	text := fmt.Sprintf(" over %s", measure.Plural(d.Trees, "common tree", "common trees"))
	if d.Pair != nil {
		text += fmt.Sprintf(": %s to %s", measure.FormatFigure(d.Pair[0], unit), measure.FormatFigure(d.Pair[1], unit))
	}
	return text
}

// Method says how the interval of a difference came about.
type Method string

// The methods.
const (
	Paired      Method = "paired"      // the runs played the same trees, which were compared one by one
	Independent Method = "independent" // the trees of each run were resampled on their own
	NoInterval  Method = "none"
)

// share writes a number from 0 to 1 in per cent.
func share(v float64) string { return measure.FormatFigure(measure.Number(v), slo.Share) }

// FormatChange writes a relative difference in per cent with its sign; from three times as much on it writes the factor.
func FormatChange(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "without bound"
	}
	if v >= 2 {
		return "×" + strconv.FormatFloat(1+v, 'g', 3, 64)
	}
	v *= 100
	digits := 1
	if math.Abs(v) < 1 {
		digits = 2
	}
	text := strconv.FormatFloat(v, 'f', digits, 64)
	if v >= 0 {
		text = "+" + text
	}
	if strings.Trim(text, "+-0.") == "" {
		text = "0"
	}
	return text + " %"
}

// joined joins texts with commas.
func joined(list []string) string { return strings.Join(list, ", ") }

// statistics are those that a metric of requests has.
var statistics = interval.Statistics()

// sampled are the metrics whose figures are statistics of requests. That of the error rate is the mean, of 1 and 0.
var sampled = append(slices.Clone(eachRequest), *measure.MetricNamed("error-rate"))

// sampledFigure returns the figure of a metric at place k of statistics; false if the metric has no such figure.
func sampledFigure(m *measure.Metric, k int) (slo.Figure, bool) {
	if !m.OfEach {
		return slo.Figure{Metric: m.Metric}, statistics[k] == interval.Mean
	}
	return slo.Figure{Metric: m.Metric, Statistic: slo.Statistics[k]}, true
}

// addIntervals adds the intervals of the figures of one run. If no figure gets one, it returns why.
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

// eachMetric calls do for every metric that is resampled, each in a goroutine of its own, because resampling takes seconds.
func eachMetric(do func(n int, metric string)) {
	var all sync.WaitGroup
	for n, m := range sampled {
		all.Go(func() { do(n, m.Name) })
	}
	all.Wait()
}

// pair is the comparison of one metric of two runs.
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

// Repeat has the figures of runs that repeat one run.
type Repeat struct {
	Group   string                  `json:"group"`
	Runs    []int                   `json:"runs"`    // their places in the comparison
	Figures map[string]RepeatFigure `json:"figures"` // by name; those that every run has
}

// RepeatFigure is a figure over runs.
type RepeatFigure struct {
	Mean     float64            `json:"mean"`
	Interval *interval.Interval `json:"interval"` // of the mean, by Student's law, 95 %
}

// repeats returns the groups of two or more runs that repeat one, with the mean of each figure.
func (c *Comparison) repeats() []Repeat {
	list := []Repeat{}
	for k := range c.Runs {
		group := c.Runs[k].Group
		if group == "" {
			continue
		}
		at := slices.IndexFunc(list, func(r Repeat) bool { return r.Group == group })
		if at < 0 {
			list, at = append(list, Repeat{Group: group, Figures: map[string]RepeatFigure{}}), len(list)
		}
		list[at].Runs = append(list[at].Runs, k)
	}
	list = slices.DeleteFunc(list, func(r Repeat) bool { return len(r.Runs) < 2 })
	for k := range list {
		for _, f := range figures {
			c.repeat(&list[k], f.String())
		}
	}
	return list
}

// repeat adds one figure over the runs of a group.
func (c *Comparison) repeat(r *Repeat, name string) {
	var values []float64
	for _, k := range r.Runs {
		v := c.Runs[k].value(name)
		if v.IsMissing() {
			return
		}
		values = append(values, float64(v))
	}
	mean, i, err := interval.Student(values)
	if err == nil && i.Known() {
		r.Figures[name] = RepeatFigure{mean, &i}
	}
}

// text writes the mean and, behind ±, half the width of its interval.
func (x RepeatFigure) text(f slo.Figure) string {
	half := (x.Interval.High - x.Interval.Low) / 2
	text := measure.FormatFigure(measure.Number(x.Mean), f.Unit) + " ± " + measure.FormatFigure(measure.Number(half), f.Unit)
	if x.Mean != 0 {
		text += fmt.Sprintf(" (%s)", share(half/x.Mean))
	}
	return text
}
