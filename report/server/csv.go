package server

import (
	"bytes"
	"encoding/csv"
	"maps"
	"slices"

	"github.com/agentx/agentx/replay/scrape"
	"github.com/agentx/agentx/report"
)

// tables are those of CSVFile: one for each type of metric, with its columns.
var tables = []struct {
	kind    scrape.Type
	columns []string
	values  func(s stats) []*report.Number
}{
	{scrape.Gauge, []string{"avg", "min", "max"}, func(s stats) []*report.Number { return []*report.Number{s.Avg, s.Min, s.Max} }},
	{scrape.Counter, []string{"total", "rate"}, func(s stats) []*report.Number { return []*report.Number{s.Total, s.Rate} }},
	{scrape.Histogram, []string{"count", "sum", "avg"}, func(s stats) []*report.Number { return []*report.Number{s.Count, s.Sum, s.Avg} }},
	{scrape.Summary, []string{"count", "sum", "avg"}, func(s stats) []*report.Number { return []*report.Number{s.Count, s.Sum, s.Avg} }},
}

// csvOf returns the text of CSVFile: a table for each type that occurs, with an empty line between two of them, and a row for each
// series of the profiling phase.
func csvOf(metrics map[string]metric) []byte {
	var text bytes.Buffer
	w := csv.NewWriter(&text)
	for _, t := range tables {
		begun := false
		for _, name := range slices.Sorted(maps.Keys(metrics)) {
			m := metrics[name]
			if m.Type != t.kind {
				continue
			}
			if !begun {
				if w.Flush(); text.Len() > 0 {
					text.WriteByte('\n')
				}
				_ = w.Write(append([]string{"Endpoint", "Type", "Metric", "Unit", "Labels"}, t.columns...)) // to memory
				begun = true
			}
			for _, s := range m.Series {
				row := []string{s.Endpoint, string(m.Type), name, m.Unit, labelText(s.Labels)}
				for _, v := range t.values(s.Stats) {
					row = append(row, cell(v))
				}
				_ = w.Write(row)
			}
		}
	}
	w.Flush()
	return text.Bytes()
}

// cell returns a number as JSON has it, and nothing for none.
func cell(n *report.Number) string {
	if n == nil {
		return ""
	}
	text, _ := n.MarshalJSON() // cannot fail
	return string(text)
}
