package replay

import (
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/cachetest"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/report/live"
)

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
