package live

import (
	"bytes"
	"maps"
	"slices"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/wire"
)

// Bounds are the bounds of the histograms of /metrics, in seconds: 1, 2 and 5 times each power of ten, from 10 us, a small lateness, to the
// longest time of a request.
var Bounds = []float64{
	1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000,
}

// Families returns the state of a run as metrics. Counts are of requests of the profiling phase that are over; at the end they equal those of the
// summary.
func (s *State) Families() []*dto.MetricFamily {
	status := s.Status()
	s.mu.Lock()
	families := s.totals[measure.ProfilingPhase].families()
	warmup := s.totals[measure.WarmupPhase].Requests
	s.mu.Unlock()
	return append(families,
		counter("warmup_requests", "Requests of the warmup that are over.", float64(warmup)),
		gauge("lanes", "Lanes asked for; 0: trees arrive on their own, and any number may be open.", float64(status.Lanes)),
		gauge("open_trees", "Trees that are played.", float64(status.OpenTrees)),
		gauge("in_flight", "Requests that were sent and are not over.", float64(status.InFlight)),
		gauge("phase_elapsed", "Seconds since the start of the phase.", status.Elapsed),
		gauge("client_bound", "1: the client, or a limit set on it, held up the requests of the last 30 seconds.", flag(status.ClientBound)),
		state(status.State),
	)
}

// Metrics returns Families in the text format of Prometheus.
func (s *State) Metrics() ([]byte, error) {
	text := bytes.NewBuffer(make([]byte, 0, metricsBytes))
	for _, f := range s.Families() {
		if len(f.Metric) == 0 { // no value of the label yet
			continue
		}
		if _, err := expfmt.MetricFamilyToText(text, f); err != nil {
			return nil, err
		}
	}
	return text.Bytes(), nil
}

// metricsBytes is more than the metrics of most runs take.
const metricsBytes = 16 << 10

// families returns the metrics of totals. Their names are keys of the summary.
func (t *totals) families() []*dto.MetricFamily {
	list := []*dto.MetricFamily{
		counter("requests", "Requests that are over, however they ended.", float64(t.Requests)),
		counter("completed", "Requests that ended well.", float64(t.Completed)),
		labelled("errors", "Requests that failed, by category, without overflows and cancellations.", "category", t.Errors),
		labelled("buckets", "Requests that are over, by bucket.", "bucket", t.Buckets),
		counter("measured", "Requests that ended well and are no cooldown; the counts below are over these.", float64(t.Measured)),
		counter("prompt_tokens", "Prompt tokens, as the server counted them.", float64(t.Tokens.Prompt)),
		counter("cached_tokens", "Prompt tokens that were in the cache of the server.", float64(t.Tokens.Cached)),
		counter("output_tokens", "Output tokens, as the server counted them, reasoning included.", float64(t.Tokens.Output)),
	}
	for k, m := range eachRequest {
		if m.Live != "" {
			list = append(list, t.Distributions[k].family(m.Key(), m.Live))
		}
	}
	return list
}

// family returns a metric family named agentx_NAME.
func family(name, help string, kind dto.MetricType, metrics ...*dto.Metric) *dto.MetricFamily {
	name = "agentx_" + name
	return &dto.MetricFamily{Name: &name, Help: &help, Type: &kind, Metric: metrics}
}

// counter returns a family of one counter.
func counter(name, help string, value float64) *dto.MetricFamily {
	return family(name, help, dto.MetricType_COUNTER, &dto.Metric{Counter: &dto.Counter{Value: &value}})
}

// gauge returns a family of one gauge.
func gauge(name, help string, value float64) *dto.MetricFamily {
	return family(name, help, dto.MetricType_GAUGE, &dto.Metric{Gauge: &dto.Gauge{Value: &value}})
}

// labelled returns a family with a counter for each value of a label.
func labelled[K interface{ wire.Category | measure.Bucket }](name, help, label string, counts map[K]int) *dto.MetricFamily {
	var metrics []*dto.Metric
	for _, key := range slices.Sorted(maps.Keys(counts)) {
		value, text := float64(counts[key]), string(key)
		metrics = append(metrics, &dto.Metric{
			Label:   []*dto.LabelPair{{Name: &label, Value: &text}},
			Counter: &dto.Counter{Value: &value},
		})
	}
	return family(name, help, dto.MetricType_COUNTER, metrics...)
}

// family returns a distribution as a histogram.
func (d *distribution) family(name, help string) *dto.MetricFamily {
	n, sum, cumulative := uint64(d.Cells.n), d.Sum, uint64(0)
	p := &dto.Histogram{SampleCount: &n, SampleSum: &sum}
	for k, bound := range Bounds {
		cumulative += d.Bounds[k]
		upTo := cumulative
		p.Bucket = append(p.Bucket, &dto.Bucket{UpperBound: &bound, CumulativeCount: &upTo})
	}
	return family(name, help, dto.MetricType_HISTOGRAM, &dto.Metric{Histogram: p})
}

// state returns a family with a gauge for each state, which is 1 for the state of the run.
func state(now string) *dto.MetricFamily {
	var metrics []*dto.Metric
	label := "state"
	for _, name := range []string{preparing, measure.WarmupPhase, measure.ProfilingPhase, ended} {
		value := flag(name == now)
		metrics = append(metrics, &dto.Metric{
			Label: []*dto.LabelPair{{Name: &label, Value: &name}},
			Gauge: &dto.Gauge{Value: &value},
		})
	}
	return family("state", "1 at the state of the run.", dto.MetricType_GAUGE, metrics...)
}

// flag returns 1 for true.
func flag(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
