package replay

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/cachetest"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/wire"
)

// A run whose servers take no connection for a time ends, with the reason; one that was told not to goes on to its bound.
func TestServersThatAreGoneEndTheRun(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	dead := "http://" + l.Addr().String()
	require.NoError(t, l.Close())
	run := func(change func(*Options)) (*measure.Summary, error) {
		o := optionsFor(t, cachetest.Demo(t), dead)
		o.Once, o.Requests, o.Concurrency, o.Pace.ASAP, o.Backoff.First, o.GoneAfter = false, 40, 1, true, Off, time.Nanosecond
		change(&o)
		return Run(t.Context(), o)
	}
	s, err := run(func(*Options) {})
	require.ErrorContains(t, err, "replay: stopped: for 1ns no server accepted a connection: ")
	require.Less(t, s.Requests, 40)
	require.FileExists(t, s.Out+"/summary.json")
	for name, change := range map[string]func(*Options){
		"off":               func(o *Options) { o.GoneAfter = Off },
		"not yet":           func(o *Options) { o.GoneAfter = time.Hour },
		"under other tools": func(o *Options) { o.GoneAfter, o.Preset = 0, "aiperf-0.13" },
	} {
		s, err := run(change)
		require.NoError(t, err, name)
		require.Equal(t, 40, s.Requests, name)
	}
}

// Five failures over the time end a phase, unless one of the requests was answered, or another is in flight.
func TestGoneWantsSilence(t *testing.T) {
	l := &loop{phase: phase{goneAfter: time.Minute}, inFlight: map[int]*request{}}
	fails := func(at float64, c wire.Category) error {
		return l.gone(&measure.Record{Numbers: measure.Numbers{Admitted: measure.At(at), End: measure.At(at)}, Error: &measure.Error{Category: c, Message: "refused"}})
	}
	for k := range 5 {
		require.NoError(t, fails(float64(k), wire.Connection), "too soon")
	}
	l.inFlight[1] = nil
	require.NoError(t, fails(60, wire.Connection))
	delete(l.inFlight, 1)
	require.NoError(t, l.gone(&measure.Record{}), "an answer")
	require.NoError(t, fails(61, wire.Connection))
	require.NoError(t, fails(130, wire.Connection), "too few")
	for k := range 2 {
		require.NoError(t, fails(float64(131+k), wire.Connection))
	}
	require.EqualError(t, fails(133, wire.Connection), "replay: stopped: for 1m0s no server accepted a connection: 5 requests in a row failed, the last: refused")
	require.NoError(t, fails(134, wire.HTTPStatus), "an answer, too")
	require.NoError(t, fails(135, wire.Connection))
}
