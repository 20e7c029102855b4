package replay

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/cachetest"
	"github.com/agentx/agentx/internal/mock"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/replay/conductor"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/payload"
	"github.com/agentx/agentx/replay/preset"
	"github.com/agentx/agentx/replay/wire"
	"github.com/agentx/agentx/report/live"
)

// A callback that does not return delays nothing, and gets the latest progress then.
func TestReporterDoesNotWait(t *testing.T) {
	reads, shown, warned := make(chan struct{}), []time.Duration{}, []string{}
	r := newReporter(Options{
		Progress: func(p Progress) { <-reads; shown = append(shown, p.Elapsed) },
		Warn:     func(about string) { <-reads; warned = append(warned, about) },
	})
	for k := range 3000 {
		r.report(Progress{Elapsed: time.Duration(k)})
		r.warn(fmt.Sprint(k))
	}
	require.InDelta(t, 3000-reporterRoom, r.dropped.Load(), 1, "at most one is being said")
	close(reads)
	r.close()
	require.LessOrEqual(t, len(shown), 3)
	require.GreaterOrEqual(t, len(warned), reporterRoom)
	require.Equal(t, "0", warned[0])
	require.Equal(t, fmt.Sprintf("and %d more warnings, for which there was no room", r.dropped.Load()), warned[len(warned)-1])
}

// A run goes on while its callbacks do not return.
func TestRunDoesNotWaitForCallbacks(t *testing.T) {
	server, release := mock.New(mock.Config{}), make(chan struct{})
	var requests atomic.Int64
	url, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1) == 300 {
			close(release)
		}
		server.ServeHTTP(w, r)
	}))
	o := optionsFor(t, cachetest.Demo(t), url)
	o.Concurrency, o.Marker, o.Requests = 40, payload.FirstTurnPrefix, 300
	warned := 0
	o.Warn = func(string) { <-release; warned++ }
	p := play(t, t.Context(), o)
	require.Equal(t, 300, p.Completed)
	require.Equal(t, 2, warned, "one is of buffered answers: the mock sends each at once")
}

// calls are the connections that a server accepts, without a network.
type calls chan net.Conn

func (c calls) Accept() (net.Conn, error) {
	if one, ok := <-c; ok {
		return one, nil
	}
	return nil, net.ErrClosed
}

func (c calls) Close() error { close(c); return nil }
func (calls) Addr() net.Addr { return new(net.UnixAddr) }

// silent is a reader who asks, and takes nothing of the answer until the connection is closed, whatever deadline the server sets.
type silent struct {
	net.Conn
	ask      io.Reader
	answered chan struct{} // closed when the server begins to write
	begun    sync.Once
	left     chan struct{}
	leave    func()
}

// newSilent returns a reader who asks for a path.
func newSilent(path string) *silent {
	ask := strings.NewReader("GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n")
	s := &silent{ask: ask, answered: make(chan struct{}), left: make(chan struct{})}
	s.leave = sync.OnceFunc(func() { close(s.left) })
	return s
}

func (s *silent) Read(b []byte) (int, error) {
	if n, err := s.ask.Read(b); err == nil {
		return n, nil
	}
	<-s.left
	return 0, net.ErrClosed
}

func (s *silent) Write([]byte) (int, error) {
	s.begun.Do(func() { close(s.answered) })
	<-s.left
	return 0, net.ErrClosed
}

func (s *silent) Close() error                     { s.leave(); return nil }
func (s *silent) RemoteAddr() net.Addr             { return new(net.UnixAddr) }
func (s *silent) LocalAddr() net.Addr              { return new(net.UnixAddr) }
func (s *silent) SetDeadline(time.Time) error      { return nil }
func (s *silent) SetReadDeadline(time.Time) error  { return nil }
func (s *silent) SetWriteDeadline(time.Time) error { return nil }

// A whole run on virtual time beside readers who read nothing while it lasts sends what a run without readers sends, at the same
// instants; the state has all of it.
//
//
func TestSilentReadersChangeNoDueTime(t *testing.T) {
	cache := cachetest.Demo(t)
	play := func(o Options, prepare ...func(*virtualRun)) *virtualRun {
		v, err := virtually(t, o, takes(700*time.Millisecond), prepare...)
		require.NoError(t, err)
		return v
	}
	alone := play(optionsFor(t, cache, unreachable))
	require.Greater(t, len(alone.sent), 100)

	state, accepted := live.NewState(measure.Rules{}, 2), make(calls)
	server := live.Serve(accepted, "")
	ctx, over := context.WithCancel(context.Background())
	followed := make(chan struct{})
	o := optionsFor(t, cache, unreachable)
	o.Progress = func(p Progress) {
		state.Report(p)
	}
	var readers []*silent
	v := play(o, func(v *virtualRun) {
		pages, err := live.NewPages(state, v.results.dir.path)
		require.NoError(t, err)
		server.Show(&live.View{State: state, Pages: pages})
		go func() {
			defer close(followed)
			state.Follow(ctx, v.results.dir.path, pages, nil, time.Now, func() {}, nil)
		}()
		for _, path := range []string{"/", "/data?after=0", "/metrics", "/status"} {
			readers = append(readers, newSilent(path))
			accepted <- readers[len(readers)-1]
			<-readers[len(readers)-1].answered
		}
	})
	for _, r := range readers {
		require.NoError(t, r.Close())
	}
	require.Equal(t, alone.sends(), v.sends())
	over()
	<-followed
	require.Equal(t, live.Ended, state.Status().State)
	require.Equal(t, len(v.records), state.Status().Sent)
	require.NoError(t, server.Close(ctx))
}

// A first turn that is due when a turn of its parent was ordered leaves behind the request of that turn, and no other does.
//
// Covers T-153.
func TestChildLeavesBehindItsParent(t *testing.T) {
	root := mmapcache.Session{ID: "root", Parent: mmapcache.None, Turns: 9}
	child := mmapcache.Session{ID: "child", Parent: 0, Turns: 9}
	grandchild := mmapcache.Session{ID: "grandchild", Parent: 1, Turns: 9}
	tree := &activeTree{loadedTrace: &loadedTrace{plan: &mmapcache.Plan{Sessions: []mmapcache.Session{root, child, child, grandchild}}}}
	order := func(session, turn int, due, issued time.Duration) (own, ahead *leaving) {
		return tree.leaveBehindParent(conductor.Dispatch{Session: session, Turn: turn, Due: due, Issued: issued})
	}
	first, ahead := order(0, 0, 1, 5)
	require.Nil(t, ahead)
	_, ahead = order(1, 0, 7, 7)
	require.Nil(t, ahead, "it is due later")
	second, ahead := order(0, 1, 8, 8)
	require.Nil(t, ahead)
	other, ahead := order(2, 0, 8, 9) // ordered later: it waited for a slot
	require.Same(t, second, ahead)
	require.NotSame(t, first, ahead)
	_, ahead = order(2, 1, 8, 9)
	require.Nil(t, ahead, "it is no first turn")
	third, _ := order(1, 1, 10, 10)
	_, ahead = order(3, 0, 10, 10)
	require.Same(t, third, ahead)
	other.wasWritten()
	other.wasWritten()

	alone := &activeTree{loadedTrace: &loadedTrace{plan: &mmapcache.Plan{Sessions: []mmapcache.Session{root}}}}
	own, ahead := alone.leaveBehindParent(conductor.Dispatch{})
	require.Nil(t, own)
	require.Nil(t, ahead)
	own.wasWritten() // for those who cannot wait
	own.await(context.Background(), nil)
}

// What waits for a request leaves when that has been written, 10 ms later, or when the phase is over.
//
// Covers T-153.
func TestLeavesWhenWritten(t *testing.T) {
	for name, end := range map[string]func(l *leaving, timer chan time.Time, cancel func()){
		"written":  func(l *leaving, _ chan time.Time, _ func()) { l.wasWritten() },
		"too long": func(_ *leaving, timer chan time.Time, _ func()) { timer <- time.Time{} },
		"over":     func(_ *leaving, _ chan time.Time, cancel func()) { cancel() },
	} {
		l, timer, asked, left := &leaving{written: make(chan struct{})}, make(chan time.Time), make(chan time.Duration), make(chan struct{})
		ctx, cancel := context.WithCancel(context.Background())
		go func() {
			l.await(ctx, func(d time.Duration) <-chan time.Time { asked <- d; return timer })
			close(left)
		}()
		require.Equal(t, 10*time.Millisecond, <-asked, name)
		select {
		case <-left:
			t.Fatal(name, "it has left before")
		default:
		}
		end(l, timer, cancel)
		<-left
		cancel()
	}
	l := &leaving{written: make(chan struct{})}
	l.wasWritten()
	l.await(context.Background(), func(time.Duration) <-chan time.Time { t.Fatal("it has been written"); return nil })
}

// newsOf plays a run and returns the steps of its periods: step, phase, seconds; sent, completed, errors and overflows, cancelled, in flight; sessions
// sent, completed, cancelled.
func newsOf(t *testing.T, o Options, script func(sentTurn) answerTo, prepare ...func(*virtualRun)) (steps []string, flags []string, targets []PhaseTarget) {
	o.Phase = func(n PhaseNews) {
		steps = append(steps, fmt.Sprintf("%d %s %g: %d %d %d %d %d; %d %d %d", n.Step, n.Phase[:1], n.Elapsed.Seconds(),
			n.Requests, n.Completed, n.Errors+n.Overflows, n.Cancelled, n.InFlight, n.Sessions.Sent, n.Sessions.Completed, n.Sessions.Cancelled))
		if n.Step == PhaseBegun {
			targets = append(targets, n.Target)
		}
		if n.Step != PhaseGoesOn {
			flags = append(flags, fmt.Sprintf("%d %s %t %t", n.Step, n.Phase[:1], n.TimedOut, n.Ended))
		}
	}
	_, _ = virtually(t, o, script, prepare...)
	return steps, flags, targets
}

// A period tells its steps as one, also where it has several phases: what primers and the pressure stage sent, and the sessions that
// both were parts of. Sending is complete with the last request of the target, or with the duration.
func TestPhaseNews(t *testing.T) {
	c := recorded(t, recording("s", call{at: 0, took: 1}, call{at: 50, took: 1}),
		recording("long", call{at: 0, took: 1}, call{at: 10, took: 1}, call{at: 20, took: 1}, call{at: 30, took: 1}))
	o := warming(t, c, preset.AgentX, Warmup{Requests: 2, Grace: 100 * time.Second})
	o.Concurrency, o.Duration, o.Grace, o.Limits.LaneStart, o.StatsInterval = 2, 12*time.Second, 3*time.Second, Off, 5*time.Second
	script := func(s sentTurn) answerTo {
		switch {
		case s.name == measure.WarmupPhase:
			return answerTo{takes: time.Second}
		case s.trace == "s":
			return answerTo{takes: time.Second, category: wire.HTTPStatus}
		}
		return answerTo{never: true}
	}
	steps, flags, targets := newsOf(t, o, script, at(25, 5))
	require.Equal(t, []PhaseTarget{{Requests: 6}, {Duration: 12 * time.Second}}, targets)
	require.Equal(t, []string{
		"0 w 0: 0 0 0 0 0; 0 0 0", "1 w 5: 2 1 0 0 1; 2 0 0", // long#0 5 s after s#0: both t* at 10 s
		"2 w 7: 6 4 0 0 2; 3 1 0", "3 w 8: 6 6 0 0 0; 3 1 0", // 6 s: s#1 and long#1; then s, which is over, begins again
		"0 p 0: 0 0 0 0 0; 0 0 0", "1 p 5: 1 0 0 0 1; 1 0 0", "1 p 10: 1 0 0 0 1; 1 0 0",
		"2 p 12: 1 0 0 0 1; 1 0 0", "1 p 15: 1 0 0 0 1; 1 0 0", "3 p 15: 1 0 0 1 0; 1 0 1", // the last turn of long is cancelled
	}, steps)
	require.Equal(t, []string{"0 w false false", "2 w false false", "3 w false false", "0 p false false", "2 p true false", "3 p true false"}, flags)
}

// A root that waits for its children when the measured period begins holds its lane, as in the harness. An interrupt ends a period, and
// what failed or overflowed has completed.
func TestPhaseNewsOfAnInterrupt(t *testing.T) {
	o := warming(t, recorded(t, mixed("m")), preset.AgentX, Warmup{Primers: true, Grace: 100 * time.Second})
	o.Limits.LaneStart, o.StatsInterval, o.Requests = Off, 10*time.Second, 3
	script := func(s sentTurn) answerTo {
		return answerTo{takes: time.Second, category: map[string]wire.Category{"m::sa:a1": wire.Timeout}[s.session]}
	}
	steps, _, targets := newsOf(t, o, func(s sentTurn) answerTo {
		if s.name == measure.WarmupPhase {
			return second(s)
		}
		return script(s)
	}, at(45))
	require.Equal(t, []PhaseTarget{{Requests: 3}, {Requests: 3}}, targets)
	require.Equal(t, []string{
		"0 w 0: 0 0 0 0 0; 0 0 0", "2 w 0: 3 0 0 0 3; 1 0 0", "3 w 1: 3 3 0 0 0; 1 0 0",
		"0 p 0: 0 0 0 0 0; 0 0 0", "1 p 10: 2 1 1 0 0; 1 0 0", // of agents; the root is sent behind them
		"2 p 12: 3 1 1 0 1; 1 0 0", "3 p 13: 3 2 1 0 0; 1 0 0",
	}, steps)

	_, flags, _ := newsOf(t, o, script, at(45), func(v *virtualRun) { v.interruptBefore = 2 })
	require.Equal(t, "3 p false true", flags[len(flags)-1])
}

// A request that fails a warmup ends it: no grace was over, though what else ran was cancelled.
func TestPhaseNewsOfAFailedWarmup(t *testing.T) {
	o := warming(t, recorded(t, mixed("m")), preset.AgentX, Warmup{Primers: true, Grace: 100 * time.Second})
	_, flags, _ := newsOf(t, o, func(s sentTurn) answerTo {
		if s.session == "m" {
			return answerTo{takes: time.Second, category: wire.HTTPStatus}
		}
		return answerTo{never: true}
	}, at(45))
	require.Equal(t, "3 w false true", flags[len(flags)-1])
}

// A phase tells of its periods on time, also while nothing happens. Counts and time go up from its start.
func TestPeriodsAreTold(t *testing.T) {
	const interval = 30*time.Second + 500*time.Millisecond // not at a report of progress, which wakes the loop
	var told []Progress
	o := Options{Concurrency: 2, Duration: 100 * time.Second, Grace: 30 * time.Second, StatsInterval: interval,
		Period: func(p Progress) { told = append(told, p) }}
	s := &simulation{script: func(d conductor.Dispatch) (time.Duration, time.Duration, wire.Category) {
		if d.ID%4 == 3 {
			return time.Second, 0, wire.Timeout
		}
		return time.Second, 0, ""
	}}
	require.NoError(t, s.loop(o, turnsOf{0, time.Second, 50 * time.Second}).run())
	require.Len(t, told, 3)
	for k, p := range told {
		require.Equal(t, measure.ProfilingPhase, p.Phase)
		require.Equal(t, time.Duration(k+1)*interval, p.Elapsed)
	}
	// Each lane: 0, 2, 53, 54, 56 and not at 107.
	require.Equal(t, []int{4, 10, 10}, []int{told[0].Requests, told[1].Requests, told[2].Requests})
	require.Equal(t, []int{3, 8, 8}, []int{told[0].Completed, told[1].Completed, told[2].Completed})
	require.Equal(t, []int{1, 2, 2}, []int{told[0].Errors, told[1].Errors, told[2].Errors})

	told, o.StatsInterval = nil, 0
	require.NoError(t, s.loop(o, turnsOf{0, time.Second}).run())
	require.Empty(t, told)
}
