package aiperf

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/agentx/agentx/replay/scrape"
	"github.com/agentx/agentx/report"
)

// serverColumns are the statistics of a table of the CSV, by type, in their order.
var serverColumns = map[scrape.Type][]string{
	scrape.Gauge:     append([]string{"avg", "min", "max", "std"}, percentileNames("")...),
	scrape.Counter:   {"total", "rate", "rate_avg", "rate_min", "rate_max", "rate_std"},
	scrape.Histogram: append([]string{"count", "count_rate", "sum", "sum_rate", "avg"}, percentileNames("_estimate")...),
	scrape.Summary:   {"count", "count_rate", "sum", "sum_rate", "avg"},
}

// csvRow is a series of the CSV.
type csvRow struct {
	name   string
	metric *serverMetric
	*series
}

// isInfo reports whether the labels of the series say what the server is, instead of which of its parts is meant.
func (r csvRow) isInfo() bool {
	return r.metric.Type == scrape.Gauge && strings.HasSuffix(r.name, "_info")
}

// serverCSV returns the text of the CSV: comments, then a table for each type, with a column for each label, then what servers say of
// themselves.
func (w *writer) serverCSV(id string, metrics map[string]*serverMetric) []byte {
	text := bytes.NewBufferString(fmt.Sprintf("# AIPerf Server Metrics Export (CSV)\n# aiperf_version: %s\n# schema_version: %s\n# benchmark_id: %s\n", w.version(w.run), serverCSVSchema, id))
	text.WriteString("# Note: Same benchmark_id and version appear in JSON and Parquet exports\n#\n")
	rows := map[scrape.Type][]csvRow{}
	for _, name := range slices.Sorted(maps.Keys(metrics)) {
		for k, m := 0, metrics[name]; k < len(m.Series); k++ {
			r := csvRow{name, m, &m.Series[k]}
			of := m.Type
			if r.isInfo() {
				of = ""
			}
			rows[of] = append(rows[of], r)
		}
	}
	out, end := csv.NewWriter(text), ""
	out.UseCRLF = true
	for _, t := range []scrape.Type{scrape.Gauge, scrape.Counter, scrape.Histogram, scrape.Summary, ""} {
		if len(rows[t]) == 0 {
			continue
		}
		text.WriteString(end)
		if end = "\r\n"; t == "" {
			writeInfos(out, rows[t])
		} else {
			writeTable(out, t, rows[t])
		}
		out.Flush()
	}
	return text.Bytes()
}

// writeTable writes the table of a type. Rows with the same labels stand together.
func writeTable(w *csv.Writer, t scrape.Type, rows []csvRow) {
	labels := labelColumns(rows)
	head := slices.Concat([]string{"Endpoint", "Type", "Metric", "Unit"}, serverColumns[t], labels, []string{"Description"})
	if t == scrape.Histogram {
		head = append(head, "buckets")
	}
	_ = w.Write(head) // to memory, as all below
	pattern := func(r csvRow) (text string) {
		for _, label := range labels {
			_, ok := r.Labels[label]
			text += map[bool]string{false: "0", true: "1"}[ok]
		}
		return text
	}
	slices.SortStableFunc(rows, func(x, y csvRow) int {
		return slices.Compare([]string{pattern(x), x.name, endpointText(x.Endpoint)}, []string{pattern(y), y.name, endpointText(y.Endpoint)})
	})
	for _, r := range rows {
		row := []string{endpointText(r.Endpoint), string(t), r.name, r.metric.Unit}
		for _, name := range serverColumns[t] {
			row = append(row, fourDecimals(r.Stats.find(name)))
		}
		for _, label := range labels {
			row = append(row, r.Labels[label])
		}
		row = append(row, r.metric.Description)
		if t == scrape.Histogram {
			var parts []string
			for _, b := range r.Buckets {
				parts = append(parts, b.key+"="+fourDecimals(b.value))
			}
			row = append(row, strings.Join(parts, ";"))
		}
		_ = w.Write(row)
	}
}

// writeInfos writes a line for each label of what servers say of themselves.
func writeInfos(w *csv.Writer, rows []csvRow) {
	_ = w.Write([]string{"Endpoint", "Metric", "Key", "Value", "Description"}) // to memory, as below
	for _, r := range rows {
		for _, key := range slices.Sorted(maps.Keys(r.Labels)) {
			_ = w.Write([]string{endpointText(r.Endpoint), r.name, key, r.Labels[key], r.metric.Description})
		}
	}
}

// labelColumns returns the labels of rows: those that occur together stand together, and of these the ones of a single row come first.
func labelColumns(rows []csvRow) (list []string) {
	family, uses := map[string]string{}, map[string]int{}
	root := func(label string) string {
		for family[label] != label {
			label = family[label]
		}
		return label
	}
	for _, r := range rows {
		first := ""
		for _, label := range slices.Sorted(maps.Keys(r.Labels)) {
			if uses[label]++; family[label] == "" {
				family[label] = label
			}
			if first == "" {
				first = label
			}
			family[root(label)] = root(first)
		}
	}
	members := map[string][]string{}
	for _, label := range slices.Sorted(maps.Keys(family)) {
		members[root(label)] = append(members[root(label)], label)
	}
	for _, f := range slices.SortedFunc(maps.Values(members), func(x, y []string) int { return strings.Compare(x[0], y[0]) }) {
		slices.SortStableFunc(f, func(x, y string) int { return min(uses[x], 2) - min(uses[y], 2) })
		list = append(list, f...)
	}
	return list
}

// endpointText is the URL of a page without its scheme and the name of the page.
func endpointText(page string) string {
	u, err := url.Parse(page)
	if err != nil || u.Host == "" {
		return page
	}
	return u.Host + strings.TrimSuffix(u.Path, "/metrics")
}

// fourDecimals writes an integer as it is, another number with four decimals, and nothing for none.
func fourDecimals(v any) string {
	n, ok := v.(report.Number)
	switch {
	case !ok:
		return ""
	case n.IsInt():
		return strconv.FormatInt(n.Int64(), 10)
	}
	return strconv.FormatFloat(n.Float64(), 'f', 4, 64)
}
