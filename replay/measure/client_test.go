package measure

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// The lateness binds a client where it is a share of the latency, over enough requests, and not by its largest values.
func TestClientBound(t *testing.T) {
	of := func(p50, p95 float64) [2]Number { return [2]Number{Number(p50), Number(p95)} }
	for _, c := range []struct {
		requests          int
		lateness, latency [2]Number
		bound             bool
	}{
		{100, of(0.001, 0.010), of(0.1, 0.1), false}, {100, of(0.001, 0.0101), of(0.1, 0.1), true}, {99, of(1, 1), of(0.1, 0.1), false},
		{100, of(0.001, 0.05), of(1, 1), false}, {100, of(0.001, 0.0501), of(1, 1), true}, {100, of(0.0501, 0.06), of(1, 9), true},
		{100, of(0.011, 0.011), [2]Number{Missing, Missing}, true}, {100, [2]Number{Missing, Missing}, of(1, 1), false},
	} {
		require.Equal(t, c.bound, ClientBound(c.requests, c.lateness, c.latency), "%+v", c)
	}
}

// A bound client says by what: a limit where one is set, its own start, its CPU. A few late requests bind none.
func TestClientBoundBy(t *testing.T) {
	order := "order: the client ordered requests up to %s (p95) after they were due: its machine was busy"
	start := "start: requests left up to 120 ms (p95) after the client had ordered them: its machine was busy"
	for _, c := range []struct {
		waited, late, cpu float64 // seconds to admitted, from there to sent, of CPU
		every, prefill    int     // requests of which one is late; the limit
		want              []string
	}{
		{0, 0.09, 1.9, 1, 0, nil}, // of a latency of 2 s
		{2, 0.09, 1.9, 50, 0, nil},
		{0.12, 0.001, 1, 1, 0, []string{fmt.Sprintf(order, "120 ms")}},
		{0.12, 0.001, 1, 10, 0, []string{fmt.Sprintf(order, "120 ms")}},
		{0.12, 0.001, 1, 1, 4, []string{fmt.Sprintf(order, "120 ms") + ", or they waited for a slot of PrefillLimit"}},
		{0.06, 0.06, 1, 1, 0, []string{fmt.Sprintf(order, "60.0 ms")}},
		{0, 0.12, 1, 1, 0, []string{start}},
		{0.2, 0.12, 1.9, 1, 0, []string{fmt.Sprintf(order, "200 ms"), start, "CPU: the process used 1.9 of 2 cores"}},
	} {
		for requests, want := range map[int][]string{100: c.want, 99: nil} {
			a := NewAggregate(Rules{})
			for k := range requests {
				r := good(0, 1, 0, 0.5, 2, 5)
				r.Admitted = r.Due
				if k%c.every == 0 {
					r = good(0, 1, c.waited+c.late, 0.5, 2, 5)
					r.Admitted = At(r.Due.Seconds() + c.waited)
				}
				a.Add(r)
			}
			s := a.Summary(RunInfo{Facts: &Facts{PhaseDuration: 1, CPU: c.cpu, Cores: 2, PrefillLimit: c.prefill}})
			require.Equal(t, want, s.Client.BoundBy, "%+v", c)
			require.Equal(t, want != nil, s.Client.Bound)
			require.EqualValues(t, c.cpu, s.Client.CPUShare)
		}
	}
	s := NewAggregate(Rules{}).Summary(RunInfo{}) // of a run that was killed
	require.True(t, s.Client.CPUShare.IsMissing() && s.Client.Cores.IsMissing())
}

// The steps of requests on their connections: each over the requests that have it.
func TestConnection(t *testing.T) {
	a := NewAggregate(Rules{})
	fresh := good(0, 0, 0, 0.5, 2, 5) // sent at instant 0
	fresh.WaitEnd, fresh.ConnectStart, fresh.ConnectEnd, fresh.SendStart, fresh.SendEnd, fresh.FirstByte, fresh.LastByte = At(0.125), At(0.125), At(0.25), At(0.25), At(0.375), At(0.5), At(2)
	kept := good(0, 8, 0, 0.5, 2, 5)
	kept.WaitEnd, kept.SendStart, kept.SendEnd, kept.FirstByte, kept.LastByte, kept.Reused = At(8.375), At(8.375), At(8.5), At(8.75), At(9.5), true
	untold := good(0, 4, 0, 0.5, 2, 5) // by an older agentx
	failed := bad(Profiling, "timeout")
	failed.SendStart, failed.SendEnd = At(1), At(9)
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
}
