package live

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/slo"
	"github.com/agentx/agentx/replay/wire"
)

// good returns a request that was sent an instant late, and ended well after ttft and n-1 times itl.
func good(credit int, late, ttft, itl float64, n int64) *measure.Record {
	return &measure.Record{
		Phase: measure.ProfilingPhase, Credit: credit, Tree: credit % 7, Bucket: measure.Profiling, SourceKind: "weka_main",
		Numbers: measure.Numbers{
			Due: measure.At(1), Sent: measure.At(1 + late), FirstToken: measure.At(1 + late + ttft), LastToken: measure.At(1 + late + ttft + itl*float64(n-1)),
			End: measure.At(2 + late + ttft + itl*float64(n-1)), Status: 200, MaxTokens: n, PromptTokens: measure.Tokens(100), CachedTokens: measure.Tokens(60),
			OutputTokens: measure.Tokens(n),
		},
		Transfer: measure.Transfer{Chunks: int(n)},
	}
}

func bad(credit int, bucket measure.Bucket, category wire.Category) *measure.Record {
	return &measure.Record{
		Phase: measure.ProfilingPhase, Credit: credit, Bucket: bucket, Numbers: measure.Numbers{Due: measure.At(1), Sent: measure.At(1), End: measure.At(2)}, SourceKind: "weka_main",
		Error: &measure.Error{Category: category, Message: "of a test"},
	}
}

// someRecords returns n records of which a few failed in every way.
func someRecords(n int) (list []*measure.Record) {
	random := rand.New(rand.NewPCG(1, 2))
	for k := range n {
		r := good(k, 0.001*random.ExpFloat64(), random.ExpFloat64(), 0.02+0.01*random.Float64(), 2+random.Int64N(50))
		switch k % 20 {
		case 3:
			r = bad(k, measure.Profiling, wire.Timeout)
		case 5:
			r = bad(k, measure.Cooldown, wire.HTTPStatus)
		case 7:
			r = bad(k, measure.ContextOverflow, wire.ContextOverflow)
		case 9:
			r = bad(k, measure.CancelledAtEnd, wire.Cancelled)
		case 11:
			r.Bucket = measure.Cooldown
		case 13:
			r.PromptTokens, r.CachedTokens, r.OutputTokens = 0, 0, 0
		}
		list = append(list, r)
	}
	return list
}

// Latencies of the last looks are within 1 % of the samples, and rates those of their time; what is older does not count.
func TestRecent(t *testing.T) {
	s, at := NewState(measure.Rules{}, 8), time.Unix(1000, 0)
	s.Look(at)
	for range 2000 { // so long ago that it does not count
		s.Add(good(0, 50, 90, 7, 9))
	}
	random := rand.New(rand.NewPCG(3, 4))
	var ttft, itl, lateness []float64
	for look := range recentLooks {
		at = at.Add(time.Second)
		s.Look(at)
		if look == recentLooks-1 {
			break
		}
		for range 100 {
			x, y, z := math.Pow(10, -6+9*random.Float64()), math.Pow(10, -6+7*random.Float64()), math.Pow(10, -5+6*random.Float64())
			r := good(0, z, x, y, 3)
			a, _ := r.TTFT()
			b, _ := measure.Rules{}.ITL(&r.Numbers)
			ttft, itl, lateness = append(ttft, a.Seconds()), append(itl, b), append(lateness, r.LatenessSeconds())
			s.Add(r)
		}
	}
	s.Look(at.Add(time.Second)) // the first section is gone now
	now := s.Status().Recent
	require.InDelta(t, recentLooks, now.Seconds, 1e-9)
	require.InDelta(t, 2900.0/recentLooks, float64(now.RequestRate), 1e-9)
	require.InDelta(t, 290_000.0/recentLooks, float64(now.PromptTokenRate), 1e-9)
	require.InDelta(t, 3*2900.0/recentLooks, float64(now.OutputTokenRate), 1e-9)
	require.InDelta(t, 0.6, float64(now.TokenHitRate), 1e-12)
	for _, of := range []struct {
		got     Stat
		samples []float64
	}{{now.TTFT, ttft}, {now.ITL, itl}, {now.Lateness, lateness}} {
		slices.Sort(of.samples)
		require.EqualValues(t, len(of.samples), of.got.N)
		for q, got := range map[float64]measure.Number{0.5: of.got.P50, 0.75: of.got.P75, 0.9: of.got.P90, 0.95: of.got.P95, 0.99: of.got.P99} {
			exact := of.samples[int(math.Ceil(q*float64(len(of.samples))))-1]
			require.InEpsilon(t, exact, float64(got), 0.01, "q %v", q)
		}
	}
}

// Records of another phase begin anew; counts of the warmup and of the measured phase stand apart.
func TestPhases(t *testing.T) {
	s, at := NewState(measure.Rules{}, 8), time.Unix(1000, 0)
	require.Equal(t, preparing, s.Status().State)
	look := func() Status {
		at = at.Add(time.Second)
		s.Look(at)
		return s.Status()
	}
	look()
	s.Report(measure.Progress{Phase: measure.WarmupPhase, Elapsed: 5 * time.Second, Remaining: -1, Requests: 3, InFlight: 1, TreesOpen: 2})
	for k := range 2 {
		r := good(k, 0, 1, 0.1, 2)
		r.Phase, r.Bucket = measure.WarmupPhase, measure.WarmupBucket
		s.Add(r)
	}
	failed := bad(2, measure.WarmupBucket, wire.Timeout)
	failed.Phase = measure.WarmupPhase
	s.Add(failed)
	now := look()
	require.Equal(t, []any{measure.WarmupPhase, 5.0, 3, 2, map[wire.Category]int{wire.Timeout: 1}, 2.0},
		[]any{now.State, now.Elapsed, now.Sent, now.Completed, now.Errors, float64(now.Recent.RequestRate)})
	require.True(t, now.Remaining.IsMissing())
	s.Report(measure.Progress{Phase: measure.ProfilingPhase, Elapsed: time.Second, Remaining: 9 * time.Second, Arrivals: true, TreesWaiting: 4,
		Standstills: &measure.Standstills{N: 2, Seconds: 1.3, Longest: measure.Standstill{At: 0.5, Seconds: 1.1, InFlight: 7}}})
	s.Add(good(0, 0.5, 1, 0.1, 2))
	now = look()
	require.Equal(t, []any{measure.ProfilingPhase, 1, 1, 9.0, 4, false}, []any{now.State, now.Sent, now.Completed, float64(now.Remaining), *now.WaitingTrees, now.ClientBound})
	require.Equal(t, 2, now.Standstills.N)
	require.Contains(t, now.Log(), ", stood still for 1.10 s")
	require.Contains(t, s.summary(new(measure.RunInfo)).RemarksOf(measure.Warning), "standstill: a client stood still for 1.10 s, 500 ms after the start of the phase, with 7 requests in flight: what arrived then has later instants than it should")
	require.EqualValues(t, 1, now.Recent.RequestRate)
	require.EqualValues(t, 1, now.Recent.TTFT.N)
	for range 99 {
		s.Add(good(0, 0.5, 1, 0.1, 2))
	}
	now = look()
	require.True(t, now.ClientBound, "0.5 s late")
	require.InEpsilon(t, 1.1, float64(now.Recent.RequestLatency.P50), 0.01)
	s.end(nil)
	require.Equal(t, ended, s.Status().State)
}

// BenchmarkSecond is what a second of 3,000 requests costs, but for reading their records.
func BenchmarkSecond(b *testing.B) {
	s, list, at := NewState(measure.Rules{}, 8), someRecords(3000), time.Unix(1000, 0)
	b.ReportAllocs()
	for b.Loop() {
		for _, r := range list {
			s.Add(r)
		}
		at = at.Add(time.Second)
		s.Look(at)
	}
}

// Service levels of a run that is played are those of its summary, but for what is known at the end alone; before the first request none is missed.
func TestLevelsSoFar(t *testing.T) {
	var levels []slo.Condition
	for _, text := range []string{"ttft<1s", "ttft.p95<2s", "itl.mean<20ms"} {
		c, err := measure.ParseCondition(text)
		require.NoError(t, err)
		levels = append(levels, c)
	}
	s, all := NewState(measure.Rules{}, 8, levels...), measure.NewAggregate(measure.Rules{}, levels...)
	s.Report(measure.Progress{Phase: measure.ProfilingPhase, Elapsed: 100 * time.Second})
	for _, c := range s.summary(new(measure.RunInfo)).Goodput.Conditions {
		require.Nil(t, c.Met, c.Text)
	}
	for _, r := range someRecords(1000) {
		s.Add(r)
		all.Add(r)
	}
	got, want := s.summary(new(measure.RunInfo)).Goodput, all.Summary(measure.RunInfo{}).Goodput
	require.Positive(t, got.Requests)
	require.Equal(t, want.Requests, got.Requests)
	require.Equal(t, want.Share, got.Share)
	require.EqualValues(t, float64(want.Requests)/100, got.Rate)
	for k, c := range got.Conditions {
		require.Equal(t, want.Conditions[k].Met, c.Met, c.Text)
		require.Equal(t, c.OfEach, c.Value.IsMissing())
	}
	require.False(t, *got.Conditions[2].Met)
	s.end(nil)
	status := s.Status()
	require.True(t, strings.HasPrefix(status.Log(), "replay ended after 1m40s: 1000 sent, "), status.Log())
}
