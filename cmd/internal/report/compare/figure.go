package compare

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/agentx/agentx/cmd/internal/report/interval"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/slo"
)

// eachRequest are the metrics that every request has, drawn those of them that charts and selections need.
var (
	eachRequest = slices.DeleteFunc(slices.Clone(measure.MetricList), func(m measure.Metric) bool { return !m.OfEach })
	drawn       = slices.DeleteFunc(slices.Clone(eachRequest), func(m measure.Metric) bool { return m.Decides == "" })
)

// figures are the rows of a comparison in their order: every statistic of the metrics that requests have, then those of a run. TableFigures
// are those that tables show: compare.json and compare.csv have all. judged decide whether runs differ: those a server is chosen by, and two
// that say whether the runs had the same work. The others are shown with their intervals, and decide nothing.
var (
	figures      = figuresOf(measure.MetricList, func(*measure.Metric) string { return strings.Join(slo.Statistics, " ") })
	TableFigures = figuresOf(measure.MetricList, func(m *measure.Metric) string { return m.Compared })
	judged       = figuresOf(eachRequest, func(m *measure.Metric) string { return m.Decides })
)

func figuresOf(metrics []measure.Metric, statistics func(*measure.Metric) string) (list []slo.Figure) {
	for k := range metrics {
		list = append(list, metrics[k].Figures(statistics(&metrics[k]))...)
	}
	return list
}

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
	Differs  bool               `json:"differs"`            // it does: by leastDifference, and Deciding does not have 0
}

// shown is the interval that stands beside a difference: the one that decides whether it is marked. nil: there is none.
func (d *Difference) shown() *interval.Interval {
	if d.Deciding != nil {
		return d.Deciding
	}
	return d.Interval
}

// Levels of intervals. An interval, and a gate, have that of one figure; that which decides has, with those of the other judged figures together, the same.
const oneLevel = "95 %"

// DecidingLevel is the level of an interval that decides; DecidingNote says where it is from.
var (
	DecidingLevel = fmt.Sprintf("%.3g %%", 100*(1-0.05/float64(len(judged))))
	DecidingNote  = fmt.Sprintf("%s of all %d figures that decide together", oneLevel, len(judged))
)

// ShownText writes Shown with its level; "": there is none.
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

// Change writes the difference of a figure in a unit as a share, and over which trees it is where these are not all.
func (d *Difference) Change(unit slo.Unit) string {
	return d.relative(unit) + d.over()
}

// relative writes the difference; of a figure that is a share itself it says that points are not meant.
func (d *Difference) relative(unit slo.Unit) string {
	text := FormatChange(float64(d.Ratio))
	if unit == slo.Share && d.Ratio != 0 && strings.HasSuffix(text, "%") {
		text += " relative"
	}
	return text
}

func (d *Difference) over() string {
	if d.Trees == 0 {
		return ""
	}
	return fmt.Sprintf(" over %s", measure.Plural(d.Trees, "common tree", "common trees"))
}

// leastDifference is the part of a figure below which a difference is not named, however narrow its interval: two runs of one
// configuration differ by so much through the state of machines and networks, which resampling the trees of one run cannot see.
const leastDifference = 0.01

// Method says how the interval of a difference came about.
type Method string

// The methods.
const (
	Paired      Method = "paired"      // the runs played the same trees, which were compared one by one
	Independent Method = "independent" // the trees of each run were resampled on their own
	NoInterval  Method = "none"
)

// share writes a part of 1 in per cent.
func share(v float64) string { return measure.FormatFigure(measure.Number(v), slo.Share) }

// FormatChange writes a difference in per cent, with its sign; of three times as much and more, the factor.
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

func joined(list []string) string { return strings.Join(list, ", ") }
