package measure

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/replay/wire"
)

// The counts of periods are those since the start of the phase, rates and latencies those of the period.
func TestPeriods(t *testing.T) {
	l := NewLive(ProfilingPhase, 0, Rules{})
	for range 30 {
		l.Add(good(0, 1, 0, 0.5, 2.5, 5))
	}
	l.Add(bad(Profiling, wire.Timeout))
	l.Add(bad(Profiling, wire.HTTPStatus))
	l.Add(bad(Profiling, wire.HTTPStatus))
	first := l.End(30*time.Second, 40, 7)
	require.Equal(t, 33, first.Completed+first.Errors[wire.Timeout]+first.Errors[wire.HTTPStatus])
	require.EqualValues(t, 1, first.RequestRate)
	require.EqualValues(t, 5, first.OutputTokenRate)
	require.InEpsilon(t, 0.5, float64(first.TTFT.P99), 0.01)
	require.InEpsilon(t, 0.5, float64(first.ITL.P50), 0.01)
	require.Equal(t, []string{
		"40 sent, 7 in flight, 30 completed, 3 failed (9.09 %): http_status 6.06 %, timeout 3.03 %",
		"in the last 30s: 1 requests/s, 5 output tokens/s",
		"ttft p50 500 ms, p75 500 ms, p90 500 ms, p95 500 ms, p99 500 ms",
		"itl p50 500 ms, p75 500 ms, p90 500 ms, p95 500 ms, p99 500 ms",
	}, approximately(first).Lines())

	l.Add(bad(ContextOverflow, wire.ContextOverflow))
	l.Add(bad(CancelledAtEnd, wire.Cancelled))
	l.Add(bad(Profiling, wire.Timeout))
	second := l.End(60*time.Second, 41, 0)
	require.Equal(t, 1, first.Errors[wire.Timeout], "what was told does not change")
	require.Equal(t, []string{
		"41 sent, 0 in flight, 30 completed, 4 failed (11.8 %): http_status 5.88 %, timeout 5.88 %; 1 context overflow; 1 cancelled",
		"in the last 30s: 0 requests/s, 0 output tokens/s",
	}, second.Lines())
	require.Equal(t, 60*time.Second, second.Elapsed)
}

// approximately returns a period whose latencies are half a second, as they nearly are.
func approximately(p Period) Period {
	p.TTFT = LiveStat{0.5, 0.5, 0.5, 0.5, 0.5}
	p.ITL = p.TTFT
	return p
}

// A percentile of a histogram is within 1 % of the sample of that rank.
func TestHistogram(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var h histogram
	var samples []float64
	for range 2000 {
		x := 1e-5 * exp10(9*random.Float64())
		samples = append(samples, x)
		h.add(x)
	}
	slices.Sort(samples)
	for _, q := range []float64{0, 1, 50, 75, 90, 95, 99, 100} {
		require.InEpsilon(t, samples[int(q/100*float64(len(samples)-1))], float64(h.percentile(q)), 0.01, q)
	}
	h = histogram{}
	require.True(t, h.percentile(50).IsMissing())
	for _, x := range []float64{-1, 0, 1e-9, 1e300} {
		h.add(x)
	}
	require.InEpsilon(t, 1e-6, float64(h.percentile(50)), 0.01)
	require.InEpsilon(t, 1e5, float64(h.percentile(100)), 0.02)
}

func exp10(x float64) (y float64) {
	for y = 1; x >= 1; x-- {
		y *= 10
	}
	return y * (1 + 9*x)
}

func BenchmarkLive(b *testing.B) {
	l, r := NewLive(ProfilingPhase, 0, Rules{}), good(1, 1, 0, 1, 2, 3)
	b.ReportAllocs()
	for b.Loop() {
		l.Add(r)
	}
}
