package aiperf

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/report"
)

// columns are the statistics of metrics in the CSV.
var columns = []string{"avg", "min", "max", "sum", "p1", "p5", "p10", "p25", "p50", "p75", "p90", "p95", "p99", "std"}

// tablesOf returns the rows of the metrics with statistics, and those of scalars, each below their head.
func tablesOf(t report.Table, stats []string, missing string) (metrics, scalars [][]string) {
	metrics, scalars = [][]string{append([]string{"Metric"}, stats...)}, [][]string{{"Metric", "Value"}}
	for k := range t {
		b := &t[k]
		cells := []string{rowName(b)}
		if b.Kind == report.Scalar {
			scalars = append(scalars, append(cells, cmp.Or(cell(b, "avg"), missing)))
			continue
		}
		for _, stat := range stats {
			cells = append(cells, cmp.Or(cell(b, stat), missing))
		}
		metrics = append(metrics, cells)
	}
	return metrics, scalars
}

// csvOf returns a CSV of two tables: metrics with statistics, then scalars. end ends each line. Without metrics the first table is only its head,
// or is left out.
func csvOf(t report.Table, end string, leaveOut bool) ([]byte, error) {
	for k := range t {
		if err := checkName(rowName(&t[k])); err != nil {
			return nil, err
		}
	}
	first, second := tablesOf(t, columns, "")
	if first = append(first, nil); len(first) == 2 && leaveOut {
		first = nil
	}
	var text bytes.Buffer
	for _, cells := range append(first, second...) {
		text.WriteString(strings.Join(cells, ",") + end)
	}
	return text.Bytes(), nil
}

// blockObject returns a block of a table as JSON has it: its unit, then its statistics.
func blockObject(b *report.Block) object {
	o := object{{"unit", b.Unit}}
	for _, s := range b.Stats {
		o.add(s.Name, s.Value)
	}
	return o
}

// addTable adds the blocks of a table, each under its tag.
func (o *object) addTable(t report.Table) {
	for k := range t {
		o.add(t[k].Tag, blockObject(&t[k]))
	}
}

// Blocks returns the blocks of a table as the aggregate has them: a JSON object by tag.
func Blocks(t report.Table) json.Marshaler { return tableObject(t) }

// tableObject returns the blocks of a table by tag.
func tableObject(t report.Table) object {
	o := object{}
	o.addTable(t)
	return o
}

// rowName is the name of a block in CSV and console: with its unit in parentheses, unless that is count or requests.
func rowName(b *report.Block) string {
	if b.Unit == "" || b.Unit == "count" || b.Unit == "requests" {
		return b.Name
	}
	return fmt.Sprintf("%s (%s)", b.Name, b.Unit)
}

// cell is a statistic of a block in CSV and console: an integer, or a number with two decimals; "" if the block does not have it.
func cell(b *report.Block, stat string) string {
	n, ok := b.Find(stat)
	switch {
	case !ok:
		return ""
	case n.IsInt():
		return strconv.FormatInt(n.Int64(), 10)
	}
	return strconv.FormatFloat(n.Float64(), 'f', 2, 64)
}

// checkName returns an error for a name that readers misread, because they split lines at commas.
func checkName(name string) error {
	if strings.ContainsAny(name, ",\"\r\n") {
		return fmt.Errorf("metric %q: want a name without comma, quote or line end", name)
	}
	return nil
}

// section is one table of the console file, with a line above it.
type section struct {
	title string
	table report.Table
}

// consoleColumns are the statistics that the console file shows.
var consoleColumns = []string{"avg", "min", "p50", "p75", "p90", "p95", "p99", "max", "std"}

// consoleOf returns the text of the console file: the lines of head, then the tables. Cells are at least two blanks apart.
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

// headlineText says which requests the headline has.
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

// loadOf describes the load: the number of lanes, or arrivals.
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

// writeSlices writes the two files of the slices of time, if slices were asked for.
func (w *writer) writeSlices() error {
	if w.Slice == 0 || w.slim && len(w.shown.Slices) == 0 {
		return w.remove(w.names.slices, w.names.slicesCSV)
	}
	text, err := indented(object{{"timeslices", sliceObjects(w.shown.Slices)}, {"input_config", w.input(w)}}, w.jsonEnd)
	if err := w.put(w.names.slices, text, err); err != nil {
		return err
	}
	return w.put(w.names.slicesCSV, w.slicesCSV(w.shown.Slices), nil)
}

// sliceObjects returns the slices as JSON has them.
func sliceObjects(slices []report.Slice) []object {
	list := []object{}
	for _, s := range slices {
		o := object{{"start_ns", s.Start}, {"end_ns", s.End}}
		if !s.Complete {
			o.add("is_complete", false)
		}
		o.addTable(s.Table)
		list = append(list, o)
	}
	return list
}

// slicesCSV returns the slices as a table with one row for each value.
func (d *dialect) slicesCSV(list []report.Slice) []byte {
	var text bytes.Buffer
	text.WriteString("Timeslice,Start_NS,End_NS,Metric,Unit,Stat,Value" + d.lineEnd)
	for n, s := range list {
		at := []string{strconv.Itoa(n), strconv.FormatInt(s.Start, 10), strconv.FormatInt(s.End, 10)}
		t := sorted(s.Table)
		for k := range t {
			b := &t[k]
			for _, stat := range d.listed(b) {
				row := append(at[:3:3], b.Name, b.Unit, stat, cell(b, stat))
				text.WriteString(strings.Join(row, ",") + d.lineEnd)
			}
		}
	}
	return text.Bytes()
}
