package aiperf

import (
	"bytes"
	"cmp"
	"strings"

	"github.com/agentx/agentx/report"
)

// columns are the statistics of the first table of the CSV.
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

// csvOf returns the two tables of a CSV: metrics with percentiles, then scalars. Lines have an end. Without a metric the first table
// is its head, or is left out.
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
