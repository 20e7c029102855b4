package live

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/replay/measure"
)

// scraped reads a page of metrics with Prometheus' own parser.
func scraped(t *testing.T, text []byte) map[string]*dto.MetricFamily {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	require.NoError(t, err)
	return families
}

// The metrics are read by Prometheus' own parser, and their counts are those of the summary of the same records.
//
func TestMetricsEqualTheSummary(t *testing.T) {
	s, a := NewState(measure.Rules{}, 8), measure.NewAggregate(measure.Rules{})
	var lateness float64
	for _, r := range append(someRecords(1000), &measure.Record{Phase: measure.WarmupPhase, Bucket: measure.WarmupBucket}) {
		s.Add(r)
		a.Add(r)
		if r.Phase == measure.ProfilingPhase && r.Error == nil && r.Bucket == measure.Profiling {
			lateness += r.LatenessSeconds()
		}
	}
	text, err := s.Metrics()
	require.NoError(t, err)
	families := scraped(t, text)
	of := func(name string, labels ...string) float64 {
		require.Contains(t, families, "agentx_"+name)
		for _, m := range families["agentx_"+name].Metric {
			if len(labels) == 0 || m.Label[0].GetValue() == labels[0] {
				if m.Counter != nil {
					return m.Counter.GetValue()
				}
				return m.Gauge.GetValue()
			}
		}
		return 0
	}
	want := a.Summary(measure.RunInfo{})
	for name, n := range map[string]float64{
		"requests": float64(want.Requests), "completed": float64(want.Completed), "measured": float64(want.Measured), "prompt_tokens": float64(want.PromptTokens),
		"cached_tokens": float64(want.CachedTokens), "output_tokens": float64(want.OutputTokens), "warmup_requests": 1, "lanes": 8,
	} {
		require.Equal(t, n, of(name), name)
	}
	require.NotEmpty(t, want.Errors)
	for category, n := range want.Errors {
		require.EqualValues(t, n, of("errors", string(category)), category)
	}
	require.Len(t, families["agentx_errors"].Metric, len(want.Errors))
	for bucket, n := range map[measure.Bucket]int{
		measure.Profiling: want.Buckets.Profiling, measure.Cooldown: want.Buckets.Cooldown,
		measure.CancelledAtEnd: want.Buckets.CancelledAtEnd, measure.ContextOverflow: want.Buckets.ContextOverflow,
	} {
		require.Positive(t, n)
		require.EqualValues(t, n, of("buckets", string(bucket)), bucket)
	}
	for name, stat := range map[string]measure.Stat{"ttft": want.TTFT, "itl": want.ITL, "request_latency": want.RequestLatency, "lateness": want.Lateness} {
		h := families["agentx_"+name].Metric[0].Histogram
		require.EqualValues(t, stat.N, h.GetSampleCount(), name)
		require.InEpsilon(t, float64(stat.Mean)*float64(stat.N), h.GetSampleSum(), 1e-9, name)
		require.EqualValues(t, stat.N, h.Bucket[len(h.Bucket)-1].GetCumulativeCount(), name)
		require.Len(t, h.Bucket, len(Bounds)+1, "with one without a bound")
	}
	require.InEpsilon(t, lateness, families["agentx_lateness"].Metric[0].Histogram.GetSampleSum(), 1e-9)
}

// A bucket of a histogram has what is not more than its bound.
func TestHistogramBounds(t *testing.T) {
	h := distribution{unit: 1e-9}
	for _, v := range []float64{-1, 1e-5, 1.1e-5, 5000, 5001} {
		h.add(v)
	}
	f := h.family("x", "")
	got := map[float64]uint64{}
	for _, b := range f.Metric[0].Histogram.Bucket {
		got[b.GetUpperBound()] = b.GetCumulativeCount()
	}
	require.EqualValues(t, []uint64{2, 3, 3, 4}, []uint64{got[1e-5], got[2e-5], got[2000], got[5000]})
	require.EqualValues(t, 5, f.Metric[0].Histogram.GetSampleCount())
}

// Before the first request there is a page of metrics, too.
func TestMetricsOfNothing(t *testing.T) {
	text, err := NewState(measure.Rules{}, 8).Metrics()
	require.NoError(t, err)
	families := scraped(t, text)
	require.NotContains(t, families, "agentx_errors")
	for _, m := range families["agentx_state"].Metric {
		require.Equal(t, m.Label[0].GetValue() == preparing, m.Gauge.GetValue() == 1)
	}
}

// The dashboard of contrib asks for metrics that a run has, and for all of them.
func TestDashboard(t *testing.T) {
	s := NewState(measure.Rules{}, 8)
	for _, r := range someRecords(1000) {
		s.Add(r)
	}
	text, err := s.Metrics()
	require.NoError(t, err)
	var has, asked []string
	for name := range scraped(t, text) {
		has = append(has, name)
	}
	dashboard, err := os.ReadFile("../../../../contrib/grafana.json")
	require.NoError(t, err)
	require.True(t, json.Valid(dashboard))
	for _, name := range regexp.MustCompile(`agentx_[a-z_]+`).FindAllString(string(dashboard), -1) {
		asked = append(asked, strings.TrimSuffix(name, "_bucket"))
	}
	slices.Sort(has)
	slices.Sort(asked)
	require.Equal(t, has, slices.Compact(asked))
}
