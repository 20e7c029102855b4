package measure

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// judged returns the client of a run of requests of 1 s each, one a second, that have a token every 100 ms from 0.5 s on. change may
// change them.
func judged(requests int, standstills *Standstills, change func(k int, r *Record)) Client {
	a := NewAggregate(Rules{})
	for k := range requests {
		r := good(0, float64(k), 0, 0.5, 1, 6)
		r.Admitted, r.SendStart, r.SendEnd = r.Due, At(r.Sent.Seconds()+0.0001), At(r.Sent.Seconds()+0.0002)
		if change != nil {
			change(k, r)
		}
		a.Add(r)
	}
	return a.Summary(RunInfo{Facts: &Facts{Standstills: standstills}}).Client
}

// Each thing that the client does to a reported time binds it where a percentile would be 5 % lower without it, over 100 requests.
//
// Covers T-151.
func TestClientExplains(t *testing.T) {
	connects := func(seconds float64, every int) func(int, *Record) {
		return func(k int, r *Record) {
			if k%every == 0 {
				r.SendStart, r.SendEnd = At(r.Sent.Seconds()+seconds), At(r.Sent.Seconds()+seconds)
				r.FirstToken, r.LastToken = At(r.FirstToken.Seconds()+seconds), At(r.LastToken.Seconds()+seconds)
			}
		}
	}
	sends := func(k int, r *Record) { r.SendEnd = At(r.SendStart.Seconds() + 0.03) }
	for name, c := range map[string]struct {
		change func(int, *Record)
		want   []string
	}{
		"nothing":                     {nil, nil},
		"connecting, 4 % of the ttft": {connects(0.02, 1), nil},
		"connecting, of few":          {connects(0.1, 30), nil},
		"connecting": {connects(0.1, 10), []string{
			"ttft: its p95 would be 500 ms, not 600 ms, without what the client cost: getting a connection 100 ms",
			"latency: its p95 would be 1.00 s, not 1.10 s, without what the client cost: getting a connection 100 ms",
		}},
		"sending": {sends, []string{"ttft: its p95 would be 470 ms, not 500 ms, without what the client cost: sending the request 30.0 ms"}},
		"short": {func(_ int, r *Record) { // 0.9 ms are no bottleneck, whatever the server takes
			r.FirstToken, r.LastToken, r.SendStart, r.SendEnd = At(r.Sent.Seconds()+0.002), At(r.Sent.Seconds()+0.003), At(r.Sent.Seconds()+0.0005), At(r.Sent.Seconds()+0.0009)
		}, nil},
	} {
		require.Equal(t, c.want, judged(100, nil, c.change).BoundBy, name)
		require.Nil(t, judged(99, nil, c.change).BoundBy, name)
	}
}

// A client that stands still explains what it noted late for that, and nothing else: a server goes on sending.
//
// Covers T-152.
func TestClientStandsStill(t *testing.T) {
	every := func(n int, at, seconds float64) *Standstills {
		s := new(Standstills)
		for k := 0; k < 100; k += n {
			s.Add(Standstill{At: float64(k) + at, Seconds: seconds, InFlight: 1})
		}
		return s
	}
	notes := func(n int, first, last float64) func(int, *Record) {
		return func(k int, r *Record) {
			if k%n == 0 {
				r.FirstToken, r.LastToken = At(r.Sent.Seconds()+first), At(r.Sent.Seconds()+last)
			}
		}
	}
	require.Nil(t, judged(100, every(1, 0.2, 0.29), nil).BoundBy, "before the first token")
	require.Nil(t, judged(100, every(1, 0.6, 0.3), nil).BoundBy, "between the first and the last token")
	require.Nil(t, judged(100, every(1, 0.48, 0.021), notes(1, 0.501, 1)).BoundBy, "4 % of the ttft")
	require.Nil(t, judged(100, every(30, 0.4, 0.2), notes(30, 0.6, 1)).BoundBy, "few requests")
	c := judged(100, every(1, 0.45, 0.1), notes(1, 0.551, 1))
	require.Equal(t, []string{
		"ttft: its p95 would be 451 ms, not 551 ms, without what the client cost: standstills of this process 100 ms",
		"itl: its p95 would be 110 ms, not 89.8 ms, without what the client cost: standstills of this process 20.0 ms",
	}, c.BoundBy)
	require.Equal(t, &Standstills{N: 100, Seconds: c.Standstills.Seconds, Longest: Standstill{At: 0.45, Seconds: 0.1, InFlight: 1}}, c.Standstills)
	require.Equal(t, []string{
		"itl: its p95 would be 100 ms, not 120 ms, without what the client cost: standstills of this process 20.0 ms",
		"latency: its p95 would be 1.00 s, not 1.10 s, without what the client cost: standstills of this process 100 ms",
	}, judged(100, every(10, 0.95, 0.15), notes(10, 0.5, 1.1)).BoundBy)
	require.Nil(t, judged(99, every(1, 0.45, 0.1), notes(1, 0.551, 1)).BoundBy)
}

// Answers whose tokens came at once have an inter-token latency of 0: the reasons name the percentiles of the table, which has them.
func TestClientNamesThePercentilesOfTheTable(t *testing.T) {
	stood := new(Standstills)
	for k := range 100 {
		stood.Add(Standstill{At: float64(k) + 0.95, Seconds: 0.15, InFlight: 1})
	}
	a := NewAggregate(Rules{})
	for k := range 100 {
		r := good(0, float64(k), 0, 0.5+float64(k)/250, 1.1, 6)
		if k < 40 {
			r.FirstToken = r.LastToken
		}
		a.Add(r)
	}
	s := a.Summary(RunInfo{Facts: &Facts{Standstills: stood}})
	require.Equal(t, 100, s.ITL.N)
	var said []string
	for _, reason := range s.Client.BoundBy {
		if strings.HasPrefix(reason, "itl: ") {
			said = append(said, reason)
		}
	}
	require.Len(t, said, 1)
	require.Contains(t, said[0], "not "+FormatSeconds(s.ITL.P95)+", without")
}

// One long standstill is always said, and judged however few the requests are.
func TestLongStandstill(t *testing.T) {
	s := new(Standstills)
	s.Add(Standstill{At: 3.2, Seconds: 2, InFlight: 4})
	late := func(k int, r *Record) {
		r.Sent, r.Due, r.Admitted = At(3), At(3), At(3)
		r.FirstToken, r.LastToken, r.SendStart, r.SendEnd = At(5.201), At(5.202), 0, 0
	}
	c := judged(4, s, late)
	said := func(c Client) []string {
		var list []string
		summary := Summary{Client: c}
		summary.AddRemarks(new(Ending), nil)
		for _, r := range summary.Remarks {
			if r.Kind == "standstill" {
				list = append(list, r.Text)
			}
		}
		return list
	}
	require.Equal(t, []string{"standstill: a client stood still for 2.00 s, 3.20 s after the start of the phase, with 4 requests in flight: what arrived then has later instants than it should"}, said(c))
	require.True(t, c.Bound)
	require.Equal(t, []string{
		"ttft: its p95 would be 201 ms, not 2.20 s, without what the client cost: standstills of this process 2.00 s",
		"latency: its p95 would be 202 ms, not 2.20 s, without what the client cost: standstills of this process 2.00 s",
	}, c.BoundBy)
	c = judged(200, s, nil) // one request of many
	require.False(t, c.Bound)
	require.Len(t, said(c), 1)
	s.List[0].Seconds, s.Longest.Seconds = 1, 1
	require.Nil(t, said(judged(4, s, late)))
}

// Of many standstills the longest are kept, in their order.
func TestStandstillsAreBounded(t *testing.T) {
	s := new(Standstills)
	for k := range 5 * MaxStandstills {
		s.Add(Standstill{At: float64(k), Seconds: 0.011 + float64(k%5)/1000})
	}
	s.Cut()
	require.Equal(t, 5*MaxStandstills, s.N)
	require.Len(t, s.List, MaxStandstills)
	for k, one := range s.List {
		require.Equal(t, float64(5*k+4), one.At)
	}
	require.InDelta(t, 5*MaxStandstills*0.013, s.Seconds, 1e-6)
}
