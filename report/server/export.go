package server

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/scrape"
)

// export is the object of JSONFile.
type export struct {
	Version     string            `json:"aiperf_version,omitempty"`
	BenchmarkID string            `json:"benchmark_id,omitempty"`
	Summary     summary           `json:"summary"`
	Metrics     map[string]metric `json:"metrics"`        // of the profiling phase
	Warmup      map[string]metric `json:"warmup_metrics"` // apart
	InputConfig json.RawMessage   `json:"input_config,omitempty"`
}

type summary struct {
	Configured []string                `json:"endpoints_configured"`
	Successful []string                `json:"endpoints_successful"` // those that answered
	Start      time.Time               `json:"start_time"`
	End        time.Time               `json:"end_time"`
	Endpoints  map[string]endpointInfo `json:"endpoint_info"` // of those that answered, by URL
	Phases     map[string]span         `json:"phase_time_ranges"`
}

// metric is what all series of one name did in a phase.
type metric struct {
	Type   scrape.Type `json:"type"`
	Unit   string      `json:"unit"`
	Series []series    `json:"series"`
}

type series struct {
	Endpoint string            `json:"endpoint_url"`
	Labels   map[string]string `json:"labels"`
	Stats    stats             `json:"stats"`
	Slices   []slice           `json:"timeslices"`
}

// newExport computes the export of a run.
func newExport(d *scrape.Data, phases map[string]span, o Options) *export {
	e := &export{
		Version: o.Version, BenchmarkID: o.BenchmarkID, InputConfig: o.InputConfig,
		Metrics: metricsOf(d, phases, measure.ProfilingPhase), Warmup: map[string]metric{},
		Summary: summary{Configured: []string{}, Successful: []string{}, Endpoints: map[string]endpointInfo{}, Phases: phases},
	}
	if _, ok := phases[measure.WarmupPhase]; ok {
		e.Warmup = metricsOf(d, phases, measure.WarmupPhase)
	}
	profiling := phases[measure.ProfilingPhase]
	e.Summary.Start, e.Summary.End = time.Unix(0, profiling.Start).UTC(), time.Unix(0, profiling.End).UTC()
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

// metricsOf returns what every series did in a phase, by name. A series of which nothing is known there is left out.
func metricsOf(d *scrape.Data, phases map[string]span, name string) map[string]metric {
	list, phase, next := map[string]metric{}, phases[name], nextAfter(phases, name)
	for k := range d.Series {
		s := &d.Series[k]
		values, until := samplesOf(d, s), closing(d.Endpoints[s.Endpoint].Answers, phase, next)
		over, ok := values.whole(s.Type, s.Bounds, phase, until)
		if !ok {
			continue
		}
		name := nameOf(list, s)
		m := list[name]
		m.Type, m.Unit = s.Type, unitOf(s.Name)
		labels := s.Labels
		if labels == nil {
			labels = map[string]string{}
		}
		m.Series = append(m.Series, series{
			Endpoint: d.Endpoints[s.Endpoint].URL, Labels: labels, Stats: over,
			Slices: values.slicesOf(s.Type, s.Bounds, phase, until, sliceLength.Nanoseconds()),
		})
		list[name] = m
	}
	for _, m := range list {
		sortSeries(m.Series)
	}
	return list
}

// sortSeries sorts series by their pages and labels.
func sortSeries[T interface{ key() string }](list []T) {
	slices.SortStableFunc(list, func(a, b T) int { return strings.Compare(a.key(), b.key()) })
}

func (s series) key() string        { return s.Endpoint + "\n" + labelText(s.Labels) }
func (s harnessSeries) key() string { return s.Endpoint + "\n" + labelText(s.Labels) }

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
func nameOf(list map[string]metric, s *scrape.Series) string {
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

// endpointInfo says how a page answered over the whole run. An update is an answer in which a value differs from the one before.
type endpointInfo struct {
	Fetches        int     `json:"total_fetches"` // that were answered
	FirstFetch     int64   `json:"first_fetch_ns"`
	LastFetch      int64   `json:"last_fetch_ns"`
	Latency        float64 `json:"avg_fetch_latency_ms"`
	Updates        int     `json:"unique_updates"`
	FirstUpdate    int64   `json:"first_update_ns"`
	LastUpdate     int64   `json:"last_update_ns"`
	Duration       float64 `json:"duration_seconds"` // from the first update to the last
	UpdateInterval float64 `json:"avg_update_interval_ms"`
}

// describe describes an endpoint that has answered. Its first answer is an update.
func describe(e *scrape.Endpoint) (info endpointInfo) {
	first, last := e.Answers[0], e.Answers[len(e.Answers)-1]
	info.Fetches, info.FirstFetch, info.LastFetch = len(e.Answers), first.At, last.At
	info.FirstUpdate, info.LastUpdate = first.At, first.At
	for k, a := range e.Answers {
		info.Latency += float64(a.Took) / 1e6 / float64(len(e.Answers))
		if k == 0 || a.Changed {
			info.Updates++
			info.LastUpdate = a.At
		}
	}
	info.Duration = float64(info.LastUpdate-info.FirstUpdate) / 1e9
	if info.Updates > 1 {
		info.UpdateInterval = info.Duration * 1e3 / float64(info.Updates-1)
	}
	return info
}

// phasesOf returns the phases of a run by name. The error names one that cannot be cut into slices.
func phasesOf(run *measure.RunInfo) (map[string]span, error) {
	list := map[string]span{}
	for _, p := range run.Phases {
		start, seconds := p.Start.UnixNano(), p.Duration
		if !(seconds >= 0 && seconds <= maxSlices*sliceLength.Seconds()) || p.Start.Year() < 1970 || p.Start.Year() > 2200 {
			return nil, fmt.Errorf("phase %s: start %v, duration %g s: want at most %d slices of %v after 1970", p.Name, p.Start, seconds, maxSlices, sliceLength)
		}
		list[p.Name] = span{start, start + int64(math.Round(seconds*1e9))}
	}
	return list, nil
}

// maxSlices bounds the slices of a phase.
const maxSlices = 1 << 20
