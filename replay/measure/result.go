package measure

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/agentx/agentx/replay/slo"
)

// Result is what a reader wants first of a run: how fast, how much, and whether to believe it (doc/spec/report.md 3.1). The console, pages,
// markdown and comparisons show the same.
type Result struct {
	Figures    []ResultFigure `json:"figures"`
	Conclusion string         `json:"conclusion"` // a sentence
}

// ResultFigure is a figure of a result.
type ResultFigure struct {
	Title string   `json:"title"` // such as TTFT p95
	Name  string   `json:"name"`  // as gates have it, such as ttft.p95; "": it has none
	Value Number   `json:"value"` // in Unit
	Unit  slo.Unit `json:"unit"`  // "": a share
	Low   Number   `json:"low"`   // of its interval
	High  Number   `json:"high"`  // Missing without one, as Low
	Of    int      `json:"of"`    // a count is of so many; 0: it is no count
	Note  string   `json:"note"`  // what to compare it with; ""
	Met   *bool    `json:"met"`   // the service level that it is of; nil: it is of none
	Few   bool     `json:"few"`   // a percentile of few samples
}

// Text formats the figure with its unit; Range its interval, "" without one.
func (f *ResultFigure) Text() string {
	text := FormatFigure(f.Value, f.Unit)
	switch {
	case f.Of > 0:
		return fmt.Sprintf("%.0f of %d", float64(f.Value), f.Of)
	case f.Few:
		text += FewMark
	}
	return text
}

func (f *ResultFigure) Range() string {
	if f.Low.IsMissing() {
		return ""
	}
	return FormatFigure(f.Low, f.Unit) + " to " + FormatFigure(f.High, f.Unit)
}

// Result returns the result of a run. Interval returns the interval of a figure by its name, Missing where it has none; nil: none has.
func (s *Summary) Result(interval func(name string) (low, high Number)) Result {
	h := Result{Conclusion: s.Conclusion()}
	for _, f := range slices.Concat(s.speeds(), s.tokensInCache(), s.outcomes(), s.levelFigures()) {
		f.Low, f.High = Missing, Missing
		if interval != nil && f.Name != "" && f.Of == 0 {
			f.Low, f.High = interval(f.Name)
		}
		h.Figures = append(h.Figures, f)
	}
	return h
}

// speeds are the figures that say how fast a run was, and how much it brought.
func (s *Summary) speeds() (list []ResultFigure) {
	title, output, note := "output tokens", s.OutputTokenRate, ""
	if n := s.Run.GPUs(); n > 0 {
		title, note = title+" per GPU", fmt.Sprintf("%s from %s", FormatFigure(output, slo.Rate), Plural(n, "GPU", "GPUs"))
		output /= Number(n)
	}
	list = append(list, ResultFigure{Title: title, Name: "output_token_rate", Value: output, Unit: slo.Rate, Note: note},
		ResultFigure{Title: "requests", Name: "request_rate", Value: s.RequestRate, Unit: slo.Rate})
	for _, name := range []string{"ttft.p50", "ttft.p95", "itl.p50", "itl.p95"} {
		f, _ := ParseFigure(name)
		list = append(list, ResultFigure{Title: strings.ToUpper(f.Name) + " " + f.Statistic, Name: name, Value: s.Figure(f), Unit: f.Unit, Few: s.Few(f)})
	}
	return list
}

// tokensInCache is the hit rate, beside that of a prefix cache without a limit.
func (s *Summary) tokensInCache() []ResultFigure {
	f := ResultFigure{Title: "prompt cached", Name: "token_hit_rate", Value: s.TokenHitRate, Unit: slo.Share}
	switch ideal := s.Fidelity.PrefixReuse.Sent; {
	case ideal > 0: // not of a run that goes on
		f.Note = "ideal " + FormatShare(ideal)
	case s.TheoreticalHitRate > 0:
		f.Note = "in the recording " + FormatShare(s.TheoreticalHitRate)
	}
	return []ResultFigure{f}
}

// outcomes count what failed, and what no figure is over, of the requests that were sent.
func (s *Summary) outcomes() []ResultFigure {
	return []ResultFigure{
		{Title: "failed", Value: Number(ErrorCounts(s.Errors).Failed()), Of: s.Requests},
		{Title: "left out", Value: Number(s.Unseen.Requests), Of: s.Requests, Note: strings.Join(append(s.unseenCauses(), s.unrecordedText()...), ", ")},
	}
}

// unrecordedText counts the requests that were sent and have no record.
func (s *Summary) unrecordedText() []string {
	if s.unrecorded == 0 {
		return nil
	}
	return []string{fmt.Sprintf("at least %d more have no record", s.unrecorded)}
}

// levelFigures are goodput and the service levels.
func (s *Summary) levelFigures() (list []ResultFigure) {
	if s.Goodput == nil {
		return nil
	}
	if each := s.Goodput.each(); len(each) > 0 {
		list = append(list, ResultFigure{Title: "goodput", Name: "goodput", Value: s.Goodput.Rate, Unit: slo.Rate,
			Note: fmt.Sprintf("%s of the requests meet %s", FormatShare(s.Goodput.Share), strings.Join(each, ", "))})
	}
	for _, c := range s.Goodput.Conditions {
		if c.Met != nil {
			list = append(list, ResultFigure{Title: c.Text, Name: c.Figure().String(), Value: c.Value, Unit: c.Unit, Met: c.Met, Few: s.Few(c.Figure())})
		}
	}
	return list
}

// each returns the conditions on requests.
func (g *Goodput) each() (list []string) {
	for _, c := range g.Conditions {
		if c.OfEach {
			list = append(list, c.Text)
		}
	}
	return list
}

// mostCauses is how many remarks a conclusion has in full; it names the others.
const mostCauses = 2

// isCut reports whether a remark says that the run did not come to its end.
func (r *Remark) isCut() bool { return r.Kind == "killed" || r.Kind == "interrupted" }

// Conclusion is one sentence: that the run was cut, if it was; what became of the service levels, or how fast the run was without any; then
// what casts doubt on it.
func (s *Summary) Conclusion() string {
	var parts, more []string
	if k := slices.IndexFunc(s.Remarks, func(r Remark) bool { return r.isCut() }); k >= 0 {
		parts = append(parts, strings.TrimPrefix(s.Remarks[k].Text, s.Remarks[k].Kind+": "))
	}
	parts = append(parts, s.outcome())
	for _, r := range s.Remarks {
		switch text, _ := strings.CutPrefix(r.Text, r.Kind+": "); {
		case r.Level == Note, r.Kind == "empty", r.isCut():
		case len(parts) > mostCauses:
			more = append(more, r.Kind)
		case r.Kind == "invalid":
			parts = append(parts, "the run is not valid: "+text)
		default:
			parts = append(parts, text)
		}
	}
	if len(more) > 0 {
		parts = append(parts, "see also "+strings.Join(more, ", "))
	}
	text := strings.Join(parts, "; ")
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

// outcome begins the conclusion.
func (s *Summary) outcome() string {
	var met, missed []LevelResult
	if s.Goodput != nil {
		for _, c := range s.Goodput.Conditions {
			if c.Met != nil && *c.Met {
				met = append(met, c)
			} else if c.Met != nil {
				missed = append(missed, c)
			}
		}
	}
	slices.SortStableFunc(met, func(a, b LevelResult) int { return cmp.Compare(a.spare(), b.spare()) })
	slices.SortStableFunc(missed, func(a, b LevelResult) int { return cmp.Compare(a.spare(), b.spare()) })
	switch {
	case s.Measured == 0:
		return "no request of the headline ended well"
	case len(missed) > 0:
		return "missed " + listLevels(missed, "over") + andMet(met)
	case len(met) > 0:
		return "met " + listLevels(met, "to spare")
	case s.Goodput != nil:
		return fmt.Sprintf("%s of the requests meet %s", FormatShare(s.Goodput.Share), strings.Join(s.Goodput.each(), ", "))
	}
	of := ""
	if n := s.Concurrency; n > 0 && s.Arrivals == nil {
		of = " from " + Plural(n, "lane", "lanes")
	}
	return fmt.Sprintf("%s output tokens/s%s, TTFT p95 %s, ITL p95 %s; no service level was set", FormatQuantity(s.OutputTokenRate), of, s.TTFT.marked("p95", slo.Seconds), s.ITL.marked("p95", slo.Seconds))
}

// andMet ends the list of the levels that were missed with those that were met.
func andMet(met []LevelResult) string {
	if len(met) == 0 {
		return ""
	}
	return ", but met " + listLevels(met, "to spare")
}

// spare is which share of the limit is left, below 0 where the level is missed; infinite where the value or the limit has no share.
func (c *LevelResult) spare() float64 {
	spare := (c.Limit - float64(c.Value)) / math.Abs(c.Limit)
	if c.Sign == ">" || c.Sign == ">=" {
		spare = -spare
	}
	if math.IsNaN(spare) || math.IsInf(spare, 0) {
		return math.Inf(1)
	}
	return spare
}

// listLevels names levels, each with its value and with how much it has to spare, or is over.
func listLevels(list []LevelResult, beyond string) string {
	var each []string
	for k := range list {
		c := &list[k]
		text := fmt.Sprintf("%s (%s", c.Text, FormatFigure(c.Value, c.Unit))
		if spare := math.Abs(c.spare()); !math.IsInf(spare, 0) {
			text += fmt.Sprintf(", %s %s", wholeShare(spare), beyond)
		}
		each = append(each, text+")")
	}
	return strings.Join(each, " and ")
}

// wholeShare formats a share as a whole percentage; below one per cent as it is.
func wholeShare(share float64) string {
	if share < 0.01 {
		return "under 1 %"
	}
	return strconv.FormatFloat(100*share, 'f', 0, 64) + " %"
}
