package compare

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/slo"
)

// WriteTable writes the comparison for a terminal: settings that make the runs incomparable, answers, a table with a column for each run, or of
// series with a row for each, verdicts, and further settings that differ. The table is cut into several if it is wider than columns; 0: no limit.
func (c *Comparison) WriteTable(w io.Writer, columns int) error {
	var b strings.Builder
	c.banner(&b)
	for _, line := range c.lead() {
		fmt.Fprintln(&b, line)
	}
	if len(c.Series) > 0 {
		c.seriesTable(&b, columns)
	}
	for from := 0; len(c.Series) == 0; {
		to := c.columnsThatFit(from, columns)
		c.table(&b, from, to)
		if from = to; from == len(c.Runs) {
			break
		}
	}
	c.verdictLines(&b)
	c.allRepeatLines(&b)
	c.settingLines(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteAnswers writes what series answer, and the means of runs that repeat one; nothing if there are none.
func (c *Comparison) WriteAnswers(w io.Writer) error {
	var b strings.Builder
	for _, line := range c.answers() {
		fmt.Fprintf(&b, "\n%s\n", line)
	}
	c.allRepeatLines(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

// allRepeatLines writes the means of all groups of runs.
func (c *Comparison) allRepeatLines(b *strings.Builder) {
	for _, r := range c.Repeats {
		c.repeatLines(b, r)
	}
}

// banner writes the settings that must be equal and are not.
func (c *Comparison) banner(b *strings.Builder) {
	if c.Comparable {
		return
	}
	fmt.Fprintln(b, "NOT COMPARABLE: these runs differ in what must be equal")
	for k := range c.Mismatches {
		fmt.Fprintf(b, "  %s\n", c.Mismatches[k].text(c.owners()))
	}
	fmt.Fprintln(b)
}

// names returns the names of the runs.
func (c *Comparison) names() (list []string) {
	for k := range c.Runs {
		list = append(list, c.Runs[k].Name)
	}
	return list
}

// The widths of the table.
const (
	nameWidth = 20
	cellWidth = 25 // 82.4 %  +12.3 % relative
)

// columnsThatFit returns the end of the runs that fit beside each other, from run from on.
func (c *Comparison) columnsThatFit(from, columns int) int {
	if columns == 0 {
		return len(c.Runs)
	}
	return min(len(c.Runs), from+max(1, (columns-nameWidth)/c.width()))
}

// width returns the width of a cell, which is wider if some difference is not over all trees.
func (c *Comparison) width() int {
	extra := 0
	for k := range c.Runs {
		for _, f := range TableFigures {
			if d := c.Runs[k].Figures[f.String()].Difference; d != nil {
				extra = max(extra, utf8.RuneCountInString(d.over(f.Unit)))
			}
		}
	}
	return cellWidth + extra
}

// table writes the runs from one place to another, with their differences from the first of all runs.
func (c *Comparison) table(b *strings.Builder, from, to int) {
	width := c.width()
	row := func(name string, cell func(r *Run) string) {
		line := pad(name, nameWidth)
		for k := from; k < to; k++ {
			line += pad(cell(&c.Runs[k]), width)
		}
		fmt.Fprintln(b, strings.TrimRight(line, " "))
	}
	has := func(of func(r *Run) string) bool {
		return slices.ContainsFunc(c.Runs, func(r Run) bool { return of(&r) != "" })
	}
	row("", func(r *Run) string { return cut(r.Name, cellWidth-2) })
	for _, f := range TableFigures {
		if has(func(r *Run) string { return exact(r.value(f.String())) }) {
			row(f.String(), func(r *Run) string { return r.cell(f) })
		}
	}
	row("trees", func(r *Run) string { return fmt.Sprint(r.Trees) })
	c.notes(b, c.Runs[from:to])
}

// notes writes what is to be known of runs.
func (c *Comparison) notes(b *strings.Builder, runs []Run) {
	for _, r := range runs {
		for _, text := range slices.Concat([]string{r.Note}, r.Marks) {
			if text != "" {
				fmt.Fprintf(b, "  %s: %s\n", r.Name, text)
			}
		}
	}
	fmt.Fprintln(b)
}

// cell returns a figure with its difference to the first run.
func (r *Run) cell(f slo.Figure) string {
	x := r.Figures[f.String()]
	text := measure.FormatFigure(x.Value, f.Unit)
	if x.Few {
		text += measure.FewMark
	}
	if d := x.Difference; d != nil {
		text += "  " + d.relative(f.Unit) + signs[d.Decision] + d.over(f.Unit)
	}
	return text
}

// verdictLines say of each run whether it differs from the one that it is compared with. Of series those without intervals are left out.
func (c *Comparison) verdictLines(b *strings.Builder) {
	decided := false
	for _, v := range c.Verdicts {
		if v.Method != NoInterval || len(c.Series) == 0 {
			fmt.Fprintln(b, v.Text)
		}
		decided = decided || v.Method != NoInterval
	}
	if slices.ContainsFunc(c.Runs, func(r Run) bool { return r.Few() }) {
		fmt.Fprintln(b, measure.FewNote)
	}
	if decided {
		fmt.Fprintf(b, "* differs by %g %% or more, and its %s interval (%s) does not have 0; = differs by less; ~ not decided; a figure without a mark decides nothing\n", 100*leastDifference, DecidingLevel, DecidingNote)
	}
}

// repeatLines write means over the runs of a group with their intervals.
func (c *Comparison) repeatLines(b *strings.Builder, r Repeat) {
	fmt.Fprintf(b, "\n%s: mean of %d runs, 95 %% by Student\n", r.Group, len(r.Runs))
	for _, f := range TableFigures {
		if x, ok := r.Figures[f.String()]; ok {
			fmt.Fprintf(b, "%s%s\n", pad(f.String(), nameWidth), x.text(f))
		}
	}
}

// settingLines write the settings in which the runs differ and may.
func (c *Comparison) settingLines(b *strings.Builder) {
	title := "\nsettings that differ:\n"
	for k := range c.Settings {
		if len(c.Series) > 0 && c.Settings[k].Name == "concurrency" {
			continue // in which series differ by what they are
		}
		fmt.Fprintf(b, "%s  %s\n", title, c.Settings[k].text(c.owners()))
		title = ""
	}
}

// pad adds blanks to a width.
func pad(text string, width int) string {
	return text + strings.Repeat(" ", max(1, width-utf8.RuneCountInString(text)))
}

// cut shortens a text to a width, keeping its end, which tells names apart.
func cut(text string, width int) string {
	runes := []rune(text)
	if len(runes) <= width {
		return text
	}
	return "…" + string(runes[len(runes)-width+1:])
}

// Setting is a setting in which runs differ.
type Setting struct {
	Name   string   `json:"name"`
	Title  string   `json:"title"`
	Values []string `json:"values"` // of each run; "": not known
}

// text names the setting with each of its values and the runs that have it.
func (s *Setting) text(names []string) string {
	var parts []string
	for k, value := range s.Values {
		if at := slices.Index(s.Values, value); at < k {
			continue
		}
		with := []string{}
		for j, other := range s.Values {
			if other == value && !slices.Contains(with, names[j]) {
				with = append(with, names[j])
			}
		}
		parts = append(parts, fmt.Sprintf("%s (%s)", shown(value), strings.Join(with, ", ")))
	}
	return s.Title + ": " + strings.Join(parts, "; ")
}

// shown returns a value for people. It cuts a key of 64 digits.
func shown(value string) string {
	switch {
	case value == "":
		return "not known"
	case len(value) == 64 && strings.Trim(value, "0123456789abcdef") == "":
		return value[:12]
	}
	return value
}

// differ returns a setting with its value in each run, and whether the values differ.
func differ(name, title string, runs []*run) (Setting, bool) {
	s := Setting{Name: name, Title: title}
	for _, r := range runs {
		s.Values = append(s.Values, r.settings[name])
	}
	return s, slices.ContainsFunc(s.Values, func(v string) bool { return v != s.Values[0] })
}

// mismatches returns the settings that must be equal and are not.
func mismatches(runs []*run) []Setting {
	list := []Setting{}
	for _, m := range mustEqual {
		if s, ok := differ(m.name, m.title, runs); ok {
			list = append(list, s)
		}
	}
	for _, name := range deviations(runs) {
		if s, ok := differ(name, name, runs); ok && !slices.Contains(s.Values, "") {
			list = append(list, s) // an option that a run does not know is of another version of agentx
		}
	}
	return list
}

// deviations are the options of the runs that must be equal, sorted.
func deviations(runs []*run) (list []string) {
	for _, r := range runs {
		for name := range r.settings {
			if isDeviation(name) && !slices.Contains(list, name) {
				list = append(list, name)
			}
		}
	}
	slices.Sort(list)
	return list
}

// isDeviation reports whether an option must be equal although mustEqual does not name it.
func isDeviation(name string) bool {
	return !slices.Contains(mayDiffer, name) && !slices.ContainsFunc(mustEqual, func(m struct{ name, title string }) bool { return m.name == name })
}

// otherSettings returns the settings in which runs differ although they can be compared.
func otherSettings(runs []*run) []Setting {
	list := []Setting{}
	for _, name := range mayDiffer {
		if s, ok := differ(name, name, runs); ok && (isIdentity(name) || !slices.Contains(s.Values, "")) {
			list = append(list, s)
		}
	}
	return list
}

// isIdentity reports whether a setting identifies a run. Its difference is told also if one run does not know its value.
func isIdentity(name string) bool {
	return slices.Index(mayDiffer, name) < slices.Index(mayDiffer, "duration")
}

// differOnlyIn reports whether two runs have the same settings but one.
func differOnlyIn(name string, a, b *run) bool {
	for _, pair := range [][2]*run{{a, b}, {b, a}} {
		for key, value := range pair[0].settings {
			if key != name && value != pair[1].settings[key] {
				return false
			}
		}
	}
	return true
}

// MismatchNames returns the settings that must be equal and are not, with commas between.
func (c *Comparison) MismatchNames() string {
	var names []string
	for _, m := range c.Mismatches {
		names = append(names, m.Title)
	}
	return joined(names)
}
