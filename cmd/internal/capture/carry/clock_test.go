package carry

import (
	"bufio"
	"context"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// pipes is a listener whose connections are pipes in memory, so that its waits pass in virtual time.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	c, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (p pipes) Close() error   { return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p pipes) dial(context.Context, string, string) (net.Conn, error) {
	near, far := net.Pipe()
	p <- far
	return near, nil
}

// virtual runs a proxy in a bubble of virtual time, before an upstream of raw bytes, and hands a connection to it over.
func virtual(t *testing.T, script func(c net.Conn, in *bufio.Reader), change func(*Options), body func(t *testing.T, o *notes, dial func() net.Conn)) {
	synctest.Test(t, func(t *testing.T) {
		front, back := make(pipes), make(pipes)
		o := newNotes()
		options := Options{Upstreams: []Upstream{{Scheme: "http", Host: "u"}}, Observer: o, Dial: back.dial}
		if change != nil {
			change(&options)
		}
		p, err := New(options)
		require.NoError(t, err)
		server := p.Server()
		go func() { _ = server.Serve(front) }()
		go func() {
			for c := range back {
				go func() {
					defer c.Close()
					script(c, bufio.NewReader(c))
				}()
			}
		}()
		body(t, o, func() net.Conn {
			c, _ := front.dial(t.Context(), "", "")
			return c
		})
		p.Abort()
		close(front)
		close(back)
		require.NoError(t, server.Close())
		synctest.Wait()
	})
}

// send writes a request without waiting for its reader.
func send(c net.Conn, request string) *bufio.Reader {
	go func() { _, _ = io.WriteString(c, request) }()
	return bufio.NewReader(c)
}

// An upstream without a head of its reply for 600 s is answered 504.
//
// Covers C-23.
func TestUpstreamWithoutHeadIs504(t *testing.T) {
	virtual(t, untilGone, nil, func(t *testing.T, o *notes, dial func() net.Conn) {
		begin := time.Now()
		c := dial()
		m, err := readMessage(send(c, strings.Replace(post, "/v1/messages", "/v1/chat/completions", 1)), false)
		require.NoError(t, err)
		require.Equal(t, "HTTP/1.1 504", m.first)
		require.Contains(t, m.headers, "X-Agentx-Capture-Error: transport")
		require.Equal(t, `{"error":{"message":"agentx capture: the upstream sent no response header in time","type":"timeout_error","param":null,"code":null}}`, m.body)
		require.Equal(t, 600*time.Second, time.Since(begin))
		require.Equal(t, TimedOut, o.one(t).ends[0].Outcome)
		c.Close()
	})
}

// An upstream that takes no connection for 10 s is answered 502.
//
// Covers C-23.
func TestUpstreamThatTakesNoConnectionIs502(t *testing.T) {
	never := func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	virtual(t, untilGone, func(o *Options) { o.Dial = never }, func(t *testing.T, o *notes, dial func() net.Conn) {
		begin := time.Now()
		c := dial()
		m, err := readMessage(send(c, post), false)
		require.NoError(t, err)
		require.Equal(t, "HTTP/1.1 502", m.first)
		require.Contains(t, m.body, "it takes no connection in time")
		require.Equal(t, 10*time.Second, time.Since(begin))
		require.Equal(t, Unreachable, o.one(t).ends[0].Outcome)
		c.Close()
	})
}

// An upstream that does not answer the TLS handshake for 10 s is answered 502.
//
// Covers C-23.
func TestUpstreamWithoutHandshakeIs502(t *testing.T) {
	virtual(t, untilGone, func(o *Options) { o.Upstreams[0].Scheme = "https" }, func(t *testing.T, o *notes, dial func() net.Conn) {
		begin := time.Now()
		c := dial()
		m, err := readMessage(send(c, post), false)
		require.NoError(t, err)
		require.Equal(t, "HTTP/1.1 502", m.first)
		require.Contains(t, m.body, "its TLS handshake took too long")
		require.Equal(t, 10*time.Second, time.Since(begin))
		require.Equal(t, Unreachable, o.one(t).ends[0].Outcome)
		c.Close()
	})
}

// A reply may last for days with hours between its events, and so may a request: nothing bounds a whole exchange.
//
// Covers C-13.
func TestNothingBoundsAWholeExchange(t *testing.T) {
	const n = 24
	virtual(t, func(c net.Conn, in *bufio.Reader) {
		_, _ = readMessage(in, false)
		_, _ = io.WriteString(c, events)
		for range n {
			time.Sleep(5 * time.Hour)
			_, _ = io.WriteString(c, chunk("data: 1\n\n"))
		}
		_, _ = io.WriteString(c, "0\r\n\r\n")
	}, nil, func(t *testing.T, o *notes, dial func() net.Conn) {
		c := dial()
		in := send(c, "POST /v1/messages HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{")
		time.Sleep(100 * time.Hour)
		go func() { _, _ = io.WriteString(c, "}") }()
		m, err := readMessage(in, false)
		require.NoError(t, err)
		require.Equal(t, strings.Repeat("data: 1\n\n", n), m.body)
		require.False(t, m.broken)
		note := o.one(t)
		require.Equal(t, Whole, note.ends[0].Outcome)
		require.Len(t, note.replyAt, n)
		for i, at := range note.replyAt {
			require.Equal(t, 100*time.Hour+time.Duration(i+1)*5*time.Hour, time.Duration(at), "chunk %d", i)
		}
		require.Equal(t, 220*time.Hour, time.Duration(note.ends[0].At))
		c.Close()
	})
}

// An upstream that is silent in mid-reply longer than the limit is broken off, where it fell silent; a client that reads
// slowly is no silence.
//
// Covers C-23.
func TestStallBreaksTheReply(t *testing.T) {
	virtual(t, func(c net.Conn, in *bufio.Reader) {
		_, _ = readMessage(in, false)
		_, _ = io.WriteString(c, events)
		for range 3 {
			time.Sleep(59 * time.Second)
			_, _ = io.WriteString(c, chunk("data: 1\n\n"))
		}
		untilGone(c, in)
	}, func(o *Options) { o.Stall = time.Minute }, func(t *testing.T, o *notes, dial func() net.Conn) {
		c := dial()
		begin := time.Now()
		in := send(c, post)
		_, err := in.Peek(1)
		require.NoError(t, err)
		time.Sleep(10 * time.Minute) // the proxy's write of the first event waits as long
		m, err := readMessage(in, false)
		require.NoError(t, err)
		require.True(t, m.broken)
		require.Equal(t, strings.Repeat("data: 1\n\n", 3), m.body)
		require.Equal(t, 10*time.Minute+59*time.Second+time.Minute, time.Since(begin)) // two events lay ready
		require.Equal(t, Broken, o.one(t).ends[0].Outcome)
		c.Close()
	})
}

// Kept connections to the upstream serve again for 4 s, less than its own 5 s.
func TestIdleConnectionsCloseBeforeTheUpstreamDoes(t *testing.T) {
	var opened atomic.Int32
	virtual(t, func(c net.Conn, in *bufio.Reader) {
		opened.Add(1)
		for {
			if _, err := readMessage(in, false); err != nil {
				return
			}
			_, _ = io.WriteString(c, plain)
		}
	}, nil, func(t *testing.T, o *notes, dial func() net.Conn) {
		c := dial()
		for _, want := range []int32{1, 1, 2} {
			m, err := readMessage(send(c, post), false)
			require.NoError(t, err)
			require.Equal(t, "ok", m.body)
			o.one(t)
			require.Equal(t, want, opened.Load())
			time.Sleep(3900 * time.Millisecond)
			if want == 1 && opened.Load() == 1 && len(o.list) == 2 {
				time.Sleep(200 * time.Millisecond)
			}
		}
		c.Close()
	})
}

// A request with Expect to an upstream that never says 100 is sent after a second.
//
// Covers C-12.
func TestContinueIsNotWaitedForForEver(t *testing.T) {
	virtual(t, says(plain), nil, func(t *testing.T, o *notes, dial func() net.Conn) {
		c := dial()
		begin := time.Now()
		in := send(c, "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc")
		for _, want := range []string{"HTTP/1.1 100", "HTTP/1.1 200"} {
			m, err := readMessage(in, false)
			require.NoError(t, err)
			require.Equal(t, want, m.first)
		}
		require.Equal(t, time.Second, time.Since(begin))
		require.Equal(t, "abc", string(o.one(t).request))
		c.Close()
	})
}

// A client that waits for 100 gets one, also when the upstream says 100 after the proxy has.
//
// Covers C-12.
func TestContinueComesOnce(t *testing.T) {
	virtual(t, func(c net.Conn, in *bufio.Reader) {
		readHead(in)
		time.Sleep(2 * time.Second)
		_, _ = io.WriteString(c, "HTTP/1.1 100 Continue\r\n\r\n")
		_, _ = io.ReadFull(in, make([]byte, 3))
		_, _ = io.WriteString(c, plain)
	}, nil, func(t *testing.T, o *notes, dial func() net.Conn) {
		c := dial()
		in := send(c, "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc")
		for _, want := range []string{"HTTP/1.1 100", "HTTP/1.1 200"} {
			m, err := readMessage(in, false)
			require.NoError(t, err)
			require.Equal(t, want, m.first)
		}
		o.one(t)
		c.Close()
	})
}

// The end of an exchange whose client left is when it left; that of another, when the upstream's last byte came.
//
// Covers C-23.
func TestEndsHaveTheirTime(t *testing.T) {
	virtual(t, func(c net.Conn, in *bufio.Reader) {
		_, _ = readMessage(in, false)
		_, _ = io.WriteString(c, events+chunk("data: 1\n\n"))
		time.Sleep(time.Minute)
	}, nil, func(t *testing.T, o *notes, dial func() net.Conn) {
		c := dial()
		go func() { _, _ = io.Copy(io.Discard, send(c, post)) }()
		time.Sleep(5 * time.Second)
		c.Close()
		n := o.one(t)
		require.Equal(t, Left, n.ends[0].Outcome)
		require.Equal(t, 5*time.Second, time.Duration(n.ends[0].At))

		c = dial()
		m, err := readMessage(send(c, post), false)
		require.NoError(t, err)
		require.True(t, m.broken)
		n = o.one(t)
		require.Equal(t, Broken, n.ends[0].Outcome)
		require.Equal(t, 5*time.Second, time.Duration(n.ends[0].At))
		c.Close()
	})
}

// A request in chunks leaves at once, whatever its method: net/http would wait for its first byte.
//
// Covers C-13.
func TestChunkedRequestsLeaveAtOnce(t *testing.T) {
	began := make(chan time.Time, 1)
	virtual(t, func(c net.Conn, in *bufio.Reader) {
		_, _ = in.Peek(1)
		began <- time.Now()
		_, _ = readMessage(in, false)
		_, _ = io.WriteString(c, plain)
	}, nil, func(t *testing.T, o *notes, dial func() net.Conn) {
		c := dial()
		begin := time.Now()
		in := send(c, "GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n")
		time.Sleep(time.Minute)
		go func() { _, _ = io.WriteString(c, "3\r\nabc\r\n0\r\n\r\n") }()
		_, err := readMessage(in, false)
		require.NoError(t, err)
		require.Equal(t, begin, <-began)
		o.one(t)
		c.Close()
	})
}

// The steps that the proxy adds to are told in virtual time: none takes any here. What a client takes to upload is not added, though the
// proxy waits for it where bodies are held.
func TestAddedTimesAreTold(t *testing.T) {
	for _, hold := range []bool{false, true} {
		testAddedTimes(t, hold)
	}
}

func testAddedTimes(t *testing.T, hold bool) {
	var told [3]atomic.Int32
	virtual(t, func(c net.Conn, in *bufio.Reader) {
		_, _ = readMessage(in, false)
		_, _ = io.WriteString(c, events+chunk("data: 1\n\n")+chunk("data: 2\n\n")+"0\r\n\r\n")
	}, func(o *Options) {
		o.Added = func(stage Stage, nanoseconds int64) {
			if nanoseconds == 0 {
				told[stage].Add(1)
			}
		}
	}, func(t *testing.T, o *notes, dial func() net.Conn) {
		o.course.Hold = hold
		c := dial()
		in := send(c, "POST /v1/messages HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n")
		time.Sleep(time.Minute)
		go func() { _, _ = io.WriteString(c, "{}") }()
		_, err := readMessage(in, false)
		require.NoError(t, err)
		o.one(t)
		require.Equal(t, int32(1), told[Dispatch].Load())
		require.Equal(t, int32(1), told[FirstByte].Load())
		require.Positive(t, told[Flush].Load())
		c.Close()
	})
}
