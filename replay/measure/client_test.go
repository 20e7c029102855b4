package measure

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestClientBound(t *testing.T) {
	for _, c := range []struct {
		lateness, ttft float64
		bound          bool
	}{
		{0.010, 0.1, false}, {0.0101, 0.1, true}, {0.0101, 2, false}, {0.02, 2, false}, {0.0201, 2, true}, {1, math.NaN(), true},
	} {
		ttft := NewStat([]float64{c.ttft})
		if math.IsNaN(c.ttft) {
			ttft = NewStat(nil)
		}
		require.Equal(t, c.bound, isClientBound(NewStat([]float64{c.lateness}), ttft), "%+v", c)
	}
	require.False(t, isClientBound(NewStat(nil), NewStat(nil)))
}

// A bound client says by what: a limit, its own sending, its CPU.
func TestClientBoundBy(t *testing.T) {
	const late = "order: the client ordered requests after they were due: its machine was busy, or they waited for PrefillLimit"
	for _, c := range []struct {
		waited, late, cpu float64 // seconds to admitted, from there to sent, of CPU
		want              []string
	}{
		{0, 0.009, 1.9, nil},
		{0.02, 0.001, 1, []string{late}},
		{0.006, 0.006, 1, []string{late}},
		{0, 0.02, 1, []string{"sending: requests left up to 20.0 ms (p99) after the client had ordered them"}},
		{0.02, 0.03, 1.9, []string{
			late, "sending: requests left up to 30.0 ms (p99) after the client had ordered them",
			"CPU: the process used 1.9 of 2 cores",
		}},
	} {
		a := NewAggregate(Rules{})
		r := good(0, 1, c.waited+c.late, 0.5, 2, 5)
		r.Admitted = r.Due + c.waited
		a.Add(r)
		s := a.Summary(RunInfo{Facts: &Facts{PhaseDuration: 1, CPU: c.cpu, Cores: 2}})
		require.Equal(t, c.want, s.Client.BoundBy, "%+v", c)
		require.Equal(t, c.want != nil, s.Client.Bound)
		require.EqualValues(t, c.cpu, s.Client.CPUShare)
	}
	s := NewAggregate(Rules{}).Summary(RunInfo{}) // of a run that was killed
	require.True(t, s.Client.CPUShare.IsMissing() && s.Client.Cores.IsMissing())
}

// A client whose machine had no more of something is bound, however soon its other requests left, and says so.
func TestClientBoundByALimit(t *testing.T) {
	a := NewAggregate(Rules{})
	for range 3 {
		a.Add(good(0, 0, 0, 0.5, 2, 5))
	}
	a.Add(bad(Profiling, "connection"))
	s := a.Summary(RunInfo{})
	require.False(t, s.Client.Bound)
	a.Add(bad(Profiling, "internal"))
	s = a.Summary(RunInfo{})
	require.True(t, s.Client.Bound)
	require.Equal(t, []string{"limits: this machine failed 1 of the requests (internal), not the server: open files, ports, memory or the cache, as their messages say"}, s.Client.BoundBy)
	var text strings.Builder
	s.client(&text)
	require.Contains(t, text.String(), "requests failed on this machine: the client, or a limit set on it, was the bottleneck")
	require.NotContains(t, text.String(), "lateness")
}

// The steps of requests on their connections: each over the requests that have it.
func TestConnection(t *testing.T) {
	a := NewAggregate(Rules{})
	fresh := good(0, 0, 0, 0.5, 2, 5) // sent at instant 0
	fresh.WaitEnd, fresh.ConnectStart, fresh.ConnectEnd, fresh.SendStart, fresh.SendEnd, fresh.FirstByte, fresh.LastByte = 0.125, 0.125, 0.25, 0.25, 0.375, 0.5, 2
	kept := good(0, 8, 0, 0.5, 2, 5)
	kept.WaitEnd, kept.SendStart, kept.SendEnd, kept.FirstByte, kept.LastByte, kept.Reused = 8.375, 8.375, 8.5, 8.75, 9.5, true
	untold := good(0, 4, 0, 0.5, 2, 5) // by an older agentx
	failed := bad(Profiling, "timeout")
	failed.SendStart, failed.SendEnd = 1, 9
	for _, r := range []*Record{fresh, kept, untold, failed} {
		a.Add(r)
	}
	s := a.Summary(RunInfo{})
	require.InDelta(t, 1.0/3, float64(s.Connection.Reused), 1e-9)
	s.Connection.Reused = 0
	between := func(a, b float64) Quantiles { return Quantiles{Number((a + b) / 2), Number(a + 0.99*(b-a))} }
	require.Equal(t, Connection{
		Blocked: between(0.125, 0.375), Connecting: between(0, 0.125), Sending: between(0.125, 0.125), Waiting: between(0.125, 0.25), Receiving: between(0.75, 1.5),
	}, s.Connection)
}
