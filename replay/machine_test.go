package replay

import (
	"context"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/cachetest"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/payload"
	"github.com/agentx/agentx/replay/wire"
)

// What lanes and parts want is held against what the machine lets them have, before anything is sent.
//
// Covers T-91.
func TestLanesAgainstTheMachine(t *testing.T) {
	one, two := []string{"http://a:8000/v1"}, []string{"http://a:8000", "http://b:8000"}
	for _, c := range []struct {
		machine     machine
		lanes, part int
		urls        []string
		want        []string
	}{
		{machine{}, 60000, 0, one, nil},
		{machine{files: 1024, ports: 28232}, 960, 0, one, nil},
		{machine{files: 1024, ports: 28232}, 961, 0, one, []string{"961 lanes want a connection each, with other files 1025, and this process may open 1024: requests will fail on this machine; raise its limit (ulimit -n 1025, also the hard one)"}},
		{machine{files: 1024, ports: 28232}, 1900, 2, one, nil},
		{machine{ports: 28232}, 28232, 0, one, nil},
		{machine{ports: 28232}, 28233, 0, one, []string{"28233 lanes want a connection each to a:8000, and this machine has 28232 ports for one address"}},
		{machine{ports: 28232}, 56464, 0, two, nil},
		{machine{ports: 28232}, 56465, 0, two, []string{"28233 lanes want a connection each to a:8000"}},
		{machine{ports: 28232}, 28233, 0, []string{"http://a:8000/x", "http://a:8000/y"}, []string{"28233 lanes want a connection each to a:8000"}},
		{machine{ports: 28232}, 40000, 2, one, []string{"the 2 parts of this load want 40000 connections to a:8000, and this machine has 28232 ports for one address: if they share it"}},
		{machine{ports: 28232}, 28000, 2, one, nil},
		{machine{files: 100, ports: 100}, 200, 0, one, []string{"ulimit -n 264", "100 ports"}},
		{machine{files: 100, ports: 100}, 0, 0, one, nil}, // trees that arrive, any number
	} {
		whole := Options{Concurrency: c.lanes, URLs: c.urls, Part: Part{Of: c.part}}
		part := whole.ofPart()
		got := c.machine.shortfalls(&part, &whole)
		require.Len(t, got, len(c.want), "%+v", c)
		for k := range got {
			require.Contains(t, got[k], c.want[k])
		}
	}
}

func TestPortsIn(t *testing.T) {
	for text, want := range map[string]int{"32768\t60999\n": 28232, "1 65535": 65535, "5 5": 1, "": 0, "x": 0, "9 8": 0, "0 9": 0, "1 99999": 0, "1": 0} {
		require.Equal(t, want, portsIn(text), text)
	}
}

// preparedRun is a run of the demo on four lanes that begin in the middle of their traces, before its first request.
func preparedRun(t *testing.T, o Options) *run {
	o.Start, o.Calibrate = middle, true
	require.NoError(t, o.Validate())
	r := newRun(o.withDefaults())
	t.Cleanup(r.close)
	require.NoError(t, r.prepare(t.Context()))
	return r
}

// A calibration has figures of every lane, and takes nothing from the run: no id, no server.
func TestCalibration(t *testing.T) {
	for _, endpoint := range []payload.Endpoint{payload.ChatCompletions, payload.Completions, payload.TextCompletions, payload.Messages} {
		o := optionsFor(t, cachetest.Demo(t), unreachable)
		o.Endpoint, o.Marker = endpoint, payload.FirstTurnPrefix
		r := preparedRun(t, o)
		before := r.NewID()
		r.calibrationTurns = 3
		got := r.calibrateFor(t.Context(), time.Minute)
		require.Empty(t, got.Error)
		require.Equal(t, 4, got.Lanes)
		require.Equal(t, 12, got.Requests)
		for _, n := range []measure.Number{got.RequestRate, got.SendRate, got.TTFT.P50, got.TTFT.P99, got.TTFTLoaded.P50, got.TTFTLoaded.P99} {
			require.Positive(t, float64(n))
		}
		require.InDelta(t, 12, float64(got.RequestRate)*got.Seconds, 1e-6)
		require.Equal(t, "id-2", before) // the first is of the ledger of markers
		require.Equal(t, "id-3", r.NewID())
		for _, tree := range r.sampler.lanes {
			for _, id := range tree.correlationIDs {
				require.Empty(t, id)
			}
		}
	}
}

// Where lanes are many, a calibration sends on some at a time, and on all in turn.
func TestCalibrationOfManyLanes(t *testing.T) {
	o := optionsFor(t, cachetest.Demo(t), unreachable)
	o.Concurrency, o.Marker, o.Duration = maxCalibrationAtOnce+10, payload.FirstTurnPrefix, time.Hour
	r := preparedRun(t, o)
	r.calibrationTurns = 1
	got := r.calibrateFor(t.Context(), time.Minute)
	require.Equal(t, o.Concurrency, got.Lanes)
	require.Equal(t, o.Concurrency, got.Requests)
}

// The bodies of a calibration are those of the turns that the lanes begin with, with the markers of their trees.
func TestCalibrationSendsTheBodiesOfTheRun(t *testing.T) {
	var mu sync.Mutex
	var bodies []string
	url, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		mu.Lock()
		bodies = append(bodies, string(body))
		mu.Unlock()
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, streamOf(q.URL.Path).tail)
	}))
	o := optionsFor(t, cachetest.Demo(t), unreachable)
	o.Endpoint, o.Marker, o.APIKey = payload.ChatCompletions, payload.SystemPrefix, "secret"
	r := preparedRun(t, o)
	c, err := r.newCalibration(t.Context(), url, time.Now())
	require.NoError(t, err)
	defer c.sender.servers.close()
	require.Len(t, c.lanes, 4)
	for k := range c.lanes {
		l, tree := &c.lanes[k], r.sampler.lanes[k]
		first, want := r.sampler.first[k].Start.TurnsDone, l.turns[0]
		require.GreaterOrEqual(t, want.Turn, first[want.Session])
		c.send(l)
		trace, err := tree.render()
		require.NoError(t, err)
		turn := int(tree.plan.Sessions[want.Session].FirstTurn) + want.Turn
		body, err := r.encoder.Body(trace, turn, tree.marker, r.Cache.Facts.Rules.MaxTokens(tree.plan.Sessions[want.Session].Kind, tree.plan.Turns[turn]))
		require.NoError(t, err)
		var text strings.Builder
		_, err = body.WriteTo(&text)
		require.NoError(t, err)
		body.Release()
		mu.Lock()
		sent := bodies[k]
		mu.Unlock()
		require.Equal(t, text.String(), sent)
		require.Contains(t, sent, string(tree.marker))
	}
}

// What the sink answers ends well under every API, with the tokens that the id begins with, and no more than it has.
func TestCalibrationSink(t *testing.T) {
	for path, api := range map[string]wire.API{"/v1/chat/completions": wire.OpenAI, "/v1/completions": wire.OpenAI, "/v1/messages": wire.MessagesAPI} {
		s, err := newSink(path)
		require.NoError(t, err)
		client, err := wire.New(s.url(), wire.Options{})
		require.NoError(t, err)
		for tokens, want := range map[int64]int{0: 1, 1: 1, 7: 7, 99999: maxSinkTokens} {
			res := client.Do(t.Context(), &wire.Request{
				Path: path, Stream: true, API: api, Body: rawBody(strings.Repeat("x", 200_000)),
				Header: []wire.HeaderField{{Name: "X-Request-ID", Value: newCalibrationID(tokens, 1)}},
			})
			require.Nil(t, res.Err, path)
			require.Equal(t, want, res.Chunks)
		}
		require.EqualValues(t, 800_000, s.bodies.Load())
		res := client.Do(t.Context(), &wire.Request{Path: path, Body: rawBody("x")}) // no sender of the run asks for it
		require.Equal(t, wire.Connection, res.Err.Category)
		client.Close()
		s.close()
	}
}

// A run that is interrupted is not calibrated. Its results are written.
func TestCalibrationNotAfterInterrupt(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	o := optionsFor(t, cachetest.Demo(t), unreachable)
	o.Calibrate = true
	cancel()
	s, err := Run(ctx, o)
	require.NoError(t, err)
	require.Zero(t, s.Requests)
	require.Nil(t, s.Calibration)
	require.FileExists(t, filepath.Join(o.Out, SummaryFile))
}

// A calibration that fails says why, and the run goes on.
func TestCalibrationFails(t *testing.T) {
	o := optionsFor(t, cachetest.Demo(t), unreachable)
	r := preparedRun(t, o)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	got := r.calibrateFor(ctx, time.Minute)
	require.Equal(t, "no request ended within 1m0s", got.Error)
	require.True(t, got.RequestRate.IsMissing())
}

// A run is calibrated after its last request, and sends the same as one that is not.
func TestCalibrationFollowsTheRun(t *testing.T) {
	sent := func(calibrated bool) []sentTurn {
		o := optionsFor(t, cachetest.Demo(t), unreachable)
		o.Start, o.Marker, o.Calibrate = middle, payload.FirstTurnPrefix, calibrated
		v, err := virtually(t, o, second, func(v *virtualRun) { v.calibrationTurns = 2 })
		require.NoError(t, err)
		require.Equal(t, calibrated, v.summary.Calibration != nil)
		if calibrated {
			require.Empty(t, v.summary.Calibration.Error)
			require.Equal(t, 8, v.summary.Calibration.Requests)
		}
		return v.sent
	}
	require.Equal(t, sent(false), sent(true))
}

// The clock returns an event that is there at once, and an interrupt once.
func TestRealClock(t *testing.T) {
	fallback := newWakeTimer()
	if f, ok := fallback.(interface{ fail() }); ok {
		f.fail()
	}
	for name, timer := range map[string]wakeTimer{"of the kernel": newWakeTimer(), "of the runtime": newRuntimeTimer(), "fallback": fallback} {
		t.Run(name, func(t *testing.T) {
			defer timer.close()
			events := make(chan event, 1)
			ctx, interrupt := context.WithCancel(context.Background())
			defer interrupt()
			c := &realClock{epoch: time.Now(), timer: timer, events: events, interrupted: ctx.Done()}
			until := c.now() + time.Millisecond
			for c.now() < until { // await may return earlier
				_, ok := c.await(until)
				require.False(t, ok)
			}
			_, ok := c.await(0)
			require.False(t, ok)
			events <- event{kind: firstToken, id: 7}
			e, ok := c.await(0)
			require.True(t, ok)
			require.Equal(t, event{kind: firstToken, id: 7}, e)
			interrupt()
			for ok = false; !ok; { // the timer may fire once more before
				e, ok = c.await(time.Hour)
			}
			require.Equal(t, event{kind: interrupted}, e)
			_, ok = c.await(0)
			require.False(t, ok)
		})
	}
}

// A beat that comes more than 10 ms late is a standstill, from when it was due, with the requests that were in flight before it.
//
// Covers T-152.
func TestHeartbeat(t *testing.T) {
	ms := func(n float64) time.Duration { return time.Duration(n * 1e6) }
	told := new(atomic.Pointer[measure.Standstills])
	h := &heartbeat{due: ms(102), stop: make(chan struct{}), stopped: make(chan struct{}), told: told}
	h.beat(ms(102), 1)
	h.beat(ms(103), 2)   // a ticker may be early
	h.beat(ms(115), 3)   // 10 ms after it was due
	h.beat(ms(127.5), 4) // 10.5 ms after
	require.Equal(t, &measure.Standstills{N: 1, Seconds: 0.0105, Longest: measure.Standstill{At: 0.117, Seconds: 0.0105, InFlight: 3}}, told.Load(), "while the phase is played")
	h.beat(ms(129.5), 7)
	h.beat(ms(2131.5), 0) // stopped for two seconds
	h.beat(ms(2133.5), 5)
	close(h.stopped)
	require.Equal(t, &measure.Standstills{
		N: 2, Seconds: 0.0105 + 2, Longest: measure.Standstill{At: 0.1315, Seconds: 2, InFlight: 7},
		List: []measure.Standstill{{At: 0.117, Seconds: 0.0105, InFlight: 3}, {At: 0.1315, Seconds: 2, InFlight: 7}},
	}, h.end())
}

func TestHeartbeatWithoutStandstills(t *testing.T) {
	var none *heartbeat
	require.Nil(t, none.end())
	h := &heartbeat{stop: make(chan struct{}), stopped: make(chan struct{})}
	close(h.stopped)
	require.Nil(t, h.end())
}
