package compare

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/agentx/agentx/cmd/internal/report/frontier"
	"github.com/agentx/agentx/replay/measure"
)

// maxSeries bounds the series of one comparison: so many lines can be told apart in a chart.
const maxSeries = 10

// Series is the runs of one directory, which differ in concurrency.
type Series struct {
	Name   string `json:"name"`
	Runs   []int  `json:"runs"`   // their places in the comparison, by concurrency
	Answer string `json:"answer"` // which concurrency meets the service levels, in a sentence
}

// Level is a service level on a run, and whether the run meets it.
type Level struct {
	Level string         `json:"level"` // ttft.p95<2s
	Value measure.Number `json:"value"` // null: not known
	Met   bool           `json:"met"`
	Few   bool           `json:"few,omitempty"` // of few samples
	name  string         // ttft.p95
	text  string         // the value for people
}

// mostFailed is the share of failed requests above which a run meets no level, as a probe of a search does.
const mostFailed = 0.01

// unfit are the kinds of remarks that cast doubt on a run: that its figures meet a level does not say that its servers do.
var unfit = []string{"gone", "silent_end", "invalid", "client_bound"}

// levels returns the service levels on the run, and which of them it meets.
func (r *run) levels() []Level {
	list := []Level{}
	if r.summary.Goodput == nil {
		return list
	}
	for _, c := range r.summary.Goodput.Conditions {
		if c.Met == nil {
			continue
		}
		l := Level{Level: c.Condition.String(), Value: c.Value, Met: *c.Met, name: c.Name(), text: "not known"}
		if !c.Value.IsMissing() {
			l.text = measure.FormatFigure(c.Value, c.Unit)
			if r.summary.Few(c.Figure()) {
				l.Few = true
				l.text += measure.FewMark
			}
		}
		list = append(list, l)
	}
	return list
}

// misses says why a concurrency does not meet the levels.
type misses struct {
	why  []string // nothing: it does
	firm bool     // a level is missed; else it is not known: the figures of a run are not those of its servers, or not of its load
}

// add adds the reasons why a run does not meet the levels.
func (m *misses) add(r *run) {
	before := len(m.why)
	for _, l := range r.levels() {
		if !l.Met {
			m.why = append(m.why, l.name+" "+l.text)
		}
	}
	if rate := r.summary.ErrorRate; rate > mostFailed {
		m.why = append(m.why, fmt.Sprintf("%s of the requests failed", measure.FormatShare(rate)))
	}
	m.firm = m.firm || len(m.why) > before
	for _, remark := range r.summary.Remarks {
		if slices.Contains(unfit, remark.Kind) {
			m.why = append(m.why, remark.Kind)
		}
	}
}

// text says of so many lanes that they do not meet the levels, or that this is not known, and why.
func (m *misses) text(lanes int) string {
	text := fmt.Sprintf("%d do not", lanes)
	switch {
	case !m.firm:
		text = fmt.Sprintf("of %d it is not known", lanes)
	case lanes == 1:
		text = "1 does not"
	}
	return text + " (" + strings.Join(slices.Compact(m.why), ", ") + ")"
}

// lanes returns the number of lanes of the run; 0: there is no such number, or it is not known.
func (r *run) lanes() int {
	n, _ := strconv.Atoi(r.settings["concurrency"])
	return n
}

// lanesText writes a number of lanes: 1 lane, 16 lanes.
func lanesText(n int) string { return measure.Plural(n, "lane", "lanes") }

// useLabels names series and runs by their labels: a series by that of all its runs, a run that belongs to none by its own, unless others have it.
func useLabels(runs []*run) {
	labels, owners := map[string]string{}, map[string]int{} // by series, or of a run alone by its name; how many would have a name
	key := func(r *run) string { return cmp.Or(r.Series, r.name) }
	for _, r := range runs {
		if label, ok := labels[key(r)]; ok && label != r.label {
			r.label = ""
		}
		labels[key(r)] = r.label
	}
	for name, label := range labels {
		owners[cmp.Or(label, name)]++
	}
	for _, r := range runs {
		label := labels[key(r)]
		switch {
		case label == "" || owners[label] > 1:
		case r.Series != "":
			r.Series = label
		default:
			r.name = label
		}
	}
}

// bySeries sorts runs that belong to series by their concurrency, and returns the series in their order.
func (c *Comparison) bySeries() []Series {
	list := []Series{}
	for _, r := range c.runs {
		if r.Series != "" && !slices.ContainsFunc(list, func(s Series) bool { return s.Name == r.Series }) {
			list = append(list, Series{Name: r.Series})
		}
	}
	if len(list) == 0 {
		return list
	}
	at := func(r *run) int { return slices.IndexFunc(list, func(s Series) bool { return s.Name == r.Series }) }
	slices.SortStableFunc(c.runs, func(a, b *run) int { return cmp.Or(a.lanes()-b.lanes(), at(a)-at(b)) })
	for k, r := range c.runs {
		s := &list[at(r)]
		s.Runs = append(s.Runs, k)
	}
	return list
}

// bases returns the place of the run that each run is compared with; -1: with none. Of series each run is compared with that of the first series
// at the same concurrency, else every run with the first.
func (c *Comparison) bases() []int {
	bases := make([]int, len(c.runs))
	bases[0] = -1
	for _, s := range c.Series {
		taken := map[int]int{} // of the first series, by lanes: runs that repeat one are compared one by one
		for _, k := range s.Runs {
			n := c.runs[k].lanes()
			bases[k] = -1
			if s.Name != c.Series[0].Name {
				bases[k] = c.firstAt(n, taken[n])
			}
			taken[n]++
		}
	}
	return bases
}

// firstAt returns the place of one of the runs of the first series that have so many lanes; -1: there is none.
func (c *Comparison) firstAt(lanes, number int) int {
	for _, k := range c.Series[0].Runs {
		if c.runs[k].lanes() == lanes {
			if number == 0 {
				return k
			}
			number--
		}
	}
	return -1
}

// answer says which concurrency of a series meets its service levels: the most lanes all of whose runs do, and the fewest above whose runs do not.
// Runs without a number of lanes do not count; a series of such runs alone has no answer.
func (c *Comparison) answer(s *Series) string {
	runs := slices.DeleteFunc(slices.Clone(s.Runs), func(k int) bool { return c.runs[k].lanes() == 0 })
	if len(runs) == 0 {
		return ""
	}
	levels := c.runs[runs[0]].levels()
	if len(levels) == 0 {
		return c.mostOutput(s, runs)
	}
	var names []string
	for _, l := range levels {
		names = append(names, l.Level)
	}
	of := map[int]*misses{} // by lanes
	for _, k := range runs {
		n := c.runs[k].lanes()
		if of[n] == nil {
			of[n] = &misses{}
		}
		of[n].add(c.runs[k])
	}
	return answerText(and(names), of) + c.doubts(s, best(of))
}

// best returns the most lanes that meet the levels; 0: none do.
func best(of map[int]*misses) (lanes int) {
	for n, m := range of {
		if len(m.why) == 0 {
			lanes = max(lanes, n)
		}
	}
	return lanes
}

// answerText says which numbers of lanes meet the levels.
func answerText(levels string, of map[int]*misses) string {
	most := best(of)
	var above, below []string
	for _, n := range slices.Sorted(maps.Keys(of)) {
		switch {
		case len(of[n].why) == 0:
		case n > most:
			above = append(above, of[n].text(n))
		default:
			below = append(below, of[n].text(n))
		}
	}
	if most == 0 {
		return fmt.Sprintf("no number of lanes that was tried meets %s: %s", levels, above[0])
	}
	text := fmt.Sprintf("%s %s %s", lanesText(most), map[bool]string{true: "meets", false: "meet"}[most == 1], levels)
	if len(above) == 0 {
		text, above = "at least "+text, []string{"more were not tried"}
	}
	return strings.Join(slices.Concat([]string{text}, above[:1], below), "; ")
}

// doubts names the remarks on the runs of a series with a number of lanes.
func (c *Comparison) doubts(s *Series, lanes int) string {
	var kinds []string
	for _, k := range s.Runs {
		for _, remark := range c.runs[k].summary.Remarks {
			if c.runs[k].lanes() == lanes && remark.Level != measure.Note && !slices.Contains(kinds, remark.Kind) {
				kinds = append(kinds, remark.Kind)
			}
		}
	}
	if lanes == 0 || kinds == nil {
		return ""
	}
	return fmt.Sprintf("; remarks on %s: %s", lanesText(lanes), strings.Join(kinds, ", "))
}

// mostOutput says which concurrency gave the most output tokens in some runs of a series.
func (c *Comparison) mostOutput(s *Series, runs []int) string {
	best := slices.MaxFunc(runs, func(a, b int) int { return cmp.Compare(c.runs[a].delivered(), c.runs[b].delivered()) })
	r := c.runs[best]
	if r.delivered().IsMissing() {
		return "no run has output tokens"
	}
	return fmt.Sprintf("%s %s the most output: %s tokens/s; --slo 'ttft.p95<2s' tells how many lanes meet a service level", lanesText(r.lanes()),
		map[bool]string{true: "gives", false: "give"}[r.lanes() == 1], measure.FormatQuantity(r.delivered())) + c.doubts(s, r.lanes())
}

// sweepOf returns the axis of charts against concurrency: its lines are the series, or groups of runs that differ in it alone. Without a line of
// two different numbers there is none.
func (c *Comparison) sweepOf() []frontier.Axis {
	a := frontier.Axis{Title: "concurrency"}
	for _, r := range c.runs {
		a.Values = append(a.Values, r.lanes())
	}
	for _, s := range c.Series {
		a.Lines = append(a.Lines, frontier.Line{Name: s.Name, Runs: s.Runs})
	}
	if len(c.Series) == 0 {
		for _, l := range c.Frontier.Lines {
			var names []string
			for _, k := range l {
				names = append(names, c.Runs[k].Name)
			}
			a.Lines = append(a.Lines, frontier.Line{Name: joined(names), Runs: l})
		}
	}
	wide := func(l frontier.Line) bool { return a.Values[l.Runs[0]] != a.Values[l.Runs[len(l.Runs)-1]] }
	if !slices.ContainsFunc(a.Lines, wide) {
		return []frontier.Axis{}
	}
	return []frontier.Axis{a}
}
