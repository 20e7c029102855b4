package server

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/scrape"
	"github.com/agentx/agentx/report"
)

// export is the object of JSONFile, in the order of AIPerf.
type export struct {
	Schema      string             `json:"schema_version"`
	Version     string             `json:"aiperf_version,omitempty"`
	BenchmarkID string             `json:"benchmark_id,omitempty"`
	Summary     summary            `json:"summary"`
	Phase       string             `json:"metrics_phase"`
	Metrics     map[string]*metric `json:"metrics"`                  // of the profiling phase
	Warmup      map[string]*metric `json:"warmup_metrics,omitempty"` // apart
	InputConfig json.RawMessage    `json:"input_config,omitempty"`
}

// Versions of the layout of the two files.
const (
	schema    = "1.1"
	csvSchema = "1.0"
)

type summary struct {
	Configured []string                `json:"endpoints_configured"`
	Successful []string                `json:"endpoints_successful"` // those that answered
	Start      string                  `json:"start_time"`
	End        string                  `json:"end_time"`
	Endpoints  map[string]endpointInfo `json:"endpoint_info,omitempty"` // of those that answered, by URL
	Phases     map[string]span         `json:"phase_time_ranges"`
}

// metric is what all series of one name did in a phase.
type metric struct {
	Type        scrape.Type `json:"type"`
	Description string      `json:"description"`
	Unit        string      `json:"unit,omitempty"`
	Series      []series    `json:"series"`
}

type series struct {
	Endpoint string            `json:"endpoint_url"`
	Labels   map[string]string `json:"labels,omitempty"`
	Stats    figures           `json:"stats"`
	Buckets  buckets           `json:"buckets,omitempty"`
	Slices   []figures         `json:"timeslices,omitempty"`
}

// figure is a value with its name.
type figure struct {
	name  string
	value any
}

// figures are a JSON object whose members keep their order.
type figures []figure

// MarshalJSON returns the object.
func (list figures) MarshalJSON() ([]byte, error) {
	text := bytes.NewBufferString("{")
	for k, f := range list {
		if k > 0 {
			text.WriteByte(',')
		}
		value, err := json.Marshal(f.value)
		if err != nil {
			return nil, err
		}
		text.WriteString(`"` + f.name + `":`)
		text.Write(value)
	}
	text.WriteByte('}')
	return text.Bytes(), nil
}

// find returns a value by its name, nil if there is none.
func (list figures) find(name string) any {
	for _, f := range list {
		if f.name == name {
			return f.value
		}
	}
	return nil
}

// float adds a number as a float, unless there is none, or it is not finite.
func (list *figures) float(name string, n *report.Number) {
	if n != nil && !math.IsInf(n.Float64(), 0) && !math.IsNaN(n.Float64()) {
		*list = append(*list, figure{name, report.Float(n.Float64())})
	}
}

// newExport computes the export of a run.
func newExport(d *scrape.Data, phases map[string]span, o Options) *export {
	at := utcText
	if o.Harness {
		at = LocalText
	}
	profiling := phases[measure.ProfilingPhase]
	e := &export{
		Schema: schema, Version: o.Version, BenchmarkID: o.BenchmarkID, Phase: measure.ProfilingPhase, InputConfig: o.InputConfig,
		Metrics: o.metricsOf(d, phases, measure.ProfilingPhase), Summary: summary{
			Configured: []string{}, Successful: []string{}, Phases: phases, Endpoints: map[string]endpointInfo{}, Start: at(profiling.Start), End: at(profiling.End),
		},
	}
	if _, ok := phases[measure.WarmupPhase]; ok {
		e.Warmup = o.metricsOf(d, phases, measure.WarmupPhase)
	}
	for k := range d.Endpoints {
		one, url := &d.Endpoints[k], d.Endpoints[k].URL
		e.Summary.Configured = append(e.Summary.Configured, url)
		if len(one.Answers) > 0 {
			e.Summary.Successful = append(e.Summary.Successful, url)
			e.Summary.Endpoints[url] = describe(one)
		}
	}
	return e
}

// utcText writes nanoseconds since 1970.
func utcText(ns int64) string { return time.Unix(0, ns).UTC().Format(time.RFC3339Nano) }

// LocalText writes nanoseconds since 1970 as Python writes a time without a zone: microseconds, unless there are none.
func LocalText(ns int64) string {
	at := time.Unix(0, ns).Round(time.Microsecond).Local()
	if at.Nanosecond() == 0 {
		return at.Format("2006-01-02T15:04:05")
	}
	return at.Format("2006-01-02T15:04:05.000000")
}

// metricsOf returns what every series did in a phase, by name. A series of which nothing is known there is left out. So are, under the
// harness, summaries, and series of another type than the first of their name has.
func (o Options) metricsOf(d *scrape.Data, phases map[string]span, name string) map[string]*metric {
	list, phase, next := map[string]*metric{}, phases[name], nextAfter(phases, name)
	for k := range d.Series {
		s := &d.Series[k]
		page := &d.Endpoints[s.Endpoint]
		name := nameOf(list, s)
		if o.Harness && (s.Type == scrape.Summary || name != s.Name) {
			continue
		}
		values, phase := samplesOf(d, s), span{phase.Start, closing(page.Answers, phase, next)}
		over, ok := values.over(s.Type, s.Bounds, phase, true)
		if held := s.Type == scrape.Gauge && len(values.inside(phase)) == 1; !ok && !held {
			continue
		}
		m := list[name]
		if m == nil {
			m = &metric{Type: s.Type, Description: s.Help, Unit: unitOf(s.Name, s.Help)}
			list[name] = m
		}
		parts := values.slicesOf(s.Type, s.Bounds, phase, o.Slice.Nanoseconds())
		one := series{Endpoint: page.URL, Labels: s.Labels, Stats: values.statsOf(s.Type, over, parts, phase, page)}
		for _, b := range over.Buckets {
			one.Buckets = append(one.Buckets, bucket{b.bound, report.Int(b.count.Int64())})
		}
		for _, part := range parts {
			one.Slices = append(one.Slices, sliceFigures(s.Type, part))
		}
		m.Series = append(m.Series, one)
	}
	for _, m := range list {
		slices.SortStableFunc(m.Series, func(a, b series) int {
			return cmp.Or(strings.Compare(a.Endpoint, b.Endpoint), strings.Compare(labelText(a.Labels), labelText(b.Labels)))
		})
	}
	return list
}

// sliceFigures returns the members of a slice.
func sliceFigures(t scrape.Type, s slice) figures {
	list := figures{{"start_ns", s.Start}, {"end_ns", s.End}}
	if s.Complete != nil {
		list = append(list, figure{"is_complete", *s.Complete})
	}
	switch t {
	case scrape.Counter:
		list.float("total", s.Total)
		list.float("rate", s.Rate)
	case scrape.Histogram, scrape.Summary:
		list = append(list, figure{"count", report.Int(s.Count.Int64())})
		list.float("sum", s.Sum)
		avg := report.Float(0)
		if s.Avg != nil {
			avg = *s.Avg
		}
		list.float("avg", &avg)
		if len(s.Buckets) > 0 {
			list = append(list, figure{"buckets", s.Buckets})
		}
	default:
		list.float("avg", s.Avg)
		list.float("min", s.Min)
		list.float("max", s.Max)
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

// nameOf returns the name of a series in the files: its own, with its type behind it where another type has that name already, such
// as a counter x_total beside a gauge x.
func nameOf(list map[string]*metric, s *scrape.Series) string {
	if m, taken := list[s.Name]; taken && m.Type != s.Type {
		return s.Name + "_" + string(s.Type)
	}
	return s.Name
}

// labelText returns labels as one text, name=value with semicolons between, in the order of the names.
func labelText(labels map[string]string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		parts = append(parts, name+"="+labels[name])
	}
	return strings.Join(parts, ";")
}
