package aiperf

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/report"
)

// section is one table of the console file, with a line above it.
type section struct {
	title string
	table report.Table
}

// consoleColumns are the statistics that the console file shows.
var consoleColumns = []string{"avg", "min", "p50", "p75", "p90", "p95", "p99", "max", "std"}

// consoleOf returns the text of the console file: what was run, and the tables with the numbers of the CSV. Cells are two or more
// blanks apart.
func consoleOf(head []string, sections []section) []byte {
	var text bytes.Buffer
	for _, line := range head {
		text.WriteString(line + "\n")
	}
	for _, s := range sections {
		if len(s.table) == 0 {
			continue
		}
		text.WriteString("\n" + s.title + "\n\n")
		rows, values := tablesOf(s.table, consoleColumns, "N/A")
		writeColumns(&text, rows)
		text.WriteByte('\n')
		writeColumns(&text, values)
	}
	return text.Bytes()
}

// writeColumns writes rows of cells in columns: the first aligned to the left, the others to the right.
func writeColumns(text *bytes.Buffer, rows [][]string) {
	if len(rows) < 2 {
		return
	}
	widths := make([]int, len(rows[0]))
	for _, cells := range rows {
		for k, c := range cells {
			widths[k] = max(widths[k], utf8.RuneCountInString(c))
		}
	}
	for _, cells := range rows {
		fmt.Fprintf(text, "%-*s", widths[0], cells[0])
		for k, c := range cells[1:] {
			fmt.Fprintf(text, "  %*s", widths[k+1], c)
		}
		text.WriteByte('\n')
	}
}

// writeConsole writes the console file.
func (w *writer) writeConsole() error { return w.put(w.names.console, w.console(w), nil) }

// consoleText returns the text of the console file.
func (w *writer) consoleText() []byte {
	res := w.results
	return consoleOf(w.consoleHead(), []section{
		{"Headline: " + headlineText(res), res.Headline},
		{"Cooldown: requests that ended in the grace", res.Cooldown},
		{"Steady state: what lay between the end of the warmup and the deadline", res.Steady},
		{"Warmup", res.Warmup},
	})
}

func headlineText(res *report.Results) string {
	if res.HeadlineRule == "deadline" {
		return "requests that ended by the deadline"
	}
	return "requests that ended by the deadline or within the grace"
}

// consoleHead says what was run, whether it is valid, and how many requests failed of what.
func (w *writer) consoleHead() []string {
	info, res := &w.run.Info, w.results
	lines := []string{}
	if p := info.Part; p != nil && p.Of > 1 {
		lines = append(lines, fmt.Sprintf("part %d of %d, from 0: every number is of this part alone", p.Number, p.Of))
	}
	if p := info.Parts; p != nil {
		lines = append(append(lines, p.Title()), measure.FirstOfParts(p.Problems())...)
		if clocks := p.ClockText(); clocks != "" {
			lines = append(lines, clocks)
		}
	}
	lines = append(lines,
		fmt.Sprintf("agentx %s, model %s, preset %s, %s", info.Version, info.Model, info.Preset, loadOf(info)),
		"server "+strings.Join(info.URLs, " "),
		"dataset "+info.Dataset.Key,
	)
	if reason := incomplete(info); reason != "" && info.Parts.Whole() { // else it is the first line
		lines = append(lines, reason)
	}
	if s := info.Scenario; s != nil && isPart(w.run) {
		lines = append(lines, fmt.Sprintf("scenario %s, which judges the whole load", s.Name))
	} else if s != nil {
		lines = append(lines, fmt.Sprintf("scenario %s, valid %t", s.Name, len(invalidReasons(w.run)) == 0))
	}
	if reasons := invalidReasons(w.run); len(reasons) > 0 {
		lines = append(lines, "not valid: "+strings.Join(reasons, ", "))
	}
	if w := res.Window; w.Known {
		lines = append(lines, fmt.Sprintf("throughputs%s divide by %.3f s (%s); inter-token latency divides by %s",
			info.Parts.Margin(measure.Number(w.Seconds), true), w.Seconds, w.Kind, res.ITLDivisor.Rule))
	}
	return append(lines, errorLine(res))
}

// loadOf says how many trees were played at a time.
func loadOf(info *measure.RunInfo) string {
	if info.Lanes == 0 {
		return "trees as they arrive"
	}
	return fmt.Sprintf("concurrency %d", info.Lanes)
}

// errorLine tells the error rate of the headline by category.
func errorLine(res *report.Results) string {
	total := res.Counts.Succeeded + res.Counts.Failed
	if total == 0 {
		return "no request ended in the headline"
	}
	categories := map[string]int{}
	for _, g := range res.Errors {
		categories[string(g.Category)] += g.Count
	}
	line := fmt.Sprintf("%d of %d requests failed (%.2f %%)", res.Counts.Failed, total, 100*float64(res.Counts.Failed)/float64(total))
	for k, name := range slices.Sorted(maps.Keys(categories)) {
		line += []string{": ", ", "}[min(k, 1)] + fmt.Sprintf("%s %d", name, categories[name])
	}
	return line
}

// Text returns the tables of the aggregate as the console file shows them.
func (d *Directory) Text() []byte {
	if d.Aggregate == nil {
		return nil
	}
	a := d.Aggregate
	return consoleOf(nil, []section{{"Metrics", a.Headline}, {"Cooldown", a.cooldown}, {"Steady state", a.steady}, {"Warmup", a.Warmup}})
}
