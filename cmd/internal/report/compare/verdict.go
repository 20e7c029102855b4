package compare

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/agentx/agentx/cmd/internal/report/interval"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/slo"
)

// Verdict says whether a run differs from the one that it is compared with.
type Verdict struct {
	Run     int      `json:"run"`           // its place in the comparison
	Base    int      `json:"base"`          // that of the other run
	Method  Method   `json:"method"`        // of the intervals
	Trees   int      `json:"trees"`         // that were compared; 0: not one number for both runs
	Why     string   `json:"why,omitempty"` // the runs are not paired, or there are no intervals
	Figures []string `json:"figures"`       // the judged ones that differ beyond chance; none: nothing does
	Text    string   `json:"text"`          // the verdict in a sentence
}

// Decision is what the interval of a judged difference says.
type Decision string

// The decisions. The mark of a figure is its decision, so that mark and interval always agree.
const (
	Differs Decision = "differs" // Deciding does not have 0, and the difference is leastDifference or more
	Small   Decision = "small"   // the difference is less than leastDifference, and Deciding does not have 0 or lies within that
	Open    Decision = "open"    // neither: more trees would decide
)

// signs are the marks of decisions in texts.
var signs = map[Decision]string{Differs: " *", Small: " =", Open: " ~"}

// leastDifference is the relative difference below which a figure does not count as different, however narrow the interval is: two runs of one
// configuration differ by that much because of machines and networks, which resampling the trees of a run cannot see.
const leastDifference = 0.01

// compareRuns adds to the figures of run k their differences from those of run base, and its verdict.
func (c *Comparison) compareRuns(base, k int) {
	first, other := c.runs[base], c.runs[k]
	a, b := c.Runs[base].Figures, c.Runs[k].Figures
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
	v := Verdict{Run: k, Base: base, Method: NoInterval, Figures: []string{}}
	pairs := make([]pair, len(sampled))
	eachMetric(func(n int, metric string) { pairs[n] = pairOf(first, other, metric) })
	for n, p := range pairs {
		if p.Method == NoInterval {
			v.Why = cmp.Or(v.Why, p.why)
			continue
		}
		v.Method, v.Why = p.Method, p.why
		if sampled[n].Decides != "" {
			v.Trees = max(v.Trees, p.trees)
		}
		v.Figures = append(v.Figures, p.judge(&sampled[n], b)...)
	}
	v.Text = c.sentence(&v)
	c.Verdicts = append(c.Verdicts, v)
}

// judge adds the intervals of the differences to figures of one metric, and returns the names of those that differ.
func (p *pair) judge(metric *measure.Metric, to map[string]*Figure) (differ []string) {
	for k, d := range p.list {
		f, ok := sampledFigure(metric, k)
		if y := to[f.String()]; ok && y.Difference != nil && d.Relative.Known() {
			y.Difference.judge(d, p, f)
			if y.Difference.Differs {
				differ = append(differ, f.String())
			}
		}
	}
	return differ
}

// judge adds the interval that resampling found, and decides whether the figure differs. The difference of paired runs is over the trees that
// both played.
func (d *Difference) judge(r interval.Difference, p *pair, f slo.Figure) {
	d.Method, d.Interval = p.Method, &r.Relative
	if p.Method == Paired && r.B != 0 {
		d.Absolute, d.Ratio = measure.Number(r.A-r.B), measure.Number((r.A-r.B)/r.B)
	}
	if p.common > 0 {
		d.Trees, d.Pair = p.common, &[2]measure.Number{measure.Number(r.B), measure.Number(r.A)}
	}
	d.Beyond = !d.Interval.Has(0)
	if d.Judged = isJudged(f); !d.Judged {
		return
	}
	wide := widened(d.Interval, float64(d.Ratio), widening)
	d.Deciding = &wide
	size, apart := math.Abs(float64(d.Ratio)), d.Beyond && !wide.Has(0)
	within := wide.Low >= -leastDifference && wide.High <= leastDifference
	switch {
	case apart && size >= leastDifference:
		d.Decision, d.Differs = Differs, true
	case apart || within:
		d.Decision = Small
	default:
		d.Decision, d.MoreTrees = Open, moreTrees(p.trees, float64(d.Ratio), wide)
	}
}

// moreTrees returns about how many trees more than a number would decide a difference whose interval has 0, to two digits: intervals shrink with
// the root of the number. A difference of less than leastDifference is decided when its interval is no wider than that.
func moreTrees(trees int, ratio float64, i interval.Interval) int {
	reach, size := max(ratio-i.Low, i.High-ratio), leastDifference
	switch {
	case ratio >= leastDifference:
		reach, size = ratio-i.Low, ratio
	case ratio <= -leastDifference:
		reach, size = i.High-ratio, -ratio
	}
	more := float64(trees) * ((reach/size)*(reach/size) - 1)
	step := math.Pow(10, max(0, math.Floor(math.Log10(max(1, more)))-1))
	return max(1, int(math.Ceil(more/step)*step))
}

// widened returns an interval with the distances of its ends from a value multiplied by a factor.
func widened(i *interval.Interval, about, by float64) interval.Interval {
	return interval.Interval{Low: about - by*(about-i.Low), High: about + by*(i.High-about)}
}

// widening is how much wider the interval of a judged figure must be so that all of these hold their values together with a probability of
// 95 %: the ratio of two quantiles of the normal distribution, at 0.05 divided by their number (Bonferroni) and at 0.05. Without it every third
// comparison of equal runs would name a difference.
var widening = normalQuantile(1-0.025/float64(len(judged))) / normalQuantile(1-0.025)

// normalQuantile returns the quantile of the normal distribution for a probability.
func normalQuantile(p float64) float64 { return math.Sqrt2 * math.Erfinv(2*p-1) }

// sentence says in words whether a run differs from another.
func (c *Comparison) sentence(v *Verdict) string {
	run, base := &c.Runs[v.Run], &c.Runs[v.Base]
	text := fmt.Sprintf("%s against %s: ", run.Name, base.Name)
	if n := c.runs[v.Run].lanes(); run.Series != "" && n > 0 {
		text = fmt.Sprintf("%s against %s at %s: ", run.Series, base.Series, lanesText(n))
	}
	if v.Method == NoInterval {
		return text + "not decided: " + cmp.Or(v.Why, "one has no requests")
	}
	how := "not paired: " + cmp.Or(v.Why, "one has no requests")
	if v.Method == Paired {
		how = "paired: " + measure.Plural(v.Trees, "tree", "trees") + " that both played"
	}
	said := saidOf(findingsOf(run.Figures))
	return text + strings.Join(append(said, c.rateTexts(v.Run)...), "; ") + " (" + how + ")"
}

// finding is what was decided of a metric, or where its statistics differ in that, of one of them.
type finding struct {
	name string // ITL, TTFT p95
	unit slo.Unit
	*Difference
}

// way says in which direction the figure differs.
func (f *finding) way() string {
	words := [2]string{"slower", "faster"}
	if f.unit == slo.Tokens {
		words = [2]string{"more", "fewer"}
	}
	if f.Ratio < 0 {
		return words[1]
	}
	return words[0]
}

// findingsOf returns what was decided of the judged figures. Of a metric of which the same was decided for each statistic it returns the first,
// under the name of the metric, with the most trees that any of them needs.
func findingsOf(figures map[string]*Figure) (list []finding) {
	for _, m := range eachRequest {
		var own []finding
		for _, f := range m.Figures(m.Decides) {
			if d := figures[f.String()].Difference; d != nil && d.Decision != "" {
				own = append(own, finding{words(f), f.Unit, d})
			}
		}
		same := func(f finding) bool {
			return f.Decision == own[0].Decision && (f.Decision != Differs || f.way() == own[0].way())
		}
		if len(own) > 0 && len(own) == len(m.Figures(m.Decides)) && !slices.ContainsFunc(own, func(f finding) bool { return !same(f) }) {
			first := *own[0].Difference
			for _, f := range own {
				first.MoreTrees = max(first.MoreTrees, f.MoreTrees)
			}
			own = []finding{{words(slo.Figure{Metric: m.Metric}), m.Unit, &first}}
		}
		list = append(list, own...)
	}
	return list
}

// saidOf writes findings: what differs, by its direction, then what is open, with the trees that would decide all of it, then what differs by
// too little.
func saidOf(list []finding) (said []string) {
	for _, way := range []string{"slower", "faster", "more", "fewer"} {
		var parts []string
		for _, f := range list {
			if f.Decision == Differs && f.way() == way {
				parts = append(parts, f.by()+" in "+f.name)
			}
		}
		if parts != nil {
			said = append(said, way+" "+and(parts))
		}
	}
	var open, small []string
	more := 0
	for _, f := range list {
		switch f.Decision {
		case Open:
			open, more = append(open, f.name), max(more, f.MoreTrees)
		case Small:
			small = append(small, f.name)
		}
	}
	if open != nil {
		said = append(said, fmt.Sprintf("%s not decided: about %s would", and(open), moreText(more)))
	}
	if small != nil {
		said = append(said, fmt.Sprintf("less than %g %% in %s", 100*leastDifference, and(small)))
	}
	return said
}

// moreText writes a number of further trees, a large one with a letter.
func moreText(n int) string {
	return strings.Replace(measure.Plural(n, "more tree", "more trees"), strconv.Itoa(n), measure.FormatQuantity(measure.Number(n)), 1)
}

// by writes how large a difference is, with its deciding interval: by 10.1 % (9.04 to 11.2 %).
func (f *finding) by() string {
	size, low, high := float64(f.Ratio), f.Deciding.Low, f.Deciding.High
	if high >= 2 {
		return fmt.Sprintf("%s (%s to %s)", FormatChange(size), FormatChange(low), FormatChange(high))
	}
	if size < 0 {
		size, low, high = -size, -high, -low
	}
	return fmt.Sprintf("by %.3g %% (%.3g to %.3g %%)", 100*size, 100*low, 100*high)
}

// rateTexts tells the difference of output_token_rate if it is large enough. A run has one such number, hence no interval.
func (c *Comparison) rateTexts(run int) []string {
	d := c.Runs[run].Figures["output_token_rate"].Difference
	if d == nil || math.Abs(float64(d.Ratio)) < leastDifference {
		return nil
	}
	return []string{fmt.Sprintf("output tokens/s %s, which has no interval", FormatChange(float64(d.Ratio)))}
}

// words names a figure in a sentence: TTFT p95, prompt tokens.
func words(f slo.Figure) string {
	name := strings.NewReplacer("ttft", "TTFT", "itl", "ITL", "_", " ").Replace(f.Name)
	return strings.TrimSuffix(name+" "+f.Statistic, " ")
}

// and joins texts as a sentence does.
func and(list []string) string {
	if n := len(list) - 1; n > 0 {
		return strings.Join(list[:n], ", ") + " and " + list[n]
	}
	return strings.Join(list, "")
}
