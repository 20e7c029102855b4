package compare

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/agentx/agentx/cmd/internal/report/frontier"
	"github.com/agentx/agentx/cmd/internal/report/page"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/slo"
)

// mostPoints bounds the requests of all runs on a page, from which it computes the figures of a selection.
const mostPoints = 100_000

// pageHead is the part of the page that is no table: page.head of the drawing code.
type pageHead struct {
	*Comparison
	Order   []pageFigure    `json:"order"`  // of the table
	Axes    []frontier.Axis `json:"axes"`   // of the charts of a sweep; none: the runs are none
	Gates   []pageGate      `json:"gates"`  // limits in these charts
	Shared  string          `json:"shared"` // what all runs have in common
	Level   [2]string       `json:"level"`  // of the intervals that decide, and where it is from
	Window  float64         `json:"window"`
	Span    float64         `json:"span"`    // of the longest run, seconds
	Before  float64         `json:"before"`  // seconds of the longest warmup, whole windows of them
	Sampled []pageSample    `json:"sampled"` // of each run

	States map[string][]int `json:"states"` // the requests that a column of this name counts
}

// pageFigure is a row of the table.
type pageFigure struct {
	Name      string   `json:"name"`
	Metric    string   `json:"metric"`
	Statistic string   `json:"statistic"`
	Unit      slo.Unit `json:"unit"`
	OfEach    bool     `json:"of_each"`
	Main      bool     `json:"main"`   // it is shown at first
	Better    int      `json:"better"` // 1: more is better; -1: less is; 0: neither

	Ratio [2]string `json:"ratio"` // measure.Metric.Ratio
}

// pageSample says how many of the requests of a run are in the page.
type pageSample struct {
	All    int `json:"all"`
	Points int `json:"points"`
}

// HTML returns the text of the page.
func (c *Comparison) HTML() ([]byte, error) {
	span, before := 0.0, 0.0
	for _, r := range c.runs {
		span, before = max(span, r.requests.span()), max(before, r.before())
	}
	a := newAxis(before, span)
	head := pageHead{Comparison: c.forPage(), Axes: c.sweepOf(), Gates: c.gates(), Shared: c.shared(), Level: [2]string{DecidingLevel, DecidingNote}, Window: a.window, Span: span, Before: a.before, States: states}
	for _, f := range figures {
		head.Order = append(head.Order, pageFigure{f.String(), f.Name, f.Statistic, f.Unit, f.OfEach, isJudged(f) || slices.Contains(TableFigures, f), better(f), measure.MetricNamed(f.Name).Ratio})
	}
	p := &page.Page{Kind: "compare", Title: c.Title, Plain: c.plain()}
	p.Tables = append(p.Tables, c.timeTable(a), c.figureTable())
	for k, r := range c.runs {
		points := r.requests.thinned(mostPoints / len(c.runs))
		head.Sampled = append(head.Sampled, pageSample{r.requests.n(), len(points)})
		p.Tables = append(p.Tables, r.requests.table(fmt.Sprintf("requests.%d", k), points))
	}
	p.Head = head
	var text bytes.Buffer
	err := page.Write(&text, p)
	return text.Bytes(), err
}

// forPage returns the comparison with the answers of series among the lines above all, and without the directories of the runs: equal runs give
// equal pages wherever they lie.
func (c *Comparison) forPage() *Comparison {
	without := *c
	without.Lead = append([]string{}, c.lead()...)
	without.Runs = slices.Clone(c.Runs)
	for k := range without.Runs {
		without.Runs[k].Dir = ""
	}
	return &without
}

// shared names what was measured, as far as all runs share it: "" where nothing is.
func (c *Comparison) shared() string {
	var list []string
	for _, name := range []string{"model", "engine", "gpu", "server", "dataset", "seed", "duration"} {
		value := c.runs[0].settings[name]
		if value == "" || slices.ContainsFunc(c.runs, func(r *run) bool { return r.settings[name] != value }) {
			continue
		}
		if name == "dataset" {
			value = c.runs[0].datasetText()
		}
		list = append(list, name+" "+value)
	}
	if len(list) == 0 {
		return ""
	}
	return "All runs: " + strings.Join(list, " · ")
}

// judgesRequests reports whether some level is on each request: only then a good request is more than one that ended well.
func (c *Comparison) judgesRequests() bool {
	return slices.ContainsFunc(c.runs, func(r *run) bool {
		return r.summary.Goodput != nil && slices.ContainsFunc(r.summary.Goodput.Conditions, func(l measure.LevelResult) bool { return l.OfEach })
	})
}

// better returns 1 for a figure of which more is better, -1 for one of which less is, and 0 for tokens, which say how much work there was.
func better(f slo.Figure) int {
	switch {
	case f.MoreIsBetter:
		return 1
	case f.Unit == slo.Tokens:
		return 0
	}
	return -1
}

// titleOf names the series or the runs, at most four of them.
func (c *Comparison) titleOf() string {
	names := c.names()
	if len(c.Series) > 0 {
		names = nil
		for _, s := range c.Series {
			names = append(names, s.Name)
		}
	}
	if len(c.Series) == 1 {
		return "Sweep: " + names[0]
	}
	if len(names) > 4 {
		names = append(names[:3:3], fmt.Sprintf("%d more", len(names)-3))
	}
	return "Comparison: " + strings.Join(names, ", ")
}

// pageGate is a service level as the charts of a sweep draw it.
type pageGate struct {
	slo.Condition
	Text string `json:"text"`
}

// gates returns the service levels on the runs, each once.
func (c *Comparison) gates() []pageGate {
	list := []pageGate{}
	for _, r := range c.runs {
		if r.summary.Goodput == nil {
			continue
		}
		for _, l := range r.summary.Goodput.Conditions {
			if g := (pageGate{l.Condition, l.Condition.String()}); l.Met != nil && !slices.Contains(list, g) {
				list = append(list, g)
			}
		}
	}
	return list
}

// perGPU names output tokens a second and GPU in charts.
const perGPU = "output_token_rate_per_gpu"

// figureTable has a row a run and a column a figure, for the charts of a sweep.
func (c *Comparison) figureTable() page.Table {
	t := page.Table{Name: "figures"}
	add := func(name string, unit slo.Unit, of func(k int) measure.Number) {
		values := make([]float64, len(c.runs))
		for k := range values {
			if values[k] = float64(of(k)); math.IsInf(values[k], 0) {
				values[k] = none
			}
		}
		t.Columns = append(t.Columns, page.Floats(name, string(unit), values))
	}
	for _, f := range figures {
		if f.Name == "goodput" && !c.judgesRequests() {
			continue
		}
		add(f.String(), f.Unit, func(k int) measure.Number { return c.Runs[k].value(f.String()) })
	}
	if c.Frontier.PerGPU {
		add(perGPU, slo.Rate, func(k int) measure.Number { return c.Frontier.Points[k].Throughput })
	}
	return t
}

// timeTable returns the figures of every run over time, with a row for each window.
func (c *Comparison) timeTable(a axis) page.Table {
	start := make([]int64, a.n)
	for k := range start {
		start[k] = int64(float64(k)*a.window - a.before)
	}
	t := page.Table{Name: "time", Columns: []page.Column{page.Ints("start", "s", start)}}
	for k, r := range c.runs {
		s := newSeries(r, a)
		add := func(name, unit string, values []float64, scale float64) {
			t.Columns = append(t.Columns, page.Floats(fmt.Sprintf("%s.%d", name, k), unit, rounded(values, scale)))
		}
		add("in_flight", "", s.inFlight, 1e3)
		add("output", "tokens/s", s.output, 1e3)
		add("prompt", "tokens/s", s.prompt, 1e3)
		add("failed", "", s.failed, 1)
		for _, m := range seriesMetrics {
			for _, p := range percentileNames {
				add(m.Name+"."+p, "s", s.of[m.Name+"."+p], 1e9)
			}
		}
	}
	return t
}

// rounded rounds values to multiples of 1/scale: a chart shows no more digits, and the page stays small.
func rounded(values []float64, scale float64) []float64 {
	list := make([]float64, len(values))
	for k, v := range values {
		list[k] = math.Round(v*scale) / scale
	}
	return list
}

// thinned returns the places of at most n requests in the order of their starts, evenly chosen.
func (q *requests) thinned(n int) []int {
	order := make([]int, q.n())
	for k := range order {
		order[k] = k
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(q.start[a], q.start[b]) })
	if len(order) <= n {
		return order
	}
	list := make([]int, n)
	for k := range list {
		list[k] = order[k*len(order)/n]
	}
	return list
}

// microseconds is the scale to which the starts of requests are rounded.
const microseconds = 1e6

// table returns the requests with the indices points, from which the page computes the figures of a selection: their starts in seconds
// since the first request, their states, and the metrics that are drawn. name is that of the table.
func (q *requests) table(name string, points []int) page.Table {
	t := page.Table{Name: name}
	origin := q.first()
	add := func(name, unit string, scale float64, of func(k int) float64) {
		values := make([]float64, len(points))
		for n, k := range points {
			values[n] = of(k)
		}
		t.Columns = append(t.Columns, page.Floats(name, unit, rounded(values, scale)))
	}
	add("start", "s", microseconds, func(k int) float64 { return q.start[k] - origin })
	add("state", "", 1, func(k int) float64 { return float64(q.state[k]) })
	for _, m := range drawn {
		add(m.Name, string(m.Unit), m.Unit.Steps(), func(k int) float64 { return q.values[m.Name][k] })
	}
	return t
}

// windows are possible lengths of a window of time, in seconds. A page has the smallest that makes at most mostWindows windows.
var windows = []float64{1, 2, 5, 10, 30, 60, 120, 300}

const mostWindows = 400

// windowOf returns the length of the windows for a span of seconds: one of windows, or for a very long span a multiple of the longest.
func windowOf(span float64) float64 {
	for _, w := range windows {
		if span <= w*mostWindows {
			return w
		}
	}
	last := windows[len(windows)-1]
	return last * math.Ceil(span/(last*mostWindows))
}

// series are figures of one run over time, one for each window of the page. NaN: the window has none.
type series struct {
	inFlight, output, prompt []float64 // requests, mean; tokens per second
	failed                   []float64 // requests that failed, of those that started in the window

	of map[string][]float64 // percentiles of the requests that started in the window: ttft.p50
}

// seriesMetrics and seriesPercentiles are those that charts over time show.
var (
	seriesMetrics     = slices.DeleteFunc(slices.Clone(drawn), func(m measure.Metric) bool { return m.Unit != slo.Seconds })
	seriesPercentiles = []float64{50, 95}
	percentileNames   = []string{"p50", "p95"}
)

// axis is the time axis of charts: n windows. The first begins before seconds ahead of the first request of profiling.
type axis struct {
	before, window float64
	n              int
}

// newAxis returns the axis that covers some seconds before and after the first request of profiling, in whole windows.
func newAxis(before, after float64) axis {
	w := windowOf(before + after)
	early := math.Ceil(before / w)
	return axis{early * w, w, max(1, int(early)+int(math.Ceil(after/w)))}
}

// newSeries computes the figures of a run on an axis. They count the requests in flight and the tokens of the warmup, but not its latencies.
func newSeries(r *run, a axis) *series {
	s := &series{make([]float64, a.n), make([]float64, a.n), make([]float64, a.n), make([]float64, a.n), map[string][]float64{}}
	q, zero := &r.requests, r.requests.first()-a.before // where the axis begins
	s.addFlow(&r.warmup, zero, a.window)
	s.addFlow(q, zero, a.window)
	values := make([]map[string][]float64, a.n)
	for k, start := range q.start {
		at := min(a.n-1, int((start-zero)/a.window))
		for _, m := range seriesMetrics {
			name := m.Name
			if v := q.values[name][k]; !math.IsNaN(v) {
				if values[at] == nil {
					values[at] = map[string][]float64{}
				}
				values[at][name] = append(values[at][name], v)
			}
		}
	}
	from, to := a.before-r.before(), a.before+q.span()
	for _, list := range [][]float64{s.inFlight, s.prompt, s.output} {
		for k := range list {
			begin := float64(k) * a.window // the first and the last one of the run are shorter
			list[k] /= max(1e-9, min(begin+a.window, to)-max(begin, from))
		}
	}
	s.percentiles(values)
	s.keep(from, to, a.window)
	return s
}

// addFlow adds requests in flight, tokens and failures of some requests. The axis begins at the instant zero.
func (s *series) addFlow(q *requests, zero, window float64) {
	for k := range q.start {
		start, end, first := q.start[k]-zero, q.end[k]-zero, q.firstToken[k]-zero
		spread(s.inFlight, start, end, end-start, window)
		if !math.IsNaN(first) {
			spread(s.prompt, start, first, known(q.values["prompt_tokens"][k]), window)
			spread(s.output, first, end, known(q.values["output_tokens"][k]), window)
		}
		if q.state[k] == failed {
			s.failed[min(len(s.failed)-1, int(start/window))]++
		}
	}
}

// known returns a value, 0 for NaN.
func known(v float64) float64 {
	if math.IsNaN(v) {
		return 0
	}
	return v
}

// spread adds an amount to the windows between two instants, evenly over the time.
func spread(to []float64, from, end, amount, window float64) {
	if !(end > from) { // all at once
		to[min(len(to)-1, int(from/window))] += amount
		return
	}
	for k := int(from / window); k < len(to) && float64(k)*window < end; k++ {
		part := min(end, float64(k+1)*window) - max(from, float64(k)*window)
		to[k] += amount * part / (end - from)
	}
}

// percentiles computes the percentiles of each window from its values by metric.
func (s *series) percentiles(values []map[string][]float64) {
	for _, m := range seriesMetrics {
		for p, q := range seriesPercentiles {
			column := make([]float64, len(values))
			for k := range values {
				column[k] = none
				if list := values[k][m.Name]; len(list) > 0 {
					slices.Sort(list)
					column[k] = measure.Percentile(list, q)
				}
			}
			s.of[m.Name+"."+percentileNames[p]] = column
		}
	}
}

// keep makes the windows before the start and after the end of the run empty: another run may be longer.
func (s *series) keep(from, to, window float64) {
	for k := range s.inFlight {
		if begin := float64(k) * window; begin >= to || begin+window <= from {
			for _, list := range [][]float64{s.inFlight, s.prompt, s.output, s.failed} {
				list[k] = none
			}
		}
	}
}

// frontierOf returns the points of all runs, throughput per GPU against speed per user, and the lines between them.
func frontierOf(runs []*run, series []Series) frontier.Frontier {
	f := frontier.Frontier{Points: []frontier.Point{}, Lines: linesOf(runs)}
	f.PerGPU = !slices.ContainsFunc(runs, func(r *run) bool { return r.gpus == 0 })
	if !slices.ContainsFunc(runs, func(r *run) bool { return r.gpus != runs[0].gpus }) {
		f.GPUs = runs[0].gpus
	}
	if len(series) > 0 {
		f.Lines = [][]int{}
	}
	for _, s := range series {
		f.Lines = append(f.Lines, s.Runs)
	}
	for k, r := range runs {
		p := frontier.Point{Run: k, Concurrency: r.lanes(), Throughput: r.delivered(), At: map[string]frontier.Figures{}, Hollow: len(r.marks()) > 0}
		if f.PerGPU {
			p.Throughput /= measure.Number(r.gpus)
		}
		for _, name := range frontier.Statistics {
			p.At[name] = frontier.Figures{Interactivity: 1 / r.summary.ITL.Figure(name), TTFT: r.summary.TTFT.Figure(name)}
		}
		f.Points = append(f.Points, p)
	}
	f.Judge()
	return f
}

// delivered returns the output tokens per second that a run delivered by its deadline, or if that is not known its output_token_rate.
func (r *run) delivered() measure.Number {
	d := &r.summary.Delivered
	if rate := d.Rate(d.OutputTokens); !rate.IsMissing() && d.Kind != "" {
		return rate
	}
	return r.summary.OutputTokenRate
}

// linesOf returns groups of two or more runs that differ in concurrency alone, sorted by it; of runs with the same concurrency only the first.
func linesOf(runs []*run) [][]int {
	lines := [][]int{}
	in := make([]bool, len(runs))
	at := func(k int) int { return runs[k].lanes() }
	for k := range runs {
		if in[k] || at(k) == 0 {
			continue
		}
		line := []int{k}
		for j := k + 1; j < len(runs); j++ {
			if !in[j] && at(j) > 0 && differOnlyIn("concurrency", runs[k], runs[j]) {
				line, in[j] = append(line, j), true
			}
		}
		if len(line) > 1 {
			slices.SortStableFunc(line, func(a, b int) int { return at(a) - at(b) })
			line = slices.CompactFunc(line, func(a, b int) bool { return at(a) == at(b) })
		}
		if len(line) > 1 {
			lines = append(lines, line)
		}
	}
	return lines
}
