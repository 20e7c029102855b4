package compare

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/agentx/agentx/cmd/internal/report/page"
	"github.com/agentx/agentx/replay/slo"
)

// answers are the answers of the series, under their names if there are several.
func (c *Comparison) answers() (list []string) {
	for _, s := range c.Series {
		switch {
		case s.Answer == "":
		case len(c.Series) == 1:
			list = append(list, s.Answer)
		default:
			list = append(list, s.Name+": "+s.Answer)
		}
	}
	return list
}

// lead are the lines above all tables: those of the caller, and the answers.
func (c *Comparison) lead() []string { return slices.Concat(c.Lead, c.answers()) }

// owners returns for each run the name under which its settings are told: that of its series, else its own.
func (c *Comparison) owners() (list []string) {
	for k := range c.Runs {
		list = append(list, cmp.Or(c.Runs[k].Series, c.Runs[k].Name))
	}
	return list
}

// column is one of the table of series.
type column struct {
	title string
	of    func(r *Run) string
}

// seriesFigures are the figures that the table of series has, with the titles of their columns.
var seriesFigures = [][2]string{
	{"output_token_rate", "output/s"}, {"ttft.p50", "ttft p50"}, {"ttft.p95", "ttft p95"}, {"itl.p50", "itl p50"}, {"itl.p95", "itl p95"}, {"token_hit_rate", "hit rate"}, {"error-rate", "failed"},
}

// columns returns the columns of the table of runs: their names, then what the figures are over, a column for each service level, and figures.
func (c *Comparison) columns() (names, list []column) {
	lanes := map[string]string{}
	for k := range c.Runs {
		lanes[c.Runs[k].Name] = strconv.Itoa(c.runs[k].lanes())
	}
	names = []column{{"lanes", func(r *Run) string { return lanes[r.Name] }}}
	if len(c.Series) > 1 {
		names = append(names, column{"series", func(r *Run) string { return cut(r.Series, cellWidth) }})
	}
	list = []column{{"requests", func(r *Run) string { return fmt.Sprintf("%d of %d", r.N, r.Sent) }}}
	for _, g := range c.gates() {
		list = append(list, column{g.Text, func(r *Run) string { return r.levelCell(g.Text) }})
	}
	for _, f := range seriesFigures {
		at := slices.IndexFunc(figures, func(x slo.Figure) bool { return x.String() == f[0] })
		list = append(list, column{f[1], func(r *Run) string { return r.cell(figures[at]) }})
	}
	return names, list
}

// seriesTable writes a row for each run of series, by concurrency. It is cut into several if it is wider than columns; 0: no limit.
func (c *Comparison) seriesTable(b *strings.Builder, columns int) {
	names, list := c.columns()
	for len(list) > 0 {
		n := 1
		for n < len(list) && (columns == 0 || c.rowWidth(slices.Concat(names, list[:n+1])) <= columns) {
			n++
		}
		c.rows(b, slices.Concat(names, list[:n]))
		if list = list[n:]; len(list) > 0 {
			fmt.Fprintln(b)
		}
	}
	c.notes(b, c.Runs)
}

// plain is what a reader of the page without JavaScript sees.
func (c *Comparison) plain() page.Plain {
	p := page.Plain{Lines: append([]string{c.Title}, c.lead()...)}
	if !c.Comparable {
		p.Lines = append(p.Lines, "These runs may not be compared: they differ in "+c.MismatchNames()+".")
	}
	for _, v := range c.Verdicts {
		p.Lines = append(p.Lines, v.Text)
	}
	names, list := c.columns()
	list = slices.Concat([]column{{"run", func(r *Run) string { return r.Name }}}, names, list)
	var rows [][]string
	for k := -1; k < len(c.Runs); k++ {
		var row []string
		for _, col := range list {
			if k < 0 {
				row = append(row, col.title)
			} else {
				row = append(row, col.of(&c.Runs[k]))
			}
		}
		rows = append(rows, row)
	}
	p.Tables = append(p.Tables, rows)
	return p
}

// levelCell says whether the run meets a service level, and with which value.
func (r *Run) levelCell(level string) string {
	for _, l := range r.Levels {
		if l.Level == level {
			return map[bool]string{true: "met ", false: "NO "}[l.Met] + l.text
		}
	}
	return "-"
}

// columnWidth returns how wide a column is, with the blanks behind it.
func (c *Comparison) columnWidth(col column) int {
	width := len(col.title)
	for k := range c.Runs {
		width = max(width, utf8.RuneCountInString(col.of(&c.Runs[k])))
	}
	return width + 2
}

func (c *Comparison) rowWidth(list []column) (width int) {
	for _, col := range list {
		width += c.columnWidth(col)
	}
	return width
}

// rows writes the runs under columns.
func (c *Comparison) rows(b *strings.Builder, list []column) {
	write := func(cell func(col column) string) {
		line := ""
		for _, col := range list {
			line += pad(cell(col), c.columnWidth(col))
		}
		fmt.Fprintln(b, strings.TrimRight(line, " "))
	}
	write(func(col column) string { return col.title })
	for k := range c.Runs {
		write(func(col column) string { return col.of(&c.Runs[k]) })
	}
}
