package aiperf

import (
	"bytes"
	"strings"

	"github.com/agentx/agentx/report"
)

// columns are the statistics of the first table of the CSV.
var columns = []string{"avg", "min", "max", "sum", "p1", "p5", "p10", "p25", "p50", "p75", "p90", "p95", "p99", "std"}

// csvOf returns the two tables of a CSV: metrics with percentiles, then scalars. Lines have an end. Without a metric the first table
// is its head, or is left out.
func csvOf(t report.Table, end string, leaveOut bool) ([]byte, error) {
	var text bytes.Buffer
	line := func(cells []string) { text.WriteString(strings.Join(cells, ",") + end) }
	first, second := [][]string{append([]string{"Metric"}, columns...)}, [][]string{{"Metric", "Value"}}
	for k := range t {
		b := &t[k]
		if err := checkName(rowName(b)); err != nil {
			return nil, err
		}
		if b.Kind == report.Scalar {
			second = append(second, []string{rowName(b), cell(b, "avg")})
			continue
		}
		cells := []string{rowName(b)}
		for _, stat := range columns {
			cells = append(cells, cell(b, stat))
		}
		first = append(first, cells)
	}
	if len(first) > 1 || !leaveOut {
		for _, cells := range first {
			line(cells)
		}
		text.WriteString(end)
	}
	for _, cells := range second {
		line(cells)
	}
	return text.Bytes(), nil
}
