package measure

import (
	"fmt"
	"strings"

	"github.com/agentx/agentx/replay/slo"
)

// levels writes how much of the run met its service levels: the requests, then each condition on the run.
func (s *Summary) levels(b *strings.Builder) {
	g := s.Goodput
	if g == nil {
		return
	}
	var each []string
	for _, c := range g.Conditions {
		if c.OfEach {
			each = append(each, c.Text)
		}
	}
	if len(each) > 0 {
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
