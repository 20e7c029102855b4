// Package markdown writes what a run measured for the page of a pipeline: verdict, figures with their intervals, differences to another
// run, gates. GitHub shows it as the summary of a job.
package markdown

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/agentx/agentx/cmd/internal/report/compare"
	"github.com/agentx/agentx/cmd/internal/report/gate"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/slo"
)

// Document is what is written of one run.
type Document struct {
	Run     *compare.Run
	Summary *measure.Summary    // nil: the run is one of AIPerf
	Against *compare.Comparison // of another run, the first, with this one; nil: it is not compared
	Gates   []gate.Verdict
}

// Write writes the document. Texts of the run are shown as they are, whatever they contain.
func (d *Document) Write(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "## agentx: %s\n\n", escape(d.Run.Name))
	d.result(&b)
	d.parts(&b)
	d.verdict(&b)
	d.gates(&b)
	d.settings(&b)
	d.figures(&b)
	d.levels(&b)
	d.differences(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

// result writes the conclusion, and the figures that say how fast the run was.
func (d *Document) result(b *strings.Builder) {
	if d.Summary == nil {
		return
	}
	r := d.Summary.Result(func(name string) (low, high measure.Number) {
		if f := d.Run.Figures[name]; f != nil && f.Interval != nil {
			return measure.Number(f.Interval.Low), measure.Number(f.Interval.High)
		}
		return measure.Missing, measure.Missing
	})
	fmt.Fprintf(b, "**%s**\n\n", escape(r.Conclusion))
	t := table{b: b}
	t.head("result", "", "interval", "")
	for k := range r.Figures {
		f := &r.Figures[k]
		note := escape(f.Note)
		if f.Met != nil {
			note = metText(*f.Met)
		}
		t.row(escape(f.Title), f.Text(), f.Range(), note)
	}
	t.end()
}

// metText says whether a service level is met.
func metText(met bool) string {
	if met {
		return "met"
	}
	return "**not met**"
}

// parts writes which part of a load the run is, or which parts it has.
func (d *Document) parts(b *strings.Builder) {
	if d.Summary == nil {
		return
	}
	if p := d.Summary.Part; p != nil && p.Of > 1 {
		fmt.Fprintf(b, "**part %d of %d, from 0**: every number is of this part alone\n\n", p.Number, p.Of)
	}
	if p := d.Summary.Parts; p != nil {
		text := p.Title()
		if clocks := p.ClockText(); clocks != "" {
			text += "; " + clocks
		}
		fmt.Fprintf(b, "**%s**\n\n", text)
		for _, problem := range measure.FirstOfParts(p.Problems()) {
			fmt.Fprintf(b, "- %s\n", escape(problem))
		}
		fmt.Fprintln(b)
	}
}

// verdict writes whether the run is valid, what bound it, and how its requests ended.
func (d *Document) verdict(b *strings.Builder) {
	for _, mark := range d.Run.Marks {
		fmt.Fprintf(b, "**%s**\n\n", escape(mark))
	}
	for _, lack := range d.Run.Lacks {
		fmt.Fprintf(b, "Note: %s\n\n", escape(lack))
	}
	s := d.Summary
	if s == nil {
		return
	}
	if s.Valid != nil && *s.Valid {
		fmt.Fprintf(b, "**valid**%s\n\n", escape(s.Doubt()))
	}
	fmt.Fprintf(b, "%s: %d completed", measure.Plural(s.Requests, "request", "requests"), s.Completed)
	for _, c := range slices.Sorted(maps.Keys(s.Errors)) {
		fmt.Fprintf(b, ", %d %s (%s)", s.Errors[c], escape(string(c)), measure.FormatFigure(s.ErrorRates[c], slo.Share))
	}
	if unseen := s.UnseenText(); unseen != "" {
		fmt.Fprintf(b, "; %s", unseen)
	}
	fmt.Fprintf(b, ". %s", measure.Plural(s.Trees, "tree", "trees"))
	if !s.PhaseDuration.IsMissing() { // of a run that was killed
		fmt.Fprintf(b, ", a phase of %s", measure.FormatFigure(s.PhaseDuration, slo.Seconds))
	}
	if w := s.ThroughputWindow; !w.Seconds.IsMissing() {
		fmt.Fprintf(b, "; rates are over %s (%s)", measure.FormatFigure(w.Seconds, slo.Seconds), w.Kind)
	}
	fmt.Fprint(b, ".\n\n")
}

// settings writes what was run.
func (d *Document) settings(b *strings.Builder) {
	if d.Summary == nil {
		return
	}
	r := &d.Summary.Run
	t := table{b: b}
	t.head("run", "")
	add := func(name, value string) {
		if value != "" {
			t.row(name, escape(value))
		}
	}
	add("dataset", strings.TrimSpace(r.Dataset.Key+" "+r.Dataset.Profile))
	add("model", r.Model)
	add("server", strings.Join(r.URLs, ", "))
	add("concurrency", fmt.Sprint(d.Summary.Concurrency))
	add("preset", presetText(r))
	if r.Scenario != nil {
		add("scenario", r.Scenario.Name)
	}
	add("agentx", r.Version)
	t.end()
}

// presetText names the preset with what differs from it.
func presetText(r *measure.Run) string {
	text := r.Preset
	for _, name := range slices.Sorted(maps.Keys(r.Switches)) {
		text += fmt.Sprintf(", %s=%s", name, strings.Trim(string(r.Switches[name]), `"`))
	}
	return text
}

// gates writes what each gate says.
func (d *Document) gates(b *strings.Builder) {
	if len(d.Gates) == 0 {
		return
	}
	t := table{b: b}
	t.head("gate", "", "reason")
	for _, g := range d.Gates {
		verdict := escape(g.Outcome())
		if !g.Passed {
			verdict = "**failed**"
		}
		t.row(escape(g.String()), verdict, escape(g.Reason))
	}
	t.end()
}

// table writes the rows of a table.
type table struct{ b *strings.Builder }

// head writes the header of a table of texts.
func (t *table) head(cells ...string) {
	t.row(cells...)
	t.b.WriteString(strings.Repeat("|---", len(cells)) + "|\n")
}

// figures writes the header of a table whose columns but the first are figures.
func (t *table) figures(cells ...string) {
	t.row(cells...)
	t.b.WriteString("|---" + strings.Repeat("|---:", len(cells)-1) + "|\n")
}

// row writes a row.
func (t *table) row(cells ...string) {
	for _, c := range cells {
		fmt.Fprintf(t.b, "| %s ", c)
	}
	t.b.WriteString("|\n")
}

// end writes the empty line after a table.
func (t *table) end() { t.b.WriteString("\n") }

// plain are the characters besides letters and digits that have no meaning in Markdown and HTML.
const plain = " .,:;/-+%=()'?"

// longest bounds the characters of a text of a run.
const longest = 500

// escape returns a text so that Markdown shows it unchanged: nothing of it becomes markup, a cell, or another direction of writing.
func escape(text string) string {
	var b strings.Builder
	n := 0
	for _, r := range text {
		if n++; n > longest {
			b.WriteString("...")
			break
		}
		switch {
		case unicode.IsLetter(r), unicode.IsDigit(r), strings.ContainsRune(plain, r):
			b.WriteRune(r)
		case !unicode.IsPrint(r): // control characters, directions, line and paragraph separators
			b.WriteRune(unicode.ReplacementChar)
		default:
			fmt.Fprintf(&b, "&#%d;", r)
		}
	}
	return b.String()
}

// figures writes a table of the metrics of requests, then one of the metrics of the run.
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

// margin returns the error that the clocks of parts leave in a rate, "" for another unit.
func (d *Document) margin(unit slo.Unit) string {
	if d.Summary == nil || unit != slo.Rate {
		return ""
	}
	return d.Summary.ClockMargin(true)
}

// value returns a figure of the run by its name.
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

// marked formats a figure, with a mark if it is a percentile of few samples.
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
			met, verdict = measure.FormatFigure(c.Value, c.Unit)+d.margin(c.Unit), metText(*c.Met)
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
		verdict := map[compare.Decision]string{compare.Differs: "**differs**", compare.Small: "less than 1 %", compare.Open: "not decided"}[f.Difference.Decision]
		t.row(name, marked(base.Figures[name], figure.Unit), marked(f, figure.Unit), f.Difference.Change(figure.Unit), f.Difference.ShownText(), verdict)
	}
	t.end()
	d.conclusion(b, d.Against.Verdicts[0])
}

// conclusion writes the verdict in a sentence, and what its intervals are.
func (d *Document) conclusion(b *strings.Builder, v compare.Verdict) {
	fmt.Fprintf(b, "%s.", escape(v.Text))
	if v.Method != compare.NoInterval {
		fmt.Fprintf(b, " An interval of %s is one that decides: it is %s. A gate judges one figure, by its 95 %% interval.", compare.DecidingLevel, compare.DecidingNote)
	}
	b.WriteString("\n\n")
}
