package aiperf

import (
	"bytes"
	"fmt"
	"unicode/utf8"

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
		rows, values := [][]string{append([]string{"Metric"}, consoleColumns...)}, [][]string{{"Metric", "Value"}}
		for k := range s.table {
			b := &s.table[k]
			if b.Kind == report.Scalar {
				values = append(values, []string{rowName(b), shown(b, "avg")})
				continue
			}
			cells := []string{rowName(b)}
			for _, stat := range consoleColumns {
				cells = append(cells, shown(b, stat))
			}
			rows = append(rows, cells)
		}
		writeColumns(&text, rows)
		text.WriteByte('\n')
		writeColumns(&text, values)
	}
	return text.Bytes()
}

// shown is a cell of the console file.
func shown(b *report.Block, stat string) string {
	if text := cell(b, stat); text != "" {
		return text
	}
	return "N/A"
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
