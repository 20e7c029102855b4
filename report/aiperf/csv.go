package aiperf

import (
	"bytes"
	"strings"

	"github.com/agentx/agentx/report"
)

// columns are the statistics of the first table of the CSV.
var columns = []string{"avg", "min", "max", "sum", "p1", "p5", "p10", "p25", "p50", "p75", "p90", "p95", "p99", "std"}

// csvOf returns the two tables of a CSV: metrics with percentiles, then scalars.
func csvOf(t report.Table, end string) ([]byte, error) {
	var text bytes.Buffer
	line := func(cells []string) {
		text.WriteString(strings.Join(cells, ","))
		text.WriteString(end)
	}
	line(append([]string{"Metric"}, columns...))
	for k := range t {
		b := &t[k]
		if err := checkName(rowName(b)); err != nil {
			return nil, err
		}
		if b.Kind == report.Scalar {
			continue
		}
		cells := []string{rowName(b)}
		for _, stat := range columns {
			cells = append(cells, cell(b, stat))
		}
		line(cells)
	}
	text.WriteString(end)
	line([]string{"Metric", "Value"})
	for k := range t {
		if b := &t[k]; b.Kind == report.Scalar {
			line([]string{rowName(b), cell(b, "avg")})
		}
	}
	return text.Bytes(), nil
}
