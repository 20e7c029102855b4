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

// parts writes whether the run is a part of a load, or which parts of one it has.
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

// table writes a table. Its first column is text, and so are the others but for figures.
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

func (t *table) row(cells ...string) {
	for _, c := range cells {
		fmt.Fprintf(t.b, "| %s ", c)
	}
	t.b.WriteString("|\n")
}

func (t *table) end() { t.b.WriteString("\n") }

// plain are the characters besides letters and digits that mean nothing in Markdown, nor in HTML.
const plain = " .,:;/-+%=()'?"

// longest bounds a text of a run, in characters.
const longest = 500

// escape returns a text as it is shown, whatever it contains: nothing of it becomes markup, a cell, or another direction of writing.
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
