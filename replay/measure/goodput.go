package measure

import (
	"fmt"
	"strings"

	"github.com/agentx/agentx/replay/slo"
)

// Goodput is how much of a run met its service levels. A request is good that ended well and meets every condition on requests; one
// that lacks a value that a condition is on does not meet it.
type Goodput struct {
	Requests   int           `json:"requests"`   // good ones of the headline
	Unknown    int           `json:"unknown"`    // of the headline, that ended well and lack a value
	Rate       Number        `json:"rate"`       // Requests per second, by the window of the summary; delivered: those that ended in it
	Share      Number        `json:"share"`      // Requests over those of the headline that ended well or failed
	Trees      int           `json:"trees"`      // all of whose requests are good, those of the cooldown included
	TreeShare  Number        `json:"tree_share"` // Trees over those with a request, but for trees with one that the end of the run cancelled
	Conditions []LevelResult `json:"conditions"` // in the order in which they were given
}

// LevelResult is what became of one condition.
type LevelResult struct {
	Text string `json:"condition"` // ttft<2s
	slo.Condition
	Requests int    `json:"requests"` // of the headline that meet it; 0 of a condition on the run
	Value    Number `json:"value"`    // of the run; null of a condition on requests
	Met      *bool  `json:"met"`      // nil: a condition on requests
}

// Judge says which requests are good.
type Judge struct {
	rules  Rules
	levels []slo.Condition
	of     []*Metric // of the levels
}

// NewJudge returns the judge of a run with service levels, of which those on requests count. Their metrics are those of MetricList.
func NewJudge(rules Rules, levels []slo.Condition) *Judge {
	j := &Judge{rules: rules, levels: levels}
	for _, c := range levels {
		j.of = append(j.of, MetricNamed(c.Metric))
	}
	return j
}

// Good reports whether a request ended well and meets every condition on requests.
func (j *Judge) Good(r *Record) bool {
	if r.Error != nil {
		return false
	}
	good := true
	j.each(r, func(_ int, met, _ bool) { good = good && met })
	return good
}

// each calls visit for every condition on requests: whether the request meets it, and has its value.
func (j *Judge) each(r *Record, visit func(k int, met, known bool)) {
	for k, c := range j.levels {
		if c.OfEach {
			v, known := j.of[k].Of(&r.Numbers, j.rules)
			visit(k, known && c.Holds(v), known)
		}
	}
}

// goodput counts what meets service levels.
type goodput struct {
	*Judge

	requests, judged, unknown int // of the headline: good; that ended well or failed; without a value
	met                       []int
	trees, bad, cut           ordinalSet
}

// add judges a request of the profiling phase, and returns whether it is good.
func (g *goodput) add(r *Record) bool {
	if len(g.levels) == 0 {
		return false
	}
	g.trees.add(r.Tree)
	if r.Bucket == CancelledAtEnd {
		g.cut.add(r.Tree)
		return false
	}
	headline := r.Bucket == Profiling
	if headline {
		g.judged++
	}
	if r.Error != nil {
		g.bad.add(r.Tree)
		return false
	}
	all, known := true, true
	g.each(r, func(k int, met, has bool) {
		all, known = all && met, known && has
		if met && headline {
			g.met[k]++
		}
	})
	switch {
	case !all:
		g.bad.add(r.Tree)
	case headline:
		g.requests++
	}
	if headline && !known {
		g.unknown++
	}
	return all
}

// summary returns what was counted; nil without levels. It needs the figures of the summary, and how many good requests ended by the deadline.
func (g *goodput) summary(s *Summary, delivered int) *Goodput {
	if len(g.levels) == 0 {
		return nil
	}
	good := &Goodput{
		Requests: g.requests, Unknown: g.unknown, Rate: Missing, Share: ratio(Number(g.requests), Number(g.judged)),
		Trees: g.trees.without(&g.bad, &g.cut), Conditions: []LevelResult{},
	}
	good.TreeShare = ratio(Number(good.Trees), Number(g.trees.n-g.cut.n))
	rated := g.requests
	if g.rules.DeliveredOnly {
		rated = delivered
	}
	good.Rate = s.ThroughputWindow.Rate(Number(rated))
	s.Goodput = good // which a condition may be on
	for k, l := range s.levelsOf(g.levels) {
		l.Requests = g.met[k]
		if met := l.Holds(float64(l.Value)); !l.OfEach {
			l.Met = &met
		}
		good.Conditions = append(good.Conditions, l)
	}
	return good
}

// levelsOf returns service levels with the values of those on the run.
func (s *Summary) levelsOf(levels []slo.Condition) (list []LevelResult) {
	for _, c := range levels {
		l := LevelResult{Text: c.String(), Condition: c, Value: Missing}
		if !c.OfEach {
			l.Value = s.Figure(slo.Figure{Metric: MetricNamed(c.Metric).Metric, Statistic: c.Statistic})
		}
		list = append(list, l)
	}
	return list
}

// JudgeSoFar sets the Goodput of a run that is played, of whose requests so many were good within so many seconds; nothing without levels. A level
// without a value yet is neither met nor missed.
func (s *Summary) JudgeSoFar(levels []slo.Condition, good int, seconds float64) {
	if len(levels) == 0 {
		return
	}
	s.Goodput = &Goodput{
		Requests: good, Rate: ratio(Number(good), Number(seconds)), Share: ratio(Number(good), Number(s.Buckets.Profiling)), TreeShare: Missing, Conditions: []LevelResult{},
	}
	for _, l := range s.levelsOf(levels) {
		if !l.OfEach && !l.Value.IsMissing() {
			l.Met = new(l.Holds(float64(l.Value)))
		}
		s.Goodput.Conditions = append(s.Goodput.Conditions, l)
	}
}

// rate returns the good requests per second; Missing without service levels.
func (g *Goodput) rate() Number {
	if g == nil {
		return Missing
	}
	return g.Rate
}

// levels writes how much of the run met its service levels: the requests, then each condition on the run.
func (s *Summary) levels(b *strings.Builder) {
	g := s.Goodput
	if g == nil {
		return
	}
	if each := g.each(); len(each) > 0 {
		lacking := ""
		if g.Unknown > 0 {
			lacking = fmt.Sprintf(", %d without a value", g.Unknown)
		}
		row(b, "goodput", "%s requests/s%s: %s of the requests, %s of the trees meet %s%s",
			FormatQuantity(g.Rate), s.ClockMargin(true), FormatShare(g.Share), FormatShare(g.TreeShare), strings.Join(each, ", "), lacking)
	}
	label := "levels"
	for _, c := range g.Conditions {
		if c.OfEach {
			continue
		}
		met := "not met"
		if *c.Met {
			met = "met"
		}
		sure := ""
		switch {
		case c.Unit == slo.Rate:
			sure = s.ClockMargin(true)
		case s.Few(c.Figure()):
			sure = FewMark
		}
		row(b, label, "%s: %s%s, %s", c.Text, FormatFigure(c.Value, c.Unit), sure, met)
		label = ""
	}
}
