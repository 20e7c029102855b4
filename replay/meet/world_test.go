package meet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/agentx/agentx/replay/preset"
)

// The command names settings so.
func init() { preset.Prefix = "--" }

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a network of a bubble: what is listened on by address, and how long messages take.
type world struct {
	t         *testing.T
	mu        sync.Mutex
	listeners map[string]*listener
	delay     func() time.Duration // of the next piece; nil: none
	said      []string
	carriers  sync.WaitGroup
}

// inWorld runs a test in a bubble with a network.
func inWorld(t *testing.T, test func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, listeners: map[string]*listener{}}
		test(w)
		w.carriers.Wait()
	})
}

type listener struct {
	w       *world
	address string
	calls   chan net.Conn
	closed  chan struct{}
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.calls:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	if l.w.listeners[l.address] == l {
		delete(l.w.listeners, l.address)
		close(l.closed)
	}
	return nil
}

func (l *listener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 7000} }

func (w *world) listen(address string) (net.Listener, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.listeners[address] != nil {
		return nil, os.NewSyscallError("bind", syscall.EADDRINUSE)
	}
	l := &listener{w, address, make(chan net.Conn), make(chan struct{})}
	w.listeners[address] = l
	return l, nil
}

var errRefused = errors.New("connection refused")

func (w *world) dial(ctx context.Context, address string) (net.Conn, error) {
	w.mu.Lock()
	l := w.listeners[address]
	w.mu.Unlock()
	if l == nil {
		return nil, errRefused
	}
	mine, a := net.Pipe()
	b, theirs := net.Pipe()
	frozen := new(atomic.Bool)
	w.carriers.Go(func() { w.carry(a, b, frozen) })
	w.carriers.Go(func() { w.carry(b, a, frozen) })
	select {
	case l.calls <- &frozenConn{theirs, frozen}:
		return &frozenConn{mine, frozen}, nil
	case <-l.closed:
	case <-ctx.Done():
	}
	mine.Close()
	theirs.Close()
	return nil, errRefused
}

// frozenConn is a connection of which one side can be frozen, as a process is by SIGSTOP: nothing is carried, and nothing ends.
type frozenConn struct {
	net.Conn
	frozen *atomic.Bool
}

// carry moves what is written at one end to the other, each piece after its delay, in order.
func (w *world) carry(from, to net.Conn, frozen *atomic.Bool) {
	type piece struct {
		at   time.Time
		text []byte
	}
	pieces := make(chan piece, 1024)
	w.carriers.Go(func() {
		for p := range pieces {
			time.Sleep(time.Until(p.at))
			if frozen.Load() {
				continue
			}
			if p.text == nil {
				break
			}
			if _, err := to.Write(p.text); err != nil {
				break
			}
		}
		if !frozen.Load() {
			to.Close()
		}
		for range pieces {
		}
	})
	for {
		text := make([]byte, 64<<10)
		n, err := from.Read(text)
		at := time.Now()
		w.mu.Lock()
		if w.delay != nil {
			at = at.Add(w.delay())
		}
		w.mu.Unlock()
		if n > 0 {
			pieces <- piece{at, text[:n]}
		}
		if err != nil {
			pieces <- piece{at: at}
			close(pieces)
			return
		}
	}
}

// jitter makes every piece take up to a duration.
func (w *world) jitter(most time.Duration) {
	draw := rand.New(rand.NewPCG(1, 2))
	w.delay = func() time.Duration { return time.Duration(draw.Int64N(int64(most) + 1)) }
}

const address = "n0:7000"

// options are those of a part in the world.
func (w *world) options(part, of int) Options {
	o := Options{Address: address, Member: Member{
		Part: part, Of: of, Host: fmt.Sprintf("n%d", part), Version: "1.0", Dataset: "key",
		Options: []Option{{"concurrency", "8"}, {"model", "m"}},
	}}
	o.Dial = w.dial
	o.Listen = func(context.Context) (net.Listener, error) { return w.listen(o.Address) }
	o.Notice = w.note(part, "notice")
	o.Warn = w.note(part, "warning")
	return o
}

func (w *world) note(part int, kind string) func(string) {
	return func(text string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.said = append(w.said, fmt.Sprintf("%d: %s: %s", part, kind, text))
	}
}

// joined is a part that has joined, or what it got instead.
type joined struct {
	*Meeting
	err   error
	after time.Duration
}

// join lets parts join, all at once. Those that have joined are closed at the end of the test.
func (w *world) join(ctx context.Context, list ...Options) []joined {
	begin := time.Now()
	got := make([]joined, len(list))
	var wait sync.WaitGroup
	for k, o := range list {
		wait.Go(func() {
			m, err := Join(ctx, o)
			got[k] = joined{m, err, time.Since(begin)}
		})
	}
	wait.Wait()
	return got
}

// all are the options of all parts.
func (w *world) all(of int) (list []Options) {
	for k := range of {
		list = append(list, w.options(k, of))
	}
	return list
}

// meeting lets all parts of a load meet.
func (w *world) meeting(ctx context.Context, of int) []joined {
	got := w.join(ctx, w.all(of)...)
	for _, j := range got {
		require.NoError(w.t, j.err)
	}
	return got
}

// finish ends all parts that are not nil as at the end of a run.
func finish(list []joined) {
	var wait sync.WaitGroup
	for _, j := range list {
		if j.Meeting != nil {
			wait.Go(func() {
				j.Finish(j.Context())
				j.Close()
			})
		}
	}
	wait.Wait()
}

// each calls f for each part at a time, and returns when all have returned.
func each(list []joined, f func(k int, m *Meeting)) {
	var wait sync.WaitGroup
	for k, j := range list {
		if j.Meeting != nil {
			wait.Go(func() { f(k, j.Meeting) })
		}
	}
	wait.Wait()
}

// begin lets all parts begin a phase.
func (w *world) begin(list []joined) {
	each(list, func(_ int, m *Meeting) {
		require.NoError(w.t, m.Begin(m.Context(), "profiling", nil))
		require.NoError(w.t, m.Context().Err())
	})
}

// kill ends a part as kill -9 does: its connections end, and nothing is said.
func kill(m *Meeting) {
	m.mu.Lock()
	for k := range m.parts {
		if l := m.parts[k].link; l != nil {
			_ = l.conn.Close()
		}
	}
	m.mu.Unlock()
	m.Close()
}

// freeze stops the process of a part, as SIGSTOP does, as far as others see it.
func (m *Meeting) freeze() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.parts {
		if p.link != nil {
			p.link.conn.(*frozenConn).frozen.Store(true)
		}
	}
}

// serve is another program on the port of part 0.
func (w *world) serve(use func(net.Conn)) net.Listener {
	l, err := w.listen(address)
	require.NoError(w.t, err)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				use(conn)
				conn.Close()
			}()
		}
	}()
	return l
}

// stranger connects, and returns what it reads after it has said something.
func (w *world) stranger(says string) (net.Conn, func() error) {
	conn, err := w.dial(w.t.Context(), address)
	require.NoError(w.t, err)
	read := func() error {
		_, err := io.Copy(io.Discard, conn)
		conn.Close()
		return err
	}
	if says != "" {
		go conn.Write([]byte(says))
	}
	return conn, read
}
