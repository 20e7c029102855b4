package wire

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Covers T-40.
func TestHeadOnTheWire(t *testing.T) {
	heads := make(chan string, 3)
	var bodies []string
	url := serve(t, func(p *peer) {
		for range 3 {
			head, body := p.request()
			heads <- head
			bodies = append(bodies, string(body))
			p.say(sized(eventHead, goodStream))
		}
	})
	host := strings.TrimPrefix(url, "http://")
	c := newClient(t, url+"/api/v1/?key=1", Options{APIKey: "k", Header: []HeaderField{{"X-A", "common"}, {"x-a", "later"}}})
	res := post(c)
	require.Nil(t, res.Err)
	require.Equal(t, "POST /api/v1/chat/completions?key=1 HTTP/1.1\r\nHost: "+host+"\r\nUser-Agent: agentx\r\nAuthorization: Bearer k\r\n"+
		"x-a: later\r\nAccept: text/event-stream\r\nContent-Type: application/json\r\nContent-Length: 15\r\n\r\n", <-heads)
	res = c.Do(context.Background(), &Request{
		Path: "/other", Header: []HeaderField{{"X-Request-ID", "7"}, {"X-A", "own"}, {"user-agent", "me"}}, Body: textBody(""),
	})
	require.Nil(t, res.Err)
	require.Equal(t, "POST /api/v1/other?key=1 HTTP/1.1\r\nHost: "+host+"\r\nAuthorization: Bearer k\r\n"+
		"x-a: later\r\nX-Request-ID: 7\r\nuser-agent: me\r\nAccept: application/json\r\nContent-Type: application/json\r\nContent-Length: 0\r\n\r\n", <-heads)
	res = c.Do(context.Background(), &Request{Path: "/x", Body: manyPieces{"ab", "", "c"}})
	require.Nil(t, res.Err)
	<-heads
	require.Equal(t, []string{`{"messages":[]}`, "", "abc"}, bodies)
	require.True(t, res.Reused)
}

// Fields of the same name, in any letter case: those of a session precede those of the user, which precede the ids of a
// request, which precede the client's own.
//
// Covers T-40.
func TestHeaderPrecedence(t *testing.T) {
	ids := []HeaderField{{"X-Request-ID", "r"}, {"X-Correlation-ID", "c"}}
	for _, test := range []struct {
		name            string
		options         Options
		header, session []HeaderField
		before, after   string // of Accept and Content-Type
	}{
		{"ids alone", Options{}, ids, nil, "User-Agent: agentx\r\nX-Request-ID: r\r\nX-Correlation-ID: c\r\n", ""},
		{"session", Options{}, ids, []HeaderField{{"X-Session-Affinity", "c"}}, "User-Agent: agentx\r\nX-Request-ID: r\r\nX-Correlation-ID: c\r\n", "X-Session-Affinity: c\r\n"},
		{"the user's precede ids", Options{Header: []HeaderField{{"x-REQUEST-id", "mine"}}}, ids, nil,
			"User-Agent: agentx\r\nx-REQUEST-id: mine\r\nX-Correlation-ID: c\r\n", ""},
		{"the user's agent", Options{Header: []HeaderField{{"user-agent", "me"}}}, ids, nil,
			"user-agent: me\r\nX-Request-ID: r\r\nX-Correlation-ID: c\r\n", ""},
		{"ids precede the client's own", Options{}, []HeaderField{{"User-AGENT", "r"}}, nil, "User-AGENT: r\r\n", ""},
		{"the user's agent precedes ids", Options{Header: []HeaderField{{"User-Agent", "agentx"}}}, []HeaderField{{"User-AGENT", "r"}}, nil, "User-Agent: agentx\r\n", ""},
		{"a session precedes the user's", Options{Header: []HeaderField{{"x-session-id", "mine"}, {"X-B", "b"}}}, ids, []HeaderField{{"X-Session-ID", "c"}},
			"User-Agent: agentx\r\nX-B: b\r\nX-Request-ID: r\r\nX-Correlation-ID: c\r\n", "X-Session-ID: c\r\n"},
		{"a session precedes ids", Options{}, ids, []HeaderField{{"x-correlation-id", "s"}}, "User-Agent: agentx\r\nX-Request-ID: r\r\n", "x-correlation-id: s\r\n"},
		{"a session precedes a key", Options{APIKey: "k"}, ids, []HeaderField{{"authorization", "s"}, {"USER-agent", "u"}},
			"X-Request-ID: r\r\nX-Correlation-ID: c\r\n", "authorization: s\r\nUSER-agent: u\r\n"},
		{"a header precedes a key", Options{APIKey: "k", Header: []HeaderField{{"AUTHORIZATION", "mine"}}}, nil, nil, "User-Agent: agentx\r\nAUTHORIZATION: mine\r\n", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newClient(t, "http://host", test.options)
			r := &Request{Path: "/v1/x", Header: test.header, Affinity: test.session, Body: textBody("{}"), Stream: true}
			require.NoError(t, r.Validate())
			head := (&call{Client: c, request: r}).appendHead(nil)
			require.Equal(t, "POST /v1/x HTTP/1.1\r\nHost: host\r\n"+test.before+"Accept: text/event-stream\r\nContent-Type: application/json\r\n"+
				test.after+"Content-Length: 2\r\n\r\n", string(head))
		})
	}
	require.Error(t, (&Request{Path: "/", Body: textBody(""), Affinity: []HeaderField{{"Accept", "x"}}}).Validate())
}

type manyPieces []string

func (b manyPieces) Size() int64 { return int64(len(strings.Join(b, ""))) }
func (b manyPieces) WriteTo(w io.Writer) (n int64, err error) {
	for _, s := range b {
		k, err := io.WriteString(w, s)
		if n += int64(k); err != nil {
			return n, err
		}
	}
	return n, nil
}

func TestResultOfAGoodRequest(t *testing.T) {
	response := chunked(eventHead, goodStream, 50)
	var told []time.Duration
	c := newClient(t, serve(t, answer(response)), Options{Epoch: time.Now()})
	res := c.Do(context.Background(), &Request{
		Path: "/v1/chat/completions", Stream: true, Body: textBody("0123456789"),
		OnFirstToken: func(at time.Duration) { told = append(told, at) },
	})
	require.Nil(t, res.Err)
	require.Equal(t, 200, res.Status)
	require.Equal(t, 2, res.Chunks)
	require.Equal(t, "length", res.FinishReason)
	require.EqualValues(t, 2, res.Usage.OSL())
	require.EqualValues(t, len(response), res.BytesReceived)
	require.Greater(t, res.BytesSent, int64(100))
	require.False(t, res.Reused)
	require.Equal(t, []time.Duration{res.FirstToken}, told)
	order := []time.Duration{
		0, res.Sent, res.FirstToken, res.SecondToken, res.LastToken, res.LastMessage, res.End,
	}
	require.IsNonDecreasing(t, order)
	require.Equal(t, res.FirstToken, res.FirstOutput)
}

// A request says that it has been written, before its answer and whatever the answer is.
//
// Covers T-153.
func TestOnWritten(t *testing.T) {
	var told []string
	tell := func(what string) func() { return func() { told = append(told, what) } }
	c := newClient(t, serve(t, func(p *peer) {
		p.request()
		p.say(chunked(eventHead, goodStream, 50))
		p.request()
		p.say("HTTP/1.1 500 no\r\nContent-Length: 0\r\n\r\n")
	}), Options{})
	for range 2 {
		c.Do(context.Background(), &Request{Path: "/", Stream: true, Body: textBody("0123456789"), OnWritten: tell("written"), OnFirstToken: func(time.Duration) { tell("token")() }})
	}
	require.Equal(t, []string{"written", "token", "written"}, told)
}

func TestKeepAlive(t *testing.T) {
	url := serve(t,
		func(p *peer) {
			for _, response := range []string{
				sized(eventHead, goodStream), sized(eventHead, goodStream), sized("HTTP/1.1 500 Oops\r\n", "no"),
				sized("HTTP/1.1 404 Not Found\r\n", strings.Repeat("x", 100<<10)), chunked(eventHead, "data: {\"error\":1}\n\n"+doneEvent, 9),
				sized("HTTP/1.1 500 Oops\r\nConnection: close\r\n", "no"),
			} {
				p.request()
				p.say(response)
			}
		},
		answer(eventHead, "Connection: close\r\n\r\n", goodStream),
		answer("HTTP/1.1 500 Oops\r\n\r\nuntil the end"),
		answer(sized("HTTP/1.1 500 Oops\r\n", strings.Repeat("x", maxErrorBody+1))), // more than is read
		answer(sized(eventHead, goodStream)),
	)
	c := newClient(t, url, Options{})
	var got []string
	for range 10 {
		res := post(c)
		got = append(got, fmt.Sprint(res.Status, res.Reused, res.Resent))
	}
	require.Equal(t, []string{
		"200 false false", "200 true false", "500 true false", "404 true false", "200 true false", "500 true false",
		"200 false false", "500 false false", "500 false false", "200 false false",
	}, got)
}

// The client waits for the body of an error answer for errorWait, not until the timeout of the request.
func TestStalledErrorBody(t *testing.T) {
	over := make(chan struct{})
	c := newClient(t, serve(t, func(p *peer) {
		p.request()
		p.say("HTTP/1.1 500 Oops\r\nContent-Length: 100\r\n\r\nout of memory\n")
		<-over
	}), Options{})
	require.Equal(t, 30*time.Second, c.errorWait)
	c.errorWait = time.Millisecond
	res := post(c)
	close(over)
	require.Equal(t, &Failure{HTTPStatus, 500, "500 Oops: out of memory: the rest of the body did not come within 1ms"}, res.Err)
	require.Nil(t, c.idle.get("", c.now()), "it is not kept")
}

// The deadline of an error body does not replace the abort of a request that was cancelled, or whose server has stalled.
func TestLimitKeepsAnAbort(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cn := dialPair(t)
	cn.stop = cn.abort
	cancel()
	(&call{ctx: ctx}).limitRead(cn, time.Hour)
	_, err := cn.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)

	cn.SetDeadline(time.Time{}) //nolint:errcheck // the pair is open
	cn.stalled.Store(true)
	(&call{ctx: t.Context()}).limitRead(cn, time.Hour)
	_, err = cn.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
}

// [DONE] ends the request, also when the server leaves the body open.
func TestDoneEndsAnAnswer(t *testing.T) {
	over := make(chan struct{})
	open := func(p *peer) {
		p.request()
		p.say(eventHead, "Transfer-Encoding: chunked\r\n\r\n", fmt.Sprintf("%x\r\n%s\r\n", len(goodStream), goodStream))
		<-over
	}
	c := newClient(t, serve(t, open, open, answer(chunked(eventHead, goodStream, 9))), Options{Timeout: -1})
	for range 2 {
		res := post(c)
		require.Nil(t, res.Err)
		require.False(t, res.Reused, "the connection is not kept")
		require.Equal(t, res.LastMessage, res.End)
		require.True(t, c.endsLate.Load(), "the next one is not waited for as long")
	}
	close(over)
	require.Nil(t, post(c).Err)
	require.False(t, c.endsLate.Load())
}

// What follows [DONE] is waited for at most 100 ms.
func TestRestIsNotWaitedForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		p := &pieces{list: [][]byte{[]byte(eventHead + "Content-Length: 9999\r\n\r\n" + goodStream)}}
		res, clean := exchangeOn(t, Options{}, p)
		require.Nil(t, res.Err)
		require.False(t, clean)
		require.Equal(t, []time.Time{start.Add(100 * time.Millisecond)}, p.deadlines)
	})
}

// A body that ends soon after [DONE] leaves the connection usable.
func TestRestAfterDone(t *testing.T) {
	c := newClient(t, serve(t, func(p *peer) {
		for range 2 {
			p.request()
			p.say(eventHead, "Transfer-Encoding: chunked\r\n\r\n", fmt.Sprintf("%x\r\n%s\r\n", len(goodStream), goodStream))
			p.say("1\r\n\n\r\n0\r\n\r\n")
		}
	}), Options{})
	require.Nil(t, post(c).Err)
	res := post(c)
	require.Nil(t, res.Err)
	require.True(t, res.Reused)
}

// A kept connection that the server has closed is noticed before the request is sent.
func TestClosedConnectionIsNotUsed(t *testing.T) {
	url := serve(t, answer(sized(eventHead, goodStream)), answer(sized(eventHead, goodStream)))
	c := newClient(t, url, Options{})
	require.Nil(t, post(c).Err)
	cn := c.idle.pop("")
	for deadline := time.Now().Add(5 * time.Second); cn.alive() && time.Now().Before(deadline); {
		runtime.Gosched()
	}
	c.idle.put("", cn, c.now())
	res := post(c)
	require.Nil(t, res.Err)
	require.False(t, res.Reused)
	require.False(t, res.Resent)
}

// A request is sent again when the server closes a kept connection before it has read the body: it cannot have served it.
func TestHalfARequestIsResent(t *testing.T) {
	url := serve(t, func(p *peer) {
		answer(sized(eventHead, goodStream))(p)
		p.in.ReadString('\n')
	}, answer(sized(eventHead, goodStream)))
	c := newClient(t, url, Options{})
	require.Nil(t, post(c).Err)
	res := c.Do(context.Background(), &Request{Path: "/", Stream: true, Body: zeros(64 << 20)})
	require.Nil(t, res.Err)
	require.True(t, res.Resent)
	require.False(t, res.Reused)
	require.Greater(t, res.BytesSent, int64(64<<20), "both attempts")
	require.IsNonDecreasing(t, []time.Duration{res.Sent, res.FirstToken, res.End})
}

// A request is sent again once: a new connection that breaks is a failure.
func TestResentOnlyOnce(t *testing.T) {
	hangUp := func(p *peer) { p.in.ReadString('\n') }
	c := newClient(t, serve(t, func(p *peer) { answer(sized(eventHead, goodStream))(p); hangUp(p) }, hangUp), Options{})
	require.Nil(t, post(c).Err)
	res := c.Do(context.Background(), &Request{Path: "/", Stream: true, Body: zeros(64 << 20)})
	require.Equal(t, Connection, res.Err.Category)
	require.True(t, res.Resent)
}

// A request is sent again, with the same ids, when the server closes a kept connection before the first byte of an answer. It is
// not after that byte.
func TestUnansweredRequestIsResent(t *testing.T) {
	for name, c := range map[string]struct {
		end    func(p *peer)
		resent bool
	}{
		"closed":          {func(*peer) {}, true},
		"reset":           {func(p *peer) { p.SetLinger(0) }, true}, //nolint:errcheck // makes the close a reset
		"began to answer": {func(p *peer) { p.say("HTTP") }, false},
	} {
		t.Run(name, func(t *testing.T) {
			heads, came := make(chan string, 2), make(chan time.Duration, 2)
			epoch := time.Now()
			take := func(p *peer) {
				head, _ := p.request()
				heads <- head
				came <- time.Since(epoch)
			}
			first := func(p *peer) {
				answer(sized(eventHead, goodStream))(p)
				take(p)
				c.end(p)
			}
			again := func(p *peer) { take(p); p.say(sized(eventHead, goodStream)) }
			scripts := []func(*peer){first}
			if c.resent {
				scripts = append(scripts, again)
			}
			client := newClient(t, serve(t, scripts...), Options{Epoch: epoch})
			require.Nil(t, post(client).Err)
			res := client.Do(context.Background(), &Request{Path: "/", Stream: true, Body: textBody("{}"), Header: []HeaderField{{"X-Request-ID", "7"}}})
			require.Equal(t, c.resent, res.Resent)
			require.Equal(t, !c.resent, res.Reused)
			if !c.resent {
				require.Equal(t, Connection, res.Err.Category)
				return
			}
			require.Nil(t, res.Err)
			require.Equal(t, <-heads, <-heads)
			require.Less(t, res.Sent, <-came, "the first attempt")
		})
	}
}

// A server that closes the connection after every answer without notice loses no request, whether the close arrives before the
// next request is sent or while it is on its way.
func TestClosingServer(t *testing.T) {
	const n = 27
	scripts := make([]func(*peer), n)
	for i := range scripts {
		scripts[i] = func(p *peer) {
			answer(chunked(eventHead+"Keep-Alive: timeout=5, max=100\r\n", goodStream, 1000))(p)
			if i%2 == 0 {
				p.in.Peek(1) // the next request is on its way
			}
		}
	}
	c := newClient(t, serve(t, scripts...), Options{})
	for i := range n {
		res := post(c)
		require.Nil(t, res.Err, "request %d", i)
		require.False(t, res.Reused)
		require.Equal(t, i%2 == 1, res.Resent, "request %d", i)
		if i%2 == 1 { // the close arrives
			cn := c.idle.pop("")
			for deadline := time.Now().Add(5 * time.Second); cn.alive() && time.Now().Before(deadline); {
				runtime.Gosched()
			}
			c.idle.put("", cn, c.now())
		}
	}
	c.Close()
}

// The pool checks an idle connection: one that the server has closed is not used.
func TestIdleConnectionIsLookedAt(t *testing.T) {
	closed := make(chan struct{})
	c := newClient(t, serve(t, func(p *peer) {
		answer(sized(eventHead, goodStream))(p)
		<-closed
	}), Options{})
	require.Nil(t, post(c).Err)
	now := c.now()
	cn := c.idle.get("", now+DefaultKeepAlive/2)
	require.NotNil(t, cn, "quiet and open")
	close(closed)
	for deadline := time.Now().Add(5 * time.Second); cn.alive() && time.Now().Before(deadline); {
		runtime.Gosched()
	}
	c.idle.put("", cn, now)
	require.Nil(t, c.idle.get("", now+DefaultKeepAlive/2), "closed by the server")
}

func TestIdleLimits(t *testing.T) {
	url := serve(t, answer(sized(eventHead, goodStream)), answer(sized(eventHead, goodStream)))
	c := newClient(t, url, Options{})
	require.Nil(t, post(c).Err)
	require.Nil(t, c.idle.get("", c.now()+DefaultKeepAlive), "idle for too long")
	c.Close()
	require.Nil(t, post(c).Err)
	require.Nil(t, c.idle.get("", c.now()), "closed clients keep nothing")

	p := pool{keep: time.Second}
	old, young := dialPair(t), dialPair(t)
	p.put("", old, 0)
	p.put("", young, time.Second)
	require.Equal(t, []*conn{young}, p.idle[""], "what was idle for too long is closed")
	require.ErrorIs(t, old.SetDeadline(time.Time{}), net.ErrClosed)

	newest := dialPair(t)
	p.put("", newest, time.Second)
	require.Same(t, newest, p.get("", time.Second), "the one that was used last")

	c = newClient(t, url, Options{KeepAlive: -1})
	c.idle.put("", young, 0)
	require.Nil(t, c.idle.get("", 0), "nothing is kept")
	require.Equal(t, 4*time.Second, newClient(t, url, Options{}).idle.keep)
}

// dialPair is a connection whose other end is open until the test ends.
func dialPair(t *testing.T) *conn {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	nc, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	other, err := l.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { nc.Close(); other.Close() })
	return &conn{Conn: nc, raw: nc}
}

// zeros is a large body in pieces of 64 KiB.
type zeros int64

func (b zeros) Size() int64 { return int64(b) }
func (b zeros) WriteTo(w io.Writer) (n int64, err error) {
	buf := make([]byte, 64<<10)
	for n < int64(b) && err == nil {
		var k int
		k, err = w.Write(buf[:min(int64(len(buf)), int64(b)-n)])
		n += int64(k)
	}
	return n, err
}

// A server that refuses a body larger than all socket buffers and closes the connection is heard: its status wins over the
// broken write.
func TestEarlyAnswer(t *testing.T) {
	c := newClient(t, serve(t, func(p *peer) {
		p.in.ReadString('\n')
		p.say(sized("HTTP/1.1 413 Content Too Large\r\n", `{"error":"too long for us"}`))
	}), Options{})
	res := c.Do(context.Background(), &Request{Path: "/", Body: zeros(256 << 20)})
	require.Equal(t, &Failure{HTTPStatus, 413, `413 Content Too Large: {"error":"too long for us"}`}, res.Err)
	require.Less(t, res.BytesSent, int64(256<<20))
}

func TestBrokenWrite(t *testing.T) {
	c := newClient(t, serve(t, func(p *peer) { p.in.ReadString('\n') }), Options{})
	res := c.Do(context.Background(), &Request{Path: "/", Body: zeros(256 << 20)})
	require.Equal(t, Connection, res.Err.Category)
	require.Zero(t, res.Status)
}

// Covers T-56.
func TestRefused(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l.Close()
	c := newClient(t, "http://"+l.Addr().String(), Options{})
	res := post(c)
	require.Equal(t, Connection, res.Err.Category)
	require.Contains(t, res.Err.Message, "refused")
	require.Zero(t, res.BytesSent)
	require.GreaterOrEqual(t, res.End, res.Sent)
}

func TestReset(t *testing.T) {
	c := newClient(t, serve(t, func(p *peer) {
		p.request()
		p.say(eventHead, "Content-Length: 9999\r\n\r\n", event1("a"))
		p.SetLinger(0) //nolint:errcheck // makes the close a reset
	}), Options{})
	res := post(c)
	require.Equal(t, Connection, res.Err.Category)
}

// TestCancel cancels a blocked request: the server neither reads nor answers.
func TestCancel(t *testing.T) {
	for name, body := range map[string]Body{"while reading": textBody("{}"), "while writing": zeros(256 << 20)} {
		t.Run(name, func(t *testing.T) {
			over := make(chan struct{})
			ctx, cancel := context.WithCancelCause(context.Background())
			c := newClient(t, serve(t, func(p *peer) {
				p.in.ReadString('\n')
				cancel(errors.New("the run is over"))
				<-over
			}), Options{})
			res := c.Do(ctx, &Request{Path: "/", Body: body})
			close(over)
			require.Equal(t, &Failure{Cancelled, 0, "the run is over"}, res.Err)
			require.Nil(t, c.idle.get("", c.now()), "a cancelled connection is not kept")
		})
	}
}

func TestCancelledBefore(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	res := newClient(t, "http://127.0.0.1:1", Options{}).Do(ctx, &Request{Path: "/", Body: textBody("")})
	require.Equal(t, Cancelled, res.Err.Category)
	require.GreaterOrEqual(t, res.End, res.Sent)
}

// TestCancelStorm cancels at arbitrary moments. The request ends either way, and no connection is kept with a deadline in the
// past.
func TestCancelStorm(t *testing.T) {
	url := echo(t)
	c := newClient(t, url, Options{})
	for range 200 {
		ctx, cancel := context.WithCancel(context.Background())
		go cancel()
		res := c.Do(ctx, &Request{Path: "/", Stream: true, Body: textBody("{}")})
		if res.Err != nil {
			require.Equal(t, Cancelled, res.Err.Category, res.Err.Message)
		}
		res = c.Do(context.Background(), &Request{Path: "/", Stream: true, Body: textBody("{}")})
		require.Nil(t, res.Err)
	}
}

// Covers T-56.
func TestTimeout(t *testing.T) {
	for name, body := range map[string]Body{"while reading": textBody("{}"), "while writing": zeros(256 << 20)} {
		t.Run(name, func(t *testing.T) {
			over := make(chan struct{})
			c := newClient(t, serve(t, func(*peer) { <-over }), Options{Timeout: 20 * time.Millisecond})
			res := c.Do(context.Background(), &Request{Path: "/", Body: body})
			close(over)
			require.Equal(t, Timeout, res.Err.Category)
			require.GreaterOrEqual(t, res.End-res.Sent, 20*time.Millisecond)
		})
	}
	for name, ctx := range map[string]context.Context{
		"of the context":                     ended(t),
		"of the context, which says so late": lateContext{t.Context(), time.Now()},
	} {
		t.Run(name, func(t *testing.T) {
			over := make(chan struct{})
			c := newClient(t, serve(t, func(*peer) { <-over }), Options{Timeout: -1})
			res := c.Do(ctx, &Request{Path: "/", Body: textBody("{}")})
			close(over)
			require.Equal(t, Timeout, res.Err.Category)
		})
	}
	t.Run("of the context, while reading", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		over := make(chan struct{})
		c := newClient(t, serve(t, func(*peer) { <-over }), Options{Timeout: -1})
		res := c.Do(ctx, &Request{Path: "/", Body: textBody("{}")})
		close(over)
		require.Equal(t, Timeout, res.Err.Category)
	})
}

// ended is a context whose deadline has passed.
func ended(t *testing.T) context.Context {
	ctx, cancel := context.WithDeadline(t.Context(), time.Unix(1, 0))
	t.Cleanup(cancel)
	return ctx
}

// lateContext is a context whose deadline has passed and whose timer has not fired yet, as on a busy machine.
type lateContext struct {
	context.Context
	deadline time.Time
}

func (c lateContext) Deadline() (time.Time, bool) { return c.deadline, true }

// oddBody announces a size and writes something else.
type oddBody struct {
	size  int64
	write func(w io.Writer) (int64, error)
}

func (b oddBody) Size() int64                        { return b.size }
func (b oddBody) WriteTo(w io.Writer) (int64, error) { return b.write(w) }

func TestBodyFailures(t *testing.T) {
	for _, c := range []struct {
		name    string
		body    Body
		message string
	}{
		{"none", nil, "request has no body"},
		{"negative", oddBody{size: -1}, "request body has size -1"},
		{"short", oddBody{3, func(w io.Writer) (int64, error) { n, err := w.Write([]byte("x")); return int64(n), err }}, "request body ended 2 bytes early"},
		{"long", oddBody{3, func(w io.Writer) (int64, error) { n, err := w.Write([]byte("four")); return int64(n), err }}, "request body is longer than it announced"},
		{"fails", oddBody{3, func(io.Writer) (int64, error) { return 0, errors.New("no such block") }}, "request body: no such block"},
		{"panics", oddBody{3, func(io.Writer) (int64, error) { panic("ouch") }}, "request body: panic: ouch"},
		{"index", oddBody{3, func(io.Writer) (int64, error) { return int64([]byte(nil)[len(t.Name())]), nil }}, "request body: panic: runtime error: index out of range"},
	} {
		t.Run(c.name, func(t *testing.T) {
			client := newClient(t, serve(t, func(p *peer) { io.Copy(io.Discard, p.in) }), Options{})
			if c.body == nil || c.body.Size() < 0 {
				client = newClient(t, "http://127.0.0.1:1", Options{})
			}
			res := client.Do(context.Background(), &Request{Path: "/", Body: c.body})
			require.Equal(t, Internal, res.Err.Category)
			require.Contains(t, res.Err.Message, c.message)
		})
	}
}

func TestInjectionIsRefused(t *testing.T) {
	c := newClient(t, "http://127.0.0.1:1", Options{})
	for _, r := range []Request{
		{Path: "no-slash"}, {Path: ""}, {Path: "/a b"}, {Path: "/a\r\nX: y"},
		{Path: "/", Header: []HeaderField{{"X", "secret\r\nY: z"}}},
		{Path: "/", Header: []HeaderField{{"X", "secret\nY: z"}}},
		{Path: "/", Header: []HeaderField{{"X", "secret\x00"}}},
		{Path: "/", Header: []HeaderField{{"X: y\r\nZ", "secret"}}},
		{Path: "/", Header: []HeaderField{{"", "secret"}}},
		{Path: "/", Header: []HeaderField{{"content-length", "secret"}}},
		{Path: "/", Header: []HeaderField{{"Transfer-Encoding", "secret"}}},
		{Path: "/", Header: []HeaderField{{"Accept-Encoding", "secret"}}},
	} {
		r.Body = textBody("")
		res := c.Do(context.Background(), &r)
		require.Equal(t, Internal, res.Err.Category, "%+v", r)
		require.NotContains(t, res.Err.Message, "secret")
		require.Zero(t, res.BytesSent)
	}
}

func TestTargets(t *testing.T) {
	for _, bad := range []string{
		"", "host:80", "ftp://host", "http://", "http://:80", "http://user:secret@host", "http://host/#secret", "http://host:0",
		"http://host:99999", "http://host:secret", "http://ho st/secret", "http://h\u00f6st", "http://[::1", "http://host/%zz?secret",
	} {
		_, err := New(bad, Options{})
		require.Error(t, err, bad)
		if !strings.Contains(bad, "host:secret") {
			require.NotContains(t, err.Error(), "secret", bad)
		}
	}
	for url, want := range map[string]target{
		"http://host":                   {host: "host", port: 80, hostHeader: "host", apiRoot: "/v1"},
		"https://host/":                 {tls: true, host: "host", port: 443, hostHeader: "host", apiRoot: "/v1"},
		"http://[::1]:8000/v1/":         {host: "::1", port: 8000, hostHeader: "[::1]:8000", root: "/v1", apiRoot: "/v1"},
		"http://h/chat/completions/":    {host: "h", port: 80, hostHeader: "h"},
		"http://h/x/v1/completions?k=v": {host: "h", port: 80, hostHeader: "h", root: "/x/v1", apiRoot: "/x/v1", query: "?k=v"},
		"http://h:1/a%20b/v1?k=v&w":     {host: "h", port: 1, hostHeader: "h:1", root: "/a%20b/v1", apiRoot: "/a%20b/v1", query: "?k=v&w"},
	} {
		got, err := parseTarget(url)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for url, want := range map[string][2]string{
		"http://h":                             {"/v1/chat/completions", "/other"},
		"http://h/v1":                          {"/v1/chat/completions", "/v1/other"},
		"http://h/x/":                          {"/x/v1/chat/completions", "/x/other"},
		"http://h/v1/chat/completions?api=1":   {"/v1/chat/completions?api=1", "/v1/other?api=1"},
		"http://h/v1/completions/":             {"/v1/chat/completions", "/v1/other"},
		"http://h/v1/messages":                 {"/v1/chat/completions", "/v1/other"},
		"http://h/openai/gpt/chat/completions": {"/openai/gpt/chat/completions", "/openai/gpt/other"},
	} {
		got, err := parseTarget(url)
		require.NoError(t, err)
		require.Equal(t, want[0], string(got.appendPath(nil, "/v1/chat/completions")))
		require.Equal(t, want[1], string(got.appendPath(nil, "/other")))
	}
	_, err := New("http://host", Options{Header: []HeaderField{{"Content-Length", "1"}}})
	require.ErrorContains(t, err, "wire: header Content-Length is set by the client itself")
}

func TestOptionsValidate(t *testing.T) {
	require.NoError(t, Options{}.Validate())
	require.NoError(t, Options{Epoch: time.Now(), Timeout: -1, DialTimeout: 1, KeepAlive: -1}.Validate())
	for want, o := range map[string]Options{
		"epoch 1970-01-01 00:00:01 +0000 UTC has no monotonic reading: want a value of time.Now": {Epoch: time.Unix(1, 0).UTC()},
		"overflow regexp 1 is nil: leave it out":                                                 {OverflowRegexps: []*regexp.Regexp{regexp.MustCompile("x"), nil}},
		"the API key has a control character in it: is there a line feed at its end?":            {APIKey: "k\n"},
		"header name \"a b\" has byte 0x20 at 1: want letters, digits and marks such as - and _": {Header: []HeaderField{{"a b", ""}}},
		"header Content-Length is set by the client itself":                                      {Header: []HeaderField{{"Content-Length", "1"}}},
	} {
		require.EqualError(t, o.Validate(), want)
		_, err := New("http://host", o)
		require.EqualError(t, err, "wire: "+want)
	}
}

func TestAPIKeyIsNeverPrinted(t *testing.T) {
	const key = "sk-very-secret"
	c := newClient(t, serve(t, answer(sized("HTTP/1.1 401 Unauthorized\r\n", "bad key "+key+"!"))), Options{APIKey: key})
	res := post(c)
	require.Equal(t, "401 Unauthorized: bad key [API key]!", res.Err.Message)
	_, err := New("http://host", Options{APIKey: key + "\r\n"})
	require.Error(t, err)
	require.NotContains(t, err.Error(), key)
}

func TestSecretHeadersAreNeverPrinted(t *testing.T) {
	c := newClient(t, serve(t, answer(sized("HTTP/1.1 401 Unauthorized\r\n", "abcdef abc"))), Options{
		Header: []HeaderField{{"X-API-Key", "abc"}, {"API-Key", "abcdef"}},
	})
	require.Equal(t, "401 Unauthorized: [secret] [secret]", post(c).Err.Message, "one begins another")
	for _, f := range []HeaderField{
		{"Authorization", "Bearer h-secret"}, {"authorization", "h-secret"}, {"X-API-Key", "h-secret"}, {"api-key", "h-secret"},
		{"Proxy-Authorization", "Basic  h-secret"}, {"X-Gateway-Token", "h-secret"}, {"Cookie", "h-secret"},
	} {
		text := "bad " + f.Value + ", that is h-secret; or k-secret"
		c := newClient(t, serve(t, answer(sized("HTTP/1.1 401 Unauthorized\r\n", text))), Options{
			APIKey: "k-secret", Header: []HeaderField{f, {"Authorization", ""}, {"X-Other", "bad"}},
		})
		require.Equal(t, "401 Unauthorized: bad [secret], that is [secret]; or [API key]", post(c).Err.Message, f)
	}
}

// A message never contains a secret parameter of the URL: some servers repeat a path that they do not serve.
func TestSecretParametersAreNeverPrinted(t *testing.T) {
	server := serve(t, answer(sized("HTTP/1.1 404 Not Found\r\n", "/v1?api-version=2024&key=a%2Fb, key a/b")))
	c := newClient(t, server+"?api-version=2024&key=a%2Fb", Options{})
	require.Equal(t, "404 Not Found: /v1?api-version=2024&key=[secret], key [secret]", post(c).Err.Message)
}

func TestTLS(t *testing.T) {
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		if err != nil || n != 1<<20 || r.Proto != "HTTP/1.1" {
			t.Errorf("%d bytes, %v, %s", n, err, r.Proto)
		}
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, goodStream)
	}))
	srv.EnableHTTP2 = true
	srv.Config.ErrorLog = log.New(io.Discard, "", 0) // a refused certificate is part of the test
	srv.StartTLS()
	defer srv.Close()
	roots := x509.NewCertPool()
	roots.AddCert(srv.Certificate())
	c := newClient(t, srv.URL, Options{TLS: &tls.Config{RootCAs: roots, NextProtos: []string{"h2"}}})
	for i := range 3 {
		res := c.Do(context.Background(), &Request{Path: "/", Stream: true, Body: zeros(1 << 20)})
		require.Nil(t, res.Err)
		require.Equal(t, i > 0, res.Reused)
	}
	res := post(newClient(t, srv.URL, Options{}))
	require.Equal(t, Connection, res.Err.Category)
	require.Contains(t, res.Err.Message, "tls: ")
	require.NotContains(t, res.Err.Message, "tls: tls: ")
}

// echo answers every request of every connection with a good stream.
func echo(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer nc.Close()
				serveGood(nc, chunked(eventHead, goodStream, 60))
			})
		}
	})
	t.Cleanup(func() { l.Close(); all.Wait() })
	return "http://" + l.Addr().String()
}

func TestManyAtOnce(t *testing.T) {
	c := newClient(t, echo(t), Options{})
	var all sync.WaitGroup
	var dialled atomic.Int64
	for range 32 {
		all.Go(func() {
			for range 30 {
				res := post(c)
				if res.Err != nil || res.Chunks != 2 {
					t.Errorf("%+v", res)
				}
				if !res.Reused {
					dialled.Add(1)
				}
			}
		})
	}
	all.Wait()
	require.LessOrEqual(t, dialled.Load(), int64(32))
}

// The resolver looks a host up once and returns IPv4 addresses first.
func TestResolver(t *testing.T) {
	r := newResolver("localhost")
	first, err := r.addresses(context.Background())
	require.NoError(t, err)
	require.True(t, first[0].Is4())
	r.host = "no such host"
	again, err := r.addresses(context.Background())
	require.NoError(t, err)
	require.Equal(t, first, again)
	<-r.token
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = r.addresses(ctx)
	require.ErrorIs(t, err, context.Canceled)
	r.token <- struct{}{}
	r.expiry = time.Time{}
	_, err = r.addresses(context.Background())
	require.Error(t, err)
}

// What a name server says is used for 300 s, IPv4 before IPv6.
func TestAddressesAreCached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v6, v4 := netip.MustParseAddr("::1"), netip.MustParseAddr("127.0.0.1")
		r, lookups := newResolver("host"), 0
		r.lookup = func(_ context.Context, network, host string) ([]netip.Addr, error) {
			require.Equal(t, "ip host", network+" "+host)
			lookups++
			return []netip.Addr{v6, netip.AddrFrom16(v4.As16())}, nil
		}
		for _, c := range []struct {
			after time.Duration
			want  int
		}{{0, 1}, {300*time.Second - 1, 1}, {1, 2}} {
			time.Sleep(c.after)
			addrs, err := r.addresses(t.Context())
			require.NoError(t, err)
			require.Equal(t, []netip.Addr{v4, v6}, addrs)
			require.Equal(t, c.want, lookups)
		}
	})
}

// A request on a kept connection allocates its result and what a cancellable context needs.
func TestAllocations(t *testing.T) {
	c := newClient(t, echo(t), Options{})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	r := &Request{Path: "/", Stream: true, Body: textBody("{}"), Header: []HeaderField{{"X-Request-ID", "1"}}}
	n := testing.AllocsPerRun(200, func() {
		if res := c.Do(ctx, r); res.Err != nil {
			t.Error(res.Err)
		}
	})
	t.Logf("%v allocations per request, the server's included", n)
	require.LessOrEqual(t, n, 8.0)
}

// requireOrder fails unless the instants happened, one after the other.
func requireOrder(t *testing.T, instants ...time.Duration) {
	t.Helper()
	for i, at := range instants {
		require.NotEqual(t, Never, at, "instant %d", i)
		if i > 0 {
			require.LessOrEqual(t, instants[i-1], at, "instant %d", i)
		}
	}
}

// A new connection is connected; a kept one is not. Both have all other steps, in their order.
//
// Covers T-56.
func TestExchange(t *testing.T) {
	c := newClient(t, echo(t), Options{})
	for _, reused := range []bool{false, true} {
		res := post(c)
		require.Nil(t, res.Err)
		require.Equal(t, reused, res.Reused)
		x := res.Exchange
		requireOrder(t, res.Sent, x.WaitEnd, x.SendStart, x.SendEnd, x.FirstByte, res.Acknowledged, res.FirstToken, x.LastByte, res.End)
		if reused {
			require.Equal(t, []time.Duration{Never, Never}, []time.Duration{x.ConnectStart, x.ConnectEnd})
		} else {
			requireOrder(t, x.WaitEnd, x.ConnectStart, x.ConnectEnd, x.SendStart)
		}
	}
}

// A request that failed has every step that it made, and no later one.
//
// Covers T-56.
func TestExchangeOfFailure(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l.Close()
	for name, test := range map[string]struct {
		url              string
		sent, heard, ack bool
	}{
		"refused":        {url: "http://" + l.Addr().String()},
		"closed":         {url: serve(t, func(p *peer) { p.request() }), sent: true},
		"half a head":    {url: serve(t, answer("HTTP/1.1 200 OK\r\nContent-")), sent: true, heard: true},
		"status":         {url: serve(t, answer(sized("HTTP/1.1 500 Oops\r\n", "no"))), sent: true, heard: true, ack: true},
		"broken answer":  {url: serve(t, answer(jsonHead, "Content-Length: 9\r\n\r\n{")), sent: true, heard: true, ack: true},
		"malformed head": {url: serve(t, answer("220 smtp.example.org ESMTP\r\n")), sent: true, heard: true},
	} {
		t.Run(name, func(t *testing.T) {
			res := post(newClient(t, test.url, Options{}))
			require.NotNil(t, res.Err)
			x := res.Exchange
			happened := func(at ...time.Duration) (all bool) {
				for _, a := range at {
					require.Equal(t, at[0] != Never, a != Never)
				}
				return at[0] != Never
			}
			requireOrder(t, res.Sent, x.WaitEnd, x.ConnectStart, res.End)
			require.Greater(t, res.End, res.Sent)
			require.Equal(t, test.sent, happened(x.ConnectEnd, x.SendStart, x.SendEnd))
			require.Equal(t, test.heard, happened(x.FirstByte, x.LastByte))
			require.Equal(t, test.ack, happened(res.Acknowledged))
		})
	}
}

// Get and Post send the common header and no body, and read any answer whole. What the server says of a secret is not told.
func TestDocuments(t *testing.T) {
	var got []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, fmt.Sprint(r.Method, " ", r.URL, " ", r.ContentLength, " ", r.Header.Get("Authorization")))
		switch r.URL.Path {
		case "/api/gone":
			http.Error(w, "no "+r.Header.Get("Authorization"), http.StatusGone)
		case "/api/busy":
			w.WriteHeader(http.StatusServiceUnavailable)
		case "/api/zip":
			w.Header().Set("Content-Encoding", "gzip")
			w.WriteHeader(http.StatusConflict)
			fmt.Fprint(w, "\x1f\x8b")
		default:
			fmt.Fprint(w, "a document")
		}
	}))
	defer s.Close()
	c, err := New(s.URL+"/api/v1?n=1", Options{APIKey: "hunter2"})
	require.NoError(t, err)
	defer c.Close()

	document, f := c.Get(t.Context(), "/v1/models")
	require.Nil(t, f)
	require.Equal(t, "a document", string(document))
	for _, ask := range []func(context.Context, string) ([]byte, *Failure){c.Post, c.GetBelowRoot} {
		document, f = ask(t.Context(), "/reset")
		require.Nil(t, f)
		require.Equal(t, "a document", string(document))
	}
	for path, want := range map[string]Failure{
		"/gone": {HTTPStatus, 410, "410 Gone: no Bearer [API key]"},
		"/busy": {Overload, 503, "503 Service Unavailable"},
		"/zip":  {HTTPStatus, 409, "409 Conflict: compressed (Content-Encoding gzip), which was not asked for"},
	} {
		document, f = c.Post(t.Context(), path)
		require.Nil(t, document)
		require.Equal(t, want, *f)
	}
	require.Equal(t, []string{"GET /api/v1/models?n=1 0 Bearer hunter2", "POST /api/reset?n=1 0 Bearer hunter2", "GET /api/reset?n=1 0 Bearer hunter2"}, got[:3])

	s.Close()
	_, f = c.Post(t.Context(), "/reset")
	require.Equal(t, Connection, f.Category)
	require.Zero(t, f.Code)
}

// A request without a body announces that.
func TestPostAnnouncesNoBody(t *testing.T) {
	head := make(chan string, 1)
	url := serve(t, func(p *peer) {
		h, _ := p.request()
		head <- h
		p.say("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	})
	_, f := newClient(t, url, Options{}).Post(t.Context(), "/reset")
	require.Nil(t, f)
	h := <-head
	require.True(t, strings.HasPrefix(h, "POST /reset HTTP/1.1\r\n"), h)
	require.Contains(t, h, "\r\nContent-Length: 0\r\n")
}

// An answer is one of bursts when more than half of its messages came eight or more within a millisecond.
//
// Covers T-202.
func TestBurst(t *testing.T) {
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		groups []int         // messages that come together, 50 ms apart
		within time.Duration // from the first message of a group to its last
		want   int
	}{
		"none":                       {nil, 0, 0},
		"one by one":                 {[]int{1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, 0, 0},
		"all in one read":            {[]int{100}, 0, 100},
		"4 KiB at a time":            {[]int{23, 23, 23, 23, 8}, 0, 20},
		"eight within a millisecond": {[]int{8, 1}, ms, 8},
		"eight in more than one":     {[]int{8, 1}, ms + 7, 0},
		"seven":                      {[]int{7, 7, 7}, 0, 0},
		"half of them":               {[]int{8, 1, 1, 1, 1, 1, 1, 1, 1}, 0, 0},
		"one more than half":         {[]int{9, 1, 1, 1, 1, 1, 1, 1, 1}, 0, 9},
	} {
		t.Run(name, func(t *testing.T) {
			var b bursts
			for k, n := range c.groups {
				for i := range n {
					at := time.Duration(k+1) * 50 * ms
					if n > 1 {
						at += c.within * time.Duration(i) / time.Duration(n-1)
					}
					b.add(at)
				}
			}
			require.Equal(t, c.want, b.typical())
		})
	}
}

// The burst of a stream is in its result.
//
// Covers T-202.
func TestBurstOfStream(t *testing.T) {
	res, stream := newResult(0), ""
	for range 100 {
		stream += event1("x")
	}
	var d decoder
	d.reset(responseState{res: &res, events: true})
	require.NoError(t, d.feed([]byte(stream+doneEvent), time.Second))
	d.finish()
	require.Equal(t, 100, res.Burst)
}
