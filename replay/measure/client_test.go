package measure

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
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
		{0.12, 0.001, 1, 1, 4, []string{fmt.Sprintf(order, "120 ms") + ", or they waited for a slot of prefill-limit"}},
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
	require.True(t, s.Connection.Opened.IsMissing())
	s = a.Summary(RunInfo{Facts: &Facts{Ahead: &Ahead{Requests: 5, Connections: 4}}})
	require.EqualValues(t, 4, s.Connection.Opened)
	var text strings.Builder
	s.Connection.row(&text)
	require.Contains(t, text.String(), "% reused; 4 opened before the phase")
	s.Connection.Reused, s.Connection.Opened = 0, 0
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
	for k := range 5 * maxStandstills {
		s.Add(Standstill{At: float64(k), Seconds: 0.011 + float64(k%5)/1000})
	}
	s.Cut()
	require.Equal(t, 5*maxStandstills, s.N)
	require.Len(t, s.List, maxStandstills)
	for k, one := range s.List {
		require.Equal(t, float64(5*k+4), one.At)
	}
	require.InDelta(t, 5*maxStandstills*0.013, s.Seconds, 1e-6)
}

func TestReadClock(t *testing.T) {
	dir := t.TempDir()
	read := func(text string) (Clock, error) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, ClockFile), []byte(text), 0o600))
		return ReadClock(dir)
	}
	want := Clock{{1_700_000_000_000_000_000, -5_000_000_000, 120}, {1_700_000_010_000_000_000, -5_000_100_000, 95}}
	var text []byte
	for _, r := range want {
		text = r.AppendLine(text)
	}
	require.Equal(t, `{"unix_ns":1700000000000000000,"offset_ns":-5000000000,"uncertainty_ns":120}`, strings.Split(string(text), "\n")[0])
	c, err := read(string(text))
	require.NoError(t, err)
	require.Equal(t, want, c)
	c, err = read(string(text) + `{"unix_ns":17000`)
	require.NoError(t, err, "a part that was killed")
	require.Equal(t, want, c)

	for text, says := range map[string]string{
		"":             "no reading of the clock",
		`{"unix_ns":1`: "no reading of the clock",
		"\n":           "line 1: unexpected end of JSON input",
		"[]\n":         "line 1: ",
		`{"unix_ns":1.5,` + `"offset_ns":0,"uncertainty_ns":0}` + "\n":                 "line 1: ",
		`{"unix_ns":1,"offset_ns":0}` + "\n":                                           "line 1: want unix_ns, offset_ns and uncertainty_ns",
		`{"unix_ns":-1,"offset_ns":0,"uncertainty_ns":0}` + "\n":                       "line 1: unix_ns: -1: want 0 or more",
		`{"unix_ns":1,"offset_ns":0,"uncertainty_ns":-1}` + "\n":                       "line 1: uncertainty_ns: -1",
		`{"unix_ns":1,"offset_ns":9223372036854775807,"uncertainty_ns":0}` + "\n":      "line 1: offset_ns: 9223372036854775807",
		strings.Repeat(`{"unix_ns":1,"offset_ns":0,"uncertainty_ns":0}`+"\n", 2):       "line 2: unix_ns: 1: want a later instant",
		`{"unix_ns":1,"offset_ns":0,"uncertainty_ns":0}` + "\n" + `{"unix_ns":` + "\n": "line 2: unexpected end of JSON input",
	} {
		_, err := read(text)
		require.ErrorContains(t, err, says, text)
		require.ErrorContains(t, err, ClockFile, text)
	}
	_, err = ReadClock(t.TempDir())
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestClockMoves(t *testing.T) {
	c := Clock{{1e9, 100, 10}, {2e9, 300, 20}, {4e9, 200, 5}}
	for at, want := range map[int64][2]int64{
		1e9: {100, 10}, 2e9: {300, 20}, 4e9: {200, 5},
		1.5e9: {200, 20 + 200}, 3e9: {250, 20 + 100},
		0: {100, 10 + 500_000}, 6e9: {200, 5 + 1_000_000},
	} {
		moved, uncertainty := c.Move(time.Unix(0, at).UTC())
		require.Equal(t, at+want[0], moved.UnixNano(), at)
		require.EqualValues(t, want[1], uncertainty, at)
	}
	moved, uncertainty := (Clock{{1e9, 0, 0}}).Move(time.Unix(0, 7e9))
	require.Equal(t, int64(7e9), moved.UnixNano())
	require.Zero(t, uncertainty, "part 0 itself")
}

// Instants are right within their uncertainty, whatever a clock does between readings that are right within theirs: it drifts by up to
// 500 ppm, and steps one way.
func TestClockIsRightWithinItsUncertainty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		offset := rapid.Int64Range(-5e9, 5e9).Draw(t, "offset")
		drift := rapid.Float64Range(-MaxDrift, MaxDrift).Draw(t, "drift")
		truth := func(ns int64) int64 { return offset + int64(drift*float64(ns)) }
		var c Clock
		for at := int64(0); len(c) < 5; at += rapid.Int64Range(1e6, 20e9).Draw(t, "gap") {
			u := rapid.Int64Range(1, 1e6).Draw(t, "uncertainty")
			c = append(c, ClockReading{at, truth(at) + rapid.Int64Range(-u, u).Draw(t, "error"), u})
		}
		at := rapid.Int64Range(-10e9, c[4].Unix+10e9).Draw(t, "at")
		moved, uncertainty := c.Move(time.Unix(0, at))
		require.InDelta(t, at+truth(at), moved.UnixNano(), float64(uncertainty)+2, "in whole nanoseconds")
	})
}

func FuzzReadClock(f *testing.F) {
	f.Add([]byte(`{"unix_ns":1,"offset_ns":2,"uncertainty_ns":3}` + "\n"))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text []byte) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, ClockFile), text, 0o600))
		c, err := ReadClock(dir)
		if err != nil {
			return
		}
		for _, r := range c {
			moved, _ := c.Move(time.Unix(0, r.Unix))
			require.Equal(t, r.Unix+r.Offset, moved.UnixNano())
		}
	})
}
