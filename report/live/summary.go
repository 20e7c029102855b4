package live

import (
	"fmt"
	"maps"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/wire"
)

// summary returns what a summary of the run would say by now. Its counts are exact, its percentiles good to 1 %; a figure that is known
// only at the end is missing.
func (s *State) summary(info *measure.RunInfo) *measure.Summary {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, missing := s.totals[measure.ProfilingPhase], measure.Missing
	m := &measure.Summary{
		Requests: t.requests, Completed: t.completed, Errors: maps.Clone(t.errors), ErrorRates: map[wire.Category]measure.Number{},
		Buckets: measure.Buckets{
			Profiling: t.buckets[measure.Profiling], Cooldown: t.buckets[measure.Cooldown],
			CancelledAtEnd: t.buckets[measure.CancelledAtEnd], ContextOverflow: t.buckets[measure.ContextOverflow],
		},
		Metrics: t.metrics(), Concurrency: s.lanes, Run: info.Run, Out: info.Out, DeadlockedTrees: missing, PhaseDuration: missing,
		Client: measure.Client{CPU: missing, CPUShare: missing, Cores: missing, PeakRSS: missing},
	}
	if p := s.whole(); p.Phase == measure.ProfilingPhase {
		m.Client.Standstills = p.Standstills
		seconds := p.Elapsed.Seconds()
		m.RequestRate, m.PromptTokenRate, m.OutputTokenRate = ratio(float64(t.measured), seconds), ratio(float64(t.prompt), seconds), ratio(float64(t.output), seconds)
	}
	failed := measure.ErrorCounts(t.errors).Failed()
	for category, n := range t.errors {
		m.ErrorRates[category] = ratio(float64(n), float64(t.completed+failed))
	}
	if failed > 0 {
		m.ErrorRate = ratio(float64(failed), float64(t.completed+failed))
	}
	if m.Client.Bound = measure.ClientBound(m.Lateness.N, [2]measure.Number{m.Lateness.P50, m.Lateness.P95}, [2]measure.Number{m.RequestLatency.P50, m.RequestLatency.P95}); m.Client.Bound {
		m.Client.BoundBy = []string{"lateness p95 " + measure.FormatSeconds(m.Lateness.P95)}
	}
	if failed := t.errors[wire.Internal]; failed > 0 {
		m.Client.Bound, m.Client.BoundBy = true, append(m.Client.BoundBy, fmt.Sprintf("limits of this machine: %d requests", failed))
	}
	if info.Arrivals != nil {
		m.Arrivals = new(measure.Arrivals)
	}
	m.AddRemarks(new(measure.Ending), nil)
	return m
}

// metrics returns the numbers of the measured requests, without the rates.
func (t *totals) metrics() measure.Metrics {
	missing := measure.Missing
	m := measure.Metrics{
		Measured: t.measured, PromptTokens: measure.Number(t.prompt), CachedTokens: measure.Number(t.cached), OutputTokens: measure.Number(t.output),
		Duration: missing, RequestRate: missing, PromptTokenRate: missing, OutputTokenRate: missing, RequestedOutputTokens: missing, RecordedPromptTokens: missing,
		TokenHitRate: ratio(float64(t.cached), float64(t.prompt)), TheoreticalHitRate: ratio(float64(t.hits), float64(t.blocks)),
	}
	for k := range eachRequest {
		*eachRequest[k].Stat(&m) = t.of[k].stat()
	}
	return m
}

// distribution is of all values of a metric since the start of a phase.
type distribution struct {
	buckets histogram
	all     *hdrhistogram.Histogram // nil: there are none yet
	unit    float64                 // that a step of it is
	tally   *tally                  // of the values since the last gain; nil: none is kept
}

// Histograms have values from a step to 1e13 of them, of nanoseconds three hours, in cells that are at most 1 % wide: 38 KB each.
const (
	lowest  = 1
	highest = 1e13
	figures = 2
)

// nanosecond is the step of distributions of times; those of tokens have steps of 1.
const nanosecond = 1e-9

func (d *distribution) add(value float64) {
	bound := d.buckets.add(value)
	n := steps(value, d.unit)
	_ = d.histogram().RecordValue(n)
	if d.tally != nil {
		d.tally.add(cellOf(n), bound, value)
	}
}

// histogram returns that of all values.
func (d *distribution) histogram() *hdrhistogram.Histogram {
	if d.all == nil {
		d.all = hdrhistogram.New(lowest, highest, figures)
	}
	return d.all
}

func (d *distribution) stat() measure.Stat {
	missing := measure.Missing
	s := measure.Stat{Mean: missing, P50: missing, P75: missing, P90: missing, P95: missing, P99: missing, Max: missing, Std: missing, N: int(d.buckets.n)}
	if d.all == nil {
		return s
	}
	v := d.all.ValueAtPercentilesSlice([]float64{50, 75, 90, 95, 99, 100})
	for k, p := range []*measure.Number{&s.P50, &s.P75, &s.P90, &s.P95, &s.P99, &s.Max} {
		*p = measure.Number(float64(v[k]) * d.unit)
	}
	s.Mean = measure.Number(d.buckets.sum / float64(d.buckets.n))
	return s
}
