package markdown

import (
	"fmt"
	"slices"
	"strings"

	"github.com/agentx/agentx/cmd/internal/report/compare"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/slo"
)

// figures writes the table of the metrics that every request has, then the others.
func (d *Document) figures(b *strings.Builder) {
	each, one := table{b: b}, table{b: b}
	each.figures(append([]string{"of each request"}, slo.Statistics...)...)
	for _, m := range measure.MetricList {
		if !m.OfEach || d.value(m.Name+".mean").IsMissing() {
			continue
		}
		cells := []string{m.Title}
		for _, s := range slo.Statistics {
			cells = append(cells, d.figure(m.Name+"."+s, m.Unit))
		}
		each.row(cells...)
	}
	each.end()
	if d.Run.Few() {
		fmt.Fprintf(b, "%s.\n\n", escape(measure.FewNote))
	}
	if d.Run.Why != "" {
		fmt.Fprintf(b, "No intervals: %s.\n\n", escape(d.Run.Why))
	} else {
		fmt.Fprintf(b, "Below a figure: its 95 %% interval, by resampling %d trees.\n\n", d.Run.Trees)
	}
	one.figures("of the run", "")
	for _, m := range measure.MetricList {
		if !m.OfEach && !d.value(m.Name).IsMissing() {
			one.row(m.Title, measure.FormatFigure(d.value(m.Name), m.Unit)+d.margin(m.Unit))
		}
	}
	one.end()
}

// margin returns what the clocks of parts leave open of a figure in a unit.
func (d *Document) margin(unit slo.Unit) string {
	if d.Summary == nil || unit != slo.Rate {
		return ""
	}
	return d.Summary.ClockMargin(true)
}

func (d *Document) value(name string) measure.Number { return d.Run.Figures[name].Value }

// figure formats a figure with its interval below.
func (d *Document) figure(name string, unit slo.Unit) string {
	f := d.Run.Figures[name]
	text := marked(f, unit)
	if i := f.Interval; i != nil {
		text += fmt.Sprintf("<br><sub>%s to %s</sub>", measure.FormatFigure(measure.Number(i.Low), unit), measure.FormatFigure(measure.Number(i.High), unit))
	}
	return text
}

// marked formats a figure, with a mark behind a percentile of few samples.
func marked(f *compare.Figure, unit slo.Unit) string {
	if f.Few {
		return measure.FormatFigure(f.Value, unit) + measure.FewMark
	}
	return measure.FormatFigure(f.Value, unit)
}

// levels writes how much of the run met its service levels.
func (d *Document) levels(b *strings.Builder) {
	if d.Summary == nil || d.Summary.Goodput == nil {
		return
	}
	g := d.Summary.Goodput
	fmt.Fprint(b, "### Service levels\n\n")
	if slices.ContainsFunc(g.Conditions, func(c measure.LevelResult) bool { return c.OfEach }) {
		fmt.Fprintf(b, "%s%s good requests, %s of the requests and %s of the trees.\n\n",
			measure.FormatFigure(g.Rate, slo.Rate), d.margin(slo.Rate), measure.FormatFigure(g.Share, slo.Share), measure.FormatFigure(g.TreeShare, slo.Share))
	}
	t := table{b: b}
	t.head("condition", "met by", "")
	for _, c := range g.Conditions {
		met, verdict := fmt.Sprintf("%d of %d requests", c.Requests, d.Summary.Measured), ""
		if c.Met != nil {
			met, verdict = measure.FormatFigure(c.Value, c.Unit)+d.margin(c.Unit), "**not met**"
			if *c.Met {
				verdict = "met"
			}
			if d.Summary.Few(c.Figure()) {
				met += measure.FewMark
			}
		}
		t.row(escape(c.Text), met, verdict)
	}
	t.end()
}

// differences writes how the run differs from the other one.
func (d *Document) differences(b *strings.Builder) {
	if d.Against == nil {
		return
	}
	base, run := &d.Against.Runs[0], &d.Against.Runs[1]
	fmt.Fprintf(b, "### Against %s\n\n", escape(base.Name))
	if !d.Against.Comparable {
		fmt.Fprintf(b, "**Not comparable**: the runs differ in %s.\n\n", escape(d.Against.MismatchNames()))
	}
	t := table{b: b}
	t.figures("", escape(base.Name), escape(run.Name), "difference", "interval of it", "")
	for _, figure := range compare.TableFigures {
		name := figure.String()
		f := run.Figures[name]
		if f.Difference == nil || figure.Statistic == "p99" && slices.Contains(compare.TableFigures, slo.Figure{Metric: figure.Metric, Statistic: "p95"}) {
			continue
		}
		verdict := ""
		if f.Difference.Differs {
			verdict = "**differs**"
		}
		t.row(name, marked(base.Figures[name], figure.Unit), marked(f, figure.Unit), f.Difference.Change(figure.Unit), f.Difference.ShownText(), verdict)
	}
	t.end()
	d.conclusion(b, d.Against.Verdicts[0])
}

// conclusion says what of the differences is more than noise.
func (d *Document) conclusion(b *strings.Builder, v compare.Verdict) {
	switch {
	case v.Method == compare.NoInterval:
		fmt.Fprintf(b, "No intervals: %s.\n\n", escape(v.Why))
		return
	case len(v.Figures) > 0:
		fmt.Fprintf(b, "Beyond chance: %s.", escape(strings.Join(v.Figures, ", ")))
	default:
		fmt.Fprint(b, "Nothing differs beyond chance.")
	}
	how := "The trees of each run were resampled on their own"
	if v.Method == compare.Paired {
		how = fmt.Sprintf("%d trees that both runs played were resampled in pairs", v.Trees)
	}
	if v.Why != "" {
		how += ": " + escape(v.Why)
	}
	fmt.Fprintf(b, " %s. An interval of %s is one that decides: it is %s. A gate judges one figure, by its 95 %% interval.\n\n", how, compare.DecidingLevel, compare.DecidingNote)
}
