package aiperf

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/agentx/agentx/report"
)

// consoleWidth is how wide the console file of the harness is at most, in characters.
const consoleWidth = 140

// consoleTitle is the beginning of the title of every table.
const consoleTitle = "NVIDIA AIPerf | "

// groupTitles are the titles of the tables of metrics, in their order.
var groupTitles = []struct {
	group group
	title string
}{
	{effective, "LLM Metrics: Effective"}, {active, "LLM Metrics: Active"}, {usage, "LLM Metrics: Usage"}, {general, "LLM Metrics"},
}

// harnessColumns are the statistics of a table of metrics.
var harnessColumns = []string{"avg", "min", "max", "p99", "p90", "p50", "std"}

// harnessConsole returns the text of the console file: failures, metrics by group, and notes.
func (w *writer) harnessConsole() []byte {
	var text bytes.Buffer
	if errors := w.results.Errors; len(errors) > 0 {
		text.WriteString("\n\n")
		errorGrid(errors).write(&text)
	}
	text.WriteString("\n\n")
	for _, g := range groupTitles {
		if t := metricGrid(w.shown.Headline, g.group, g.title); len(t.rows) > 1 {
			t.write(&text)
		}
	}
	for _, line := range w.harnessNotes() {
		text.WriteString("\n" + line + "\n")
	}
	return text.Bytes()
}

// harnessNotes returns remarks on the numbers: wrong lengths of answers, and missing counts of cached tokens.
func (w *writer) harnessNotes() (list []string) {
	t := w.shown.Headline
	avg := func(tag string) float64 {
		if b := t.Find(tag); b != nil {
			n, _ := b.Find("avg")
			return n.Float64()
		}
		return 0
	}
	if n, of := avg("osl_mismatch_count"), avg("request_count"); n > 0 {
		list = append(list, fmt.Sprintf("%.0f of %.0f requests (%.1f %%) got other numbers of output tokens than they asked for, by more than 5 %% or 50 tokens; on average %.1f %%",
			n, of, 100*n/of, avg("osl_mismatch_diff_pct")))
	}
	if avg("total_usage_prompt_tokens") > 0 && t.Find("total_usage_prompt_cache_read_tokens") == nil {
		list = append(list, "the servers count tokens, but not those that they held in a prefix cache: vLLM counts them with --enable-prompt-tokens-details, SGLang with --enable-cache-report")
	}
	return list
}

// metricGrid returns the table of a group of metrics.
func metricGrid(t report.Table, of group, title string) *grid {
	shown := []tag{}
	for _, m := range harnessTags {
		if m.group == of && t.Find(m.tag) != nil {
			shown = append(shown, m)
		}
	}
	slices.SortStableFunc(shown, func(x, y tag) int { return cmp.Compare(x.order, y.order) })
	g := &grid{title: consoleTitle + title, rows: [][]string{append([]string{"Metric"}, harnessColumns...)}}
	for _, m := range shown {
		b := t.Find(m.tag)
		space := " "
		if len(b.Name) > 30 {
			space = "\n"
		}
		cells := []string{b.Name + space + "(" + b.Unit + ")"}
		for _, stat := range harnessColumns {
			text := "N/A"
			if n, ok := b.Find(stat); ok {
				text = grouped(n.Float64())
			}
			cells = append(cells, text)
		}
		g.rows = append(g.rows, cells)
	}
	return g
}

// errorGrid returns the table of the failures.
func errorGrid(errors []report.ErrorGroup) *grid {
	g := &grid{title: consoleTitle + "Error Summary", left: 2, rows: [][]string{{"Code", "Type", "Message", "Count"}}}
	errors = inOrder(errors)
	for k := range errors {
		e := harnessError(&errors[k].Error)
		code := "N/A"
		if e.Code != 0 {
			code = strconv.Itoa(e.Code)
		}
		row := []string{code, cmp.Or(e.Type, "N/A"), "", strconv.Itoa(errors[k].Count)}
		room := consoleWidth - 13 // borders and blanks
		for _, of := range [][]string{row, g.rows[0]} {
			used := 0
			for c, text := range of {
				if c != g.left {
					used += utf8.RuneCountInString(text)
				}
			}
			room = min(room, consoleWidth-13-used)
		}
		row[2] = wrap(e.Message, max(room, 20))
		g.rows = append(g.rows, row)
	}
	return g
}

// grouped writes a number with two decimals, and commas between groups of three digits.
func grouped(f float64) string {
	text := strconv.FormatFloat(f, 'f', 2, 64)
	sign := ""
	if text[0] == '-' {
		sign, text = "-", text[1:]
	}
	for k := len(text) - 6; k > 0; k -= 3 {
		text = text[:k] + "," + text[k:]
	}
	return sign + text
}

// wrap breaks a text into lines of at most width characters, between words if possible.
func wrap(text string, width int) string {
	var lines []string
	for _, line := range strings.Split(strings.ReplaceAll(text, "\r", ""), "\n") {
		for utf8.RuneCountInString(line) > width {
			runes := []rune(line)
			at := width
			if k := strings.LastIndexByte(string(runes[:width+1]), ' '); k > 0 {
				at = utf8.RuneCountInString(string(runes[:width+1])[:k])
			}
			lines = append(lines, string(runes[:at]))
			line = strings.TrimLeft(string(runes[at:]), " ")
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// grid is a table with borders. Its cells may have several lines. All columns but one are aligned to the right.
type grid struct {
	title string
	left  int        // column that is aligned to the left; 0: none
	rows  [][]string // the first is the head
}

// measure returns the width of each column, and of the whole table.
func (g *grid) measure() (widths []int, width int) {
	widths, width = make([]int, len(g.rows[0])), 1
	for _, cells := range g.rows {
		for k, cell := range cells {
			for line := range strings.SplitSeq(cell, "\n") {
				widths[k] = max(widths[k], utf8.RuneCountInString(line))
			}
		}
	}
	for _, w := range widths {
		width += w + 3
	}
	return widths, width
}

// write writes the table. If it is too wide, the lines of the first column break.
func (g *grid) write(text *bytes.Buffer) {
	widths, width := g.measure()
	if room := widths[0] - (width - consoleWidth); room < widths[0] {
		for _, cells := range g.rows {
			cells[0] = wrap(cells[0], max(room, 10))
		}
		widths, width = g.measure()
	}
	blank := width - utf8.RuneCountInString(g.title)
	text.WriteString(strings.Repeat(" ", max(0, blank/2)) + g.title + strings.Repeat(" ", max(0, blank-blank/2)) + "\n")
	rule := func(left, line, between, right string) {
		for k, w := range widths {
			text.WriteString([]string{left, between}[min(k, 1)] + strings.Repeat(line, w+2))
		}
		text.WriteString(right + "\n")
	}
	rule("┏", "━", "┳", "┓")
	g.writeRow(text, g.rows[0], widths, "┃")
	rule("┡", "━", "╇", "┩")
	for _, cells := range g.rows[1:] {
		g.writeRow(text, cells, widths, "│")
	}
	rule("└", "─", "┴", "┘")
}

// writeRow writes the lines of a row.
func (g *grid) writeRow(text *bytes.Buffer, cells []string, widths []int, border string) {
	for n := 0; ; n++ {
		more, line := false, border
		for k, cell := range cells {
			part := ""
			if lines := strings.Split(cell, "\n"); n < len(lines) {
				part, more = lines[n], true
			}
			pad := strings.Repeat(" ", widths[k]-utf8.RuneCountInString(part))
			if k == g.left && k > 0 {
				part += pad
			} else {
				part = pad + part
			}
			line += " " + part + " " + border
		}
		if !more {
			return
		}
		text.WriteString(line + "\n")
	}
}
