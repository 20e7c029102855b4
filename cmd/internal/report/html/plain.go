package html

import (
	"fmt"

	"github.com/agentx/agentx/cmd/internal/report/page"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/slo"
)

// plain returns what a page shows without JavaScript: the result, the remarks, and the numbers with their intervals.
func (a *About) plain(h *head, title string) (p page.Plain) {
	s := a.summary()
	if s == nil {
		return p
	}
	p.Lines = append(p.Lines, title, h.Result.Conclusion)
	for _, r := range s.Remarks {
		p.Lines = append(p.Lines, r.Text)
	}
	p.Lines = append(p.Lines, h.Notes...)
	result := [][]string{{"result", "", "95 %", ""}}
	for k := range h.Result.Figures {
		f := &h.Result.Figures[k]
		note := f.Note
		if f.Met != nil {
			note = map[bool]string{true: "met", false: "missed"}[*f.Met]
		}
		result = append(result, []string{f.Title, f.Text(), f.Range(), note})
	}
	p.Tables = [][][]string{result, a.statistics(s)}
	return p
}

// statistics returns the table of the metrics that every request has.
func (a *About) statistics(s *measure.Summary) [][]string {
	rows := [][]string{append([]string{"", "requests"}, slo.Statistics...)}
	for _, m := range measure.MetricList {
		if m.Of == nil {
			continue
		}
		stat := m.Stat(&s.Metrics)
		cells := []string{m.Title, fmt.Sprint(stat.N)}
		for _, name := range slo.Statistics {
			text := measure.FormatFigure(stat.Figure(name), m.Unit)
			if low, high := a.intervals.named(m.Name + "." + name); !low.IsMissing() {
				text += fmt.Sprintf(" (%s to %s)", measure.FormatFigure(low, m.Unit), measure.FormatFigure(high, m.Unit))
			}
			cells = append(cells, text)
		}
		rows = append(rows, cells)
	}
	return rows
}
