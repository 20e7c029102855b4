package live

import (
	"fmt"
	"maps"
	"slices"

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
		Requests: t.Requests, Completed: t.Completed, Errors: maps.Clone(t.Errors),
		Buckets: measure.Buckets{
			Profiling: t.Buckets[measure.Profiling], Cooldown: t.Buckets[measure.Cooldown],
			CancelledAtEnd: t.Buckets[measure.CancelledAtEnd], ContextOverflow: t.Buckets[measure.ContextOverflow],
		},
		Metrics: t.metrics(), Concurrency: s.lanes, Run: info.Run, Out: info.Out, DeadlockedTrees: missing, PhaseDuration: missing,
		Client: measure.Client{CPU: missing, CPUShare: missing, Cores: missing, PeakRSS: missing},
	}
	if p := s.whole(); p.Phase == measure.ProfilingPhase {
		m.Client.Standstills = p.Standstills
		seconds := p.Elapsed.Seconds()
		m.RequestRate, m.PromptTokenRate, m.OutputTokenRate = ratio(float64(t.Measured), seconds), ratio(float64(t.Tokens.Prompt), seconds), ratio(float64(t.Tokens.Output), seconds)
	}
	m.AddRates()
	if m.Client.Bound = measure.ClientBound(m.Lateness.N, [2]measure.Number{m.Lateness.P50, m.Lateness.P95}, [2]measure.Number{m.RequestLatency.P50, m.RequestLatency.P95}); m.Client.Bound {
		m.Client.BoundBy = []string{"lateness p95 " + measure.FormatSeconds(m.Lateness.P95)}
	}
	if failed := t.Errors[wire.Internal]; failed > 0 {
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
		Measured: t.Measured, PromptTokens: measure.Number(t.Tokens.Prompt), CachedTokens: measure.Number(t.Tokens.Cached), OutputTokens: measure.Number(t.Tokens.Output),
		Duration: missing, RequestRate: missing, PromptTokenRate: missing, OutputTokenRate: missing, RequestedOutputTokens: missing, RecordedPromptTokens: missing,
		TokenHitRate: ratio(float64(t.Tokens.Cached), float64(t.Tokens.Prompt)), TheoreticalHitRate: ratio(float64(t.Hits), float64(t.Blocks)),
	}
	for k := range eachRequest {
		*eachRequest[k].Stat(&m) = t.Distributions[k].stat()
	}
	return m
}

// distribution is of all values of a metric since the start of a phase.
type distribution struct {
	Cells  cells      `json:"cells"`  // of its steps
	Bounds [28]uint64 `json:"bounds"` // values by the first of Bounds that is not less; the last: more than all
	Sum    float64    `json:"sum"`
	unit   float64    // a step
}

func (d *distribution) add(value float64) {
	d.Cells.add(cellOf(steps(value, d.unit)), 1)
	bound, _ := slices.BinarySearch(Bounds, value)
	d.Bounds[bound]++
	d.Sum += value
}

func (d *distribution) join(o *distribution) {
	d.Cells.join(&o.Cells, 1)
	for k, n := range o.Bounds {
		d.Bounds[k] += n
	}
	d.Sum += o.Sum
}

// at returns a percentile, of 100; Missing without a value.
func (d *distribution) at(p float64) measure.Number { return d.Cells.percentiles(d.unit, p)[0] }

func (d *distribution) stat() measure.Stat {
	v, n := d.Cells.percentiles(d.unit, 50, 75, 90, 95, 99, 100), d.Cells.n
	return measure.Stat{Mean: ratio(d.Sum, float64(n)), P50: v[0], P75: v[1], P90: v[2], P95: v[3], P99: v[4], Max: v[5], Std: measure.Missing, N: int(n)}
}
