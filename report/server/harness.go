package server

import (
	"bytes"
	"encoding/json"
	"slices"
	"time"

	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/scrape"
	"github.com/agentx/agentx/report"
)

// harnessExport is the object of JSONFile as agentx-harness writes it (doc/spec/results.md 16.1).
type harnessExport struct {
	Schema      string                    `json:"schema_version"`
	Version     string                    `json:"aiperf_version,omitempty"`
	BenchmarkID string                    `json:"benchmark_id,omitempty"`
	Summary     harnessSummary            `json:"summary"`
	Phase       string                    `json:"metrics_phase"`
	Metrics     map[string]*harnessMetric `json:"metrics"`
	Warmup      map[string]*harnessMetric `json:"warmup_metrics,omitempty"`
	InputConfig json.RawMessage           `json:"input_config,omitempty"`
}

// Versions of the layout of the two files.
const (
	harnessSchema    = "1.1"
	harnessCSVSchema = "1.0"
)

type harnessSummary struct {
	Configured []string                   `json:"endpoints_configured"`
	Successful []string                   `json:"endpoints_successful"`
	Start      string                     `json:"start_time"`
	End        string                     `json:"end_time"`
	Endpoints  map[string]harnessEndpoint `json:"endpoint_info,omitempty"`
	Phases     map[string]span            `json:"phase_time_ranges"`
}

type harnessEndpoint struct {
	endpointInfo
	MedianUpdate *float64 `json:"median_update_interval_ms,omitempty"` // nil: there is one update
}

type harnessMetric struct {
	Type        scrape.Type     `json:"type"`
	Description string          `json:"description"`
	Unit        string          `json:"unit,omitempty"`
	Series      []harnessSeries `json:"series"`
}

type harnessSeries struct {
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

// float adds a number as a float, unless there is none.
func (list *figures) float(name string, n *report.Number) {
	if n != nil {
		*list = append(*list, figure{name, report.Float(n.Float64())})
	}
}

// newHarnessExport computes the export of a run as the harness has it.
func newHarnessExport(d *scrape.Data, phases map[string]span, o Options) *harnessExport {
	ours := newExport(d, phases, o)
	profiling := phases[measure.ProfilingPhase]
	e := &harnessExport{
		Schema: harnessSchema, Version: o.Version, BenchmarkID: o.BenchmarkID, Phase: measure.ProfilingPhase, InputConfig: o.InputConfig,
		Metrics: harnessMetrics(d, phases, measure.ProfilingPhase, o.Slices), Summary: harnessSummary{
			Configured: ours.Summary.Configured, Successful: ours.Summary.Successful, Phases: phases, Endpoints: map[string]harnessEndpoint{},
			Start: localText(profiling.Start), End: localText(profiling.End),
		},
	}
	if _, ok := phases[measure.WarmupPhase]; ok {
		e.Warmup = harnessMetrics(d, phases, measure.WarmupPhase, o.Slices)
	}
	for k := range d.Endpoints {
		if one := &d.Endpoints[k]; len(one.Answers) > 0 {
			e.Summary.Endpoints[one.URL] = harnessEndpoint{ours.Summary.Endpoints[one.URL], medianUpdate(one)}
		}
	}
	return e
}

// localText writes nanoseconds since 1970 as Python writes a time without a zone.
func localText(ns int64) string {
	at := time.Unix(0, ns).Round(time.Microsecond).Local()
	if at.Nanosecond() == 0 {
		return at.Format("2006-01-02T15:04:05")
	}
	return at.Format("2006-01-02T15:04:05.000000")
}

// medianUpdate returns the median time between two updates, in ms; nil if there is one update.
func medianUpdate(e *scrape.Endpoint) *float64 {
	var gaps []float64
	last := int64(0)
	for k, a := range e.Answers {
		if k > 0 && !a.Changed {
			continue
		}
		if k > 0 {
			gaps = append(gaps, float64(a.At-last)/1e6)
		}
		last = a.At
	}
	if len(gaps) == 0 {
		return nil
	}
	slices.Sort(gaps)
	median := measure.Percentile(gaps, 50)
	return &median
}

// harnessMetrics returns what every series did in a phase, by name. The harness has no summaries.
func harnessMetrics(d *scrape.Data, phases map[string]span, name string, sliced bool) map[string]*harnessMetric {
	list, phase, next := map[string]*harnessMetric{}, phases[name], nextAfter(phases, name)
	for k := range d.Series {
		s := &d.Series[k]
		if s.Type == scrape.Summary {
			continue
		}
		values, until := samplesOf(d, s), closing(d.Endpoints[s.Endpoint].Answers, phase, next)
		phase := span{phase.Start, max(phase.End, until)} // to the answer of the page behind it
		over, ok := values.whole(s.Type, s.Bounds, phase, until)
		if !ok {
			continue
		}
		m := list[s.Name]
		if m == nil {
			m = &harnessMetric{Type: s.Type, Description: s.Help, Unit: harnessUnit(s.Name, s.Help)}
			list[s.Name] = m
		}
		if m.Type != s.Type {
			continue // a name has one type
		}
		var slices []slice
		if sliced {
			slices = values.slicesOf(s.Type, s.Bounds, phase, until, sliceLength.Nanoseconds())
		}
		one := harnessSeries{Endpoint: d.Endpoints[s.Endpoint].URL, Labels: s.Labels}
		one.Stats = values.harnessStats(s, over, slices, phase, &d.Endpoints[s.Endpoint])
		for _, b := range over.Buckets {
			one.Buckets = append(one.Buckets, bucket{b.bound, report.Int(b.count.Int64())})
		}
		for _, slice := range slices {
			one.Slices = append(one.Slices, harnessSlice(s.Type, slice))
		}
		m.Series = append(m.Series, one)
	}
	for _, m := range list {
		sortSeries(m.Series)
	}
	return list
}

// harnessSlice returns a slice as the harness has it.
func harnessSlice(t scrape.Type, s slice) figures {
	list := figures{{"start_ns", s.Start}, {"end_ns", s.End}}
	if s.Complete != nil {
		list = append(list, figure{"is_complete", *s.Complete})
	}
	switch t {
	case scrape.Counter:
		list.float("total", s.Total)
		list.float("rate", s.Rate)
	case scrape.Histogram:
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
