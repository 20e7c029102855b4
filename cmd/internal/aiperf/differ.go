package aiperf

import (
	"fmt"
	"math"
	"strings"

	"github.com/agentx/agentx/report"
)

// compare looks for numbers that are not the same in two files.
func (d *Directory) compare() {
	if d.Aggregate == nil {
		return
	}
	names := NamesOf("")
	for k := range d.table {
		row := &d.table[k]
		b := d.Aggregate.Headline.Find(tagOf(row.Name))
		if b == nil {
			continue
		}
		for _, s := range row.Stats {
			if n, ok := b.Find(s.Name); ok && !sameCell(n, s.Value) {
				d.differ("%s of %s is %s in %s and %s in %s", s.Name, b.Tag, text(n), names.aggregate, text(s.Value), names.table)
			}
		}
	}
	for _, c := range []struct {
		tag  string
		rows int
	}{{"request_count", d.Rows.Succeeded}, {"error_request_count", d.Rows.Failed}} {
		if b := d.Aggregate.Headline.Find(c.tag); b != nil && d.Rows.Succeeded+d.Rows.Failed > 0 {
			if n, ok := b.Find("avg"); ok && n.Float64() != float64(c.rows) {
				d.differ("%s is %s in %s, and %s has %d such rows", c.tag, text(n), names.aggregate, names.Rows, c.rows)
			}
		}
	}
}

func (d *Directory) differ(format string, args ...any) {
	d.Differs = append(d.Differs, fmt.Sprintf(format, args...))
}

// text is a number as JSON has it.
func text(n report.Number) string { return string(n.Append(nil)) }

// tagOf makes the tag of a metric from its name in a CSV, which ends with the unit in parentheses.
func tagOf(name string) string {
	if k := strings.LastIndex(name, " ("); k >= 0 {
		name = name[:k]
	}
	return strings.NewReplacer(" ", "_", "-", "_").Replace(strings.ToLower(name))
}

// sameCell reports whether a cell with two decimals, or an integer, is the number.
func sameCell(n, cell report.Number) bool {
	if n.IsInt() && cell.IsInt() {
		return n.Int64() == cell.Int64()
	}
	x, y := n.Float64(), cell.Float64()
	return math.Abs(x-y) <= 0.005+1e-9*math.Abs(x)
}
