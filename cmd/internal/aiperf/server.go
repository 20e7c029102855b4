package aiperf

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/scrape"
	"github.com/agentx/agentx/report"
)

// Versions of the layout of the two files of server metrics.
const (
	serverSchema    = "1.1"
	serverCSVSchema = "1.0"
)

// serverMetric has the statistics of all series of one name in a phase.
type serverMetric struct {
	Type        scrape.Type `json:"type"`
	Description string      `json:"description"`
	Unit        string      `json:"unit,omitempty"`
	Series      []series    `json:"series"`
}

type series struct {
	Endpoint string            `json:"endpoint_url"`
	Labels   map[string]string `json:"labels,omitempty"`
	Stats    object            `json:"stats"`
	Buckets  object            `json:"buckets,omitempty"`
	Slices   []object          `json:"timeslices,omitempty"`
}

// writeServer writes the metrics of the servers, if a page of metrics answered. Of a killed run, whose phases are not known, it writes none and
// notes that.
func (w *writer) writeServer() error {
	data, err := w.run.Files.Servers()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var phases map[string]span
	if err == nil {
		phases, err = phasesOf(&w.run.Info)
	}
	if err != nil {
		return fmt.Errorf("server metrics: %w", err)
	}
	if !slices.ContainsFunc(data.Endpoints, func(e scrape.Endpoint) bool { return len(e.Answers) > 0 }) {
		return nil
	}
	if _, ok := phases[measure.ProfilingPhase]; !ok {
		w.written.Missing = append(w.written.Missing, w.run.Dir+": the run tells no profiling phase: there are no server metrics")
		return nil
	}
	if data.Torn {
		w.written.Missing = append(w.written.Missing, filepath.Join(w.run.Dir, scrape.File)+": the last line is cut off and left out")
	}
	id := w.run.Info.BenchmarkID
	if w.run.Harness() {
		id = harnessID(id)
	}
	metrics := w.serverMetrics(data, phases, measure.ProfilingPhase)
	text, err := indented(w.serverObject(data, phases, id, metrics), "")
	if err := w.put(w.names.server, text, err); err != nil {
		return err
	}
	return w.put(w.names.serverCSV, w.serverCSV(id, metrics), nil)
}

// serverObject returns the object of the JSON file.
func (w *writer) serverObject(d *scrape.Data, phases map[string]span, id string, metrics map[string]*serverMetric) object {
	o := object{{"schema_version", serverSchema}, {"aiperf_version", w.version(w.run)}}
	if id != "" {
		o.add("benchmark_id", id)
	}
	at := func(ns int64) string { return time.Unix(0, ns).UTC().Format(time.RFC3339Nano) }
	if w.run.Harness() {
		at = localText
	}
	configured, answered, info := []string{}, []string{}, map[string]object{}
	for k := range d.Endpoints {
		one, url := &d.Endpoints[k], d.Endpoints[k].URL
		configured = append(configured, url)
		if len(one.Answers) > 0 {
			answered, info[url] = append(answered, url), endpointInfo(one)
		}
	}
	profiling := phases[measure.ProfilingPhase]
	o.add("summary", object{
		{"endpoints_configured", configured}, {"endpoints_successful", answered}, {"start_time", at(profiling.Start)}, {"end_time", at(profiling.End)},
		{"endpoint_info", info}, {"phase_time_ranges", phases},
	})
	o.add("metrics_phase", measure.ProfilingPhase)
	o.add("metrics", metrics)
	if _, ok := phases[measure.WarmupPhase]; ok {
		if warmup := w.serverMetrics(d, phases, measure.WarmupPhase); len(warmup) > 0 {
			o.add("warmup_metrics", warmup)
		}
	}
	o.add("input_config", w.input(w))
	return o
}

// localText writes nanoseconds since 1970 as Python writes a time without a zone: microseconds, unless there are none.
func localText(ns int64) string {
	at := time.Unix(0, ns).Round(time.Microsecond).Local()
	if at.Nanosecond() == 0 {
		return at.Format("2006-01-02T15:04:05")
	}
	return at.Format("2006-01-02T15:04:05.000000")
}

// endpointInfo returns statistics of the answers of a page over the whole run. An update is an answer in which a value differs from the answer
// before; the first answer is one.
func endpointInfo(e *scrape.Endpoint) object {
	first, last := e.Answers[0], e.Answers[len(e.Answers)-1]
	latency, update := 0.0, first.At
	var gaps []float64
	for k, a := range e.Answers {
		latency += float64(a.Took) / 1e6 / float64(len(e.Answers))
		if k > 0 && a.Changed {
			gaps = append(gaps, float64(a.At-update)/1e6)
			update = a.At
		}
	}
	duration, interval := float64(update-first.At)/1e9, 0.0
	if len(gaps) > 0 {
		interval = duration * 1e3 / float64(len(gaps))
	}
	info := object{
		{"total_fetches", len(e.Answers)}, {"first_fetch_ns", first.At}, {"last_fetch_ns", last.At}, {"avg_fetch_latency_ms", latency},
		{"unique_updates", len(gaps) + 1}, {"first_update_ns", first.At}, {"last_update_ns", update}, {"duration_seconds", duration},
		{"avg_update_interval_ms", interval},
	}
	if len(gaps) > 0 {
		slices.Sort(gaps)
		info.add("median_update_interval_ms", measure.Percentile(gaps, 50))
	}
	return info
}

// maxSlices bounds the slices of a phase.
const maxSlices = 1 << 20

// phasesOf returns the phases of a run by name, or an error about one that is too long to be cut into slices.
func phasesOf(run *measure.RunInfo) (map[string]span, error) {
	list := map[string]span{}
	for _, p := range run.Phases {
		start, seconds := p.Start.UnixNano(), p.Duration
		if !(seconds >= 0 && seconds <= maxSlices*scrape.Interval.Seconds()) || p.Start.Year() < 1970 || p.Start.Year() > 2200 {
			return nil, fmt.Errorf("phase %s: start %v, duration %g s: want at most %d slices of %v after 1970", p.Name, p.Start, seconds, maxSlices, scrape.Interval)
		}
		list[p.Name] = span{start, start + int64(math.Round(seconds*1e9))}
	}
	return list, nil
}

// serverMetrics returns the statistics of every series in a phase, by name. It leaves out a series without a reading there, and in files of the
// harness also summaries and series of another type than the first of their name.
func (w *writer) serverMetrics(d *scrape.Data, phases map[string]span, phase string) map[string]*serverMetric {
	list, next, length := map[string]*serverMetric{}, nextAfter(phases, phase), cmp.Or(w.Slice, w.serverSlice)
	if length > 0 {
		length = max(length, scrape.Interval)
	}
	for k := range d.Series {
		s := &d.Series[k]
		page, name := &d.Endpoints[s.Endpoint], s.Name
		if m, taken := list[name]; taken && m.Type != s.Type { // such as a counter x_total beside a gauge x
			name += "_" + string(s.Type)
		}
		if w.run.Harness() && (s.Type == scrape.Summary || name != s.Name) {
			continue
		}
		values, in := samplesOf(d, s), span{phases[phase].Start, closing(page.Answers, phases[phase], next)}
		over, ok := values.over(s.Type, in, true)
		if held := s.Type == scrape.Gauge && len(values.inside(in)) == 1; !ok && !held {
			continue
		}
		if list[name] == nil {
			list[name] = &serverMetric{Type: s.Type, Description: s.Help, Unit: unitOf(s.Name, s.Help)}
		}
		one := series{Endpoint: page.URL, Labels: s.Labels}
		var rates []float64
		one.Slices, rates = values.slicesOf(s.Type, s.Bounds, in, length.Nanoseconds())
		one.Stats = values.statsOf(s, over, rates, in, page)
		if s.Type == scrape.Histogram && over[0] > 0 {
			one.Buckets = bucketsOf(s.Bounds, over, wholeNumber)
		}
		list[name].Series = append(list[name].Series, one)
	}
	for _, m := range list {
		slices.SortStableFunc(m.Series, func(a, b series) int {
			return cmp.Or(strings.Compare(a.Endpoint, b.Endpoint), strings.Compare(labelText(a.Labels), labelText(b.Labels)))
		})
	}
	return list
}

// nextAfter returns when the phase after another begins, or when the tail of the run is over.
func nextAfter(phases map[string]span, name string) int64 {
	end := phases[name].End
	next := end + scrape.Tail.Nanoseconds()
	for other, p := range phases {
		if other != name && p.Start >= end {
			next = min(next, p.Start)
		}
	}
	return next
}

// labelText writes labels as NAME=VALUE;NAME=VALUE, sorted by name.
func labelText(labels map[string]string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		parts = append(parts, name+"="+labels[name])
	}
	return strings.Join(parts, ";")
}

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

// isInfo reports whether the labels of the series describe the server, instead of naming a part of it.
func (r csvRow) isInfo() bool {
	return r.metric.Type == scrape.Gauge && strings.HasSuffix(r.name, "_info")
}

// serverCSV returns the text of the CSV: comments, a table for each type with a column for each label, then the labels of info series.
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

// writeInfos writes a line for each label of info series.
func writeInfos(w *csv.Writer, rows []csvRow) {
	_ = w.Write([]string{"Endpoint", "Metric", "Key", "Value", "Description"}) // to memory, as below
	for _, r := range rows {
		for _, key := range slices.Sorted(maps.Keys(r.Labels)) {
			_ = w.Write([]string{endpointText(r.Endpoint), r.name, key, r.Labels[key], r.metric.Description})
		}
	}
}

// labelColumns returns the labels of rows in the order of AIPerf: labels that occur in one row are neighbours, and among these the ones of a
// single row come first.
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

// endpointText returns the URL of a page without scheme and without /metrics.
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
