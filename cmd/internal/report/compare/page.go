package compare

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/agentx/agentx/cmd/internal/report/page"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/slo"
)

// mostPoints is how many requests a page has of all runs together, for the figures of a selection.
const mostPoints = 100_000

// pageHead is what the page has besides columns.
type pageHead struct {
	*Comparison
	Order   []pageFigure `json:"order"` // of the table
	Texts   []string     `json:"texts"` // of the verdicts
	Level   [2]string    `json:"level"` // of the intervals that decide, and where it is from
	Window  float64      `json:"window"`
	Span    float64      `json:"span"`    // of the longest run, seconds
	Before  float64      `json:"before"`  // seconds of the longest warmup, whole windows of them
	Sampled []pageSample `json:"sampled"` // of each run

	States map[string][]int `json:"states"` // the requests that a column of this name counts
}

// pageFigure is a row of the table.
type pageFigure struct {
	Name      string   `json:"name"`
	Metric    string   `json:"metric"`
	Statistic string   `json:"statistic"`
	Unit      slo.Unit `json:"unit"`
	OfEach    bool     `json:"of_each"`
	Main      bool     `json:"main"` // it is shown at first

	Ratio [2]string `json:"ratio"` // measure.Metric.Ratio
}

// pageSample says how many of the requests of a run are in the page.
type pageSample struct {
	All    int `json:"all"`
	Points int `json:"points"`
}

// html returns the text of the page.
func (c *Comparison) html() ([]byte, error) {
	span, before := 0.0, 0.0
	for _, r := range c.runs {
		span, before = max(span, r.requests.span()), max(before, r.before())
	}
	a := newAxis(before, span)
	head := pageHead{Comparison: c.withoutPlaces(), Texts: []string{}, Level: [2]string{DecidingLevel, DecidingNote}, Window: a.window, Span: span, Before: a.before, States: states}
	for _, f := range figures {
		head.Order = append(head.Order, pageFigure{f.String(), f.Name, f.Statistic, f.Unit, f.OfEach, isJudged(f) || slices.Contains(TableFigures, f), measure.MetricNamed(f.Name).Ratio})
	}
	for _, v := range c.Verdicts {
		head.Texts = append(head.Texts, c.verdictText(v))
	}
	p := &page.Page{Kind: "compare", Title: c.Title}
	p.Tables = append(p.Tables, c.timeTable(a))
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

// withoutPlaces returns the comparison without the directories of the runs: equal runs give equal pages wherever they lie.
func (c *Comparison) withoutPlaces() *Comparison {
	without := *c
	without.Runs = slices.Clone(c.Runs)
	for k := range without.Runs {
		without.Runs[k].Dir = ""
	}
	return &without
}

// titleOf names the runs, at most four of them.
func (c *Comparison) titleOf() string {
	names := c.names()
	if len(names) > 4 {
		names = append(names[:3:3], fmt.Sprintf("%d more", len(names)-3))
	}
	return "Comparison: " + strings.Join(names, ", ")
}

// timeTable has the figures of every run over time: a row a window.
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

// rounded returns values with so many steps in a unit: a chart shows no more, and the page stays small.
func rounded(values []float64, scale float64) []float64 {
	list := make([]float64, len(values))
	for k, v := range values {
		list[k] = math.Round(v*scale) / scale
	}
	return list
}

// thinned returns at most n requests in the order of their starts: all, or every so-many-th.
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

// microseconds is how exact the starts of requests are on a page.
const microseconds = 1e6

// table has the requests of a run for the figures of a selection.
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
