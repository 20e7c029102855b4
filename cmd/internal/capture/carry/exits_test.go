package carry

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

const events = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

// reset makes the close of a connection a reset.
func reset(c net.Conn) {
	_ = c.(*net.TCPConn).SetLinger(0)
	_ = c.Close()
}

// exit is a way in which an exchange ends.
type exit struct {
	name     string
	request  string
	upstream func(c net.Conn, in *bufio.Reader)
	client   func(t *testing.T, c *net.TCPConn, in *bufio.Reader) // after the request was sent; nil: reads one message
	outcome  Outcome
	upload   error
	reply    string // what the observer got of it
}

// exits are ways in which exchanges end; the client and the upstream see what they see without the proxy.
var exits = []exit{
	{
		name: "malformed JSON", request: "POST /v1/messages HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{[",
		upstream: says("HTTP/1.1 400 Bad Request\r\nContent-Length: 2\r\n\r\nno"), client: gets("HTTP/1.1 400", "no", false), outcome: Whole, reply: "no",
	}, {
		name: "not an object", request: "POST /v1/messages HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n[]",
		upstream: says(plain), client: gets("HTTP/1.1 200", "ok", false), outcome: Whole, reply: "ok",
	}, {
		name: "error event", request: post,
		upstream: says(events + chunk("event: error\ndata: {}\n\n") + "0\r\n\r\n"),
		client:   gets("HTTP/1.1 200", "event: error\ndata: {}\n\n", false), outcome: Whole, reply: "event: error\ndata: {}\n\n",
	}, {
		name: "no terminal mark", request: post,
		upstream: says(events + chunk("data: 1\n\n") + "0\r\n\r\n"), client: gets("HTTP/1.1 200", "data: 1\n\n", false), outcome: Whole, reply: "data: 1\n\n",
	}, {
		name: "reply that ends with its connection", request: post,
		upstream: says("HTTP/1.0 200 OK\r\n\r\nabc"), client: gets("HTTP/1.1 200", "abc", false), outcome: Whole, reply: "abc",
	}, {
		name: "end in the stream", request: post,
		upstream: says(events + chunk("data: 1\n\n")), client: gets("HTTP/1.1 200", "data: 1\n\n", true), outcome: Broken, reply: "data: 1\n\n",
	}, {
		name: "end before the length", request: post,
		upstream: says("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"), client: gets("HTTP/1.1 200", "abc", true), outcome: Broken, reply: "abc",
	}, {
		name: "end before the head", request: post,
		upstream: says(""), client: gets("HTTP/1.1 502", "", false), outcome: Unreachable,
	}, {
		name: "reset before the head", request: post,
		upstream: func(c net.Conn, in *bufio.Reader) { _, _ = readMessage(in, false); reset(c) },
		client:   gets("HTTP/1.1 502", "", false), outcome: Unreachable,
	}, {
		name: "no HTTP", request: post, upstream: says("SSH-2.0-x\r\n"), client: gets("HTTP/1.1 502", "", false), outcome: Unreachable,
	}, {
		name: "status that is none", request: post, upstream: says("HTTP/1.1 099 No\r\nContent-Length: 0\r\n\r\n"), client: gets("HTTP/1.1 502", "", false), outcome: Unreachable,
	}, {
		name: "upload aborted", request: "POST /v1/messages HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n{\"a",
		upstream: untilGone, client: func(_ *testing.T, c *net.TCPConn, _ *bufio.Reader) { c.Close() }, outcome: Left, upload: errUpload,
	}, {
		name: "upload in chunks that are none", request: "POST /v1/messages HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
		upstream: untilGone, client: untilClosed, outcome: Left, upload: errUpload,
	}, {
		name: "client gone before the head", request: post,
		upstream: untilGone, client: func(_ *testing.T, c *net.TCPConn, _ *bufio.Reader) { c.Close() }, outcome: Left,
	}, {
		name: "client gone in the stream", request: post,
		upstream: func(c net.Conn, in *bufio.Reader) {
			_, _ = readMessage(in, false)
			_, _ = io.WriteString(c, events+chunk("data: 1\n\n"))
			untilGone(c, in)
		},
		client: func(_ *testing.T, c *net.TCPConn, in *bufio.Reader) {
			readHead(in)
			_, _ = io.ReadFull(in, make([]byte, 9))
			c.Close()
		}, outcome: Left, reply: "data: 1\n\n",
	}, {
		name: "client gone after the end", request: post, upstream: says(plain),
		client: func(t *testing.T, c *net.TCPConn, in *bufio.Reader) {
			gets("HTTP/1.1 200", "ok", false)(t, c, in)
			reset(c)
		}, outcome: Whole, reply: "ok",
	},
}

// says is an upstream that reads a request, answers it and closes the connection.
func says(reply string) func(net.Conn, *bufio.Reader) {
	return func(c net.Conn, in *bufio.Reader) {
		_, _ = readMessage(in, false)
		_, _ = io.WriteString(c, reply)
	}
}

// untilGone is an upstream that says nothing and returns when the other side has closed the connection.
func untilGone(_ net.Conn, in *bufio.Reader) { _, _ = io.Copy(io.Discard, in) }

// untilClosed is a client that waits for the end of the connection, and gets nothing.
func untilClosed(t *testing.T, _ *net.TCPConn, in *bufio.Reader) {
	data, _ := io.ReadAll(in)
	require.Empty(t, string(data))
}

// gets is a client that reads one message. One with a body is that of the upstream; without, that of the proxy.
func gets(status, body string, broken bool) func(*testing.T, *net.TCPConn, *bufio.Reader) {
	return func(t *testing.T, _ *net.TCPConn, in *bufio.Reader) {
		m, err := readMessage(in, false)
		require.NoError(t, err)
		require.Equal(t, status, m.first)
		require.Equal(t, broken, m.broken)
		if body == "" {
			require.Contains(t, m.headers, "X-Agentx-Capture-Error: transport")
			require.True(t, strings.HasPrefix(m.body, `{"type":"error","error":{"type":"api_error","message":"agentx capture: `), m.body)
			return
		}
		require.Equal(t, body, m.body)
	}
}

// Every exit ends the exchange once, leaves nothing in flight and shows client and upstream what they would see alone.
//
// Covers C-23.
func TestEveryExitEndsOnce(t *testing.T) {
	for _, e := range exits {
		t.Run(e.name, func(t *testing.T) {
			w := newWorld(t, raw(t, e.upstream), nil)
			conn := w.dial(t)
			_, err := io.WriteString(conn, e.request)
			require.NoError(t, err)
			e.client(t, conn, bufio.NewReader(conn))
			n := w.notes.one(t)
			require.Equal(t, e.outcome, n.ends[0].Outcome)
			require.Equal(t, e.reply, string(n.reply))
			require.Equal(t, []error{e.upload}, n.upload)
			require.False(t, n.ends[0].ClientGone)
			require.False(t, n.ends[0].Panicked)
		})
	}
}

// An upstream that refuses connections is answered 502, in the shape of the API that was asked.
//
// Covers C-23.
func TestUnreachableUpstreamIs502(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l.Close()
	w := newWorld(t, "http://"+l.Addr().String(), nil)
	const words = `"agentx capture: the upstream gives no reply: it takes no connection"`
	for path, want := range map[string]string{
		"/v1/messages":            `{"type":"error","error":{"type":"api_error","message":` + words + `}}`,
		"/s/x/v1/messages/a?b":    `{"type":"error","error":{"type":"api_error","message":` + words + `}}`,
		"/v1/chat/completions":    `{"error":{"message":` + words + `,"type":"api_error","param":null,"code":null}}`,
		"/v1/responses":           `{"error":{"message":` + words + `,"type":"api_error","param":null,"code":null}}`,
		"/anything":               `{"error":{"message":` + words + `,"type":"api_error","param":null,"code":null}}`,
		"/v1/messagesx":           `{"error":{"message":` + words + `,"type":"api_error","param":null,"code":null}}`,
		"/api/v1/messages?stream": `{"type":"error","error":{"type":"api_error","message":` + words + `}}`,
	} {
		reply, err := http.Post(w.front.URL+path, "application/json", strings.NewReader(strings.Repeat(" ", 1<<20)))
		require.NoError(t, err)
		body, _ := io.ReadAll(reply.Body)
		reply.Body.Close()
		require.Equal(t, 502, reply.StatusCode)
		require.Equal(t, "transport", reply.Header.Get("X-Agentx-Capture-Error"))
		require.Equal(t, want, string(body), path)
		require.Equal(t, Unreachable, w.notes.one(t).ends[0].Outcome)
	}
	http.DefaultClient.CloseIdleConnections()
}

// The answer says why there is no reply, in words that name neither an address nor what a client sent.
func TestUnreachableUpstreamSaysWhy(t *testing.T) {
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(secure.Close)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	plain := raw(t, func(c net.Conn, _ *bufio.Reader) { _, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n") })
	for url, want := range map[string]string{
		secure.URL: "its certificate is not trusted",
		strings.Replace(plain, "http", "https", 1): "it does not speak TLS",
		raw(t, says("")): "it broke off before its response header",
	} {
		w := newWorld(t, url, nil)
		out := w.talk(t, strings.Replace(post, "Host", "Connection: close\r\nHost", 1))
		require.Contains(t, out, `"agentx capture: the upstream gives no reply: `+want+`"`)
		require.Equal(t, Unreachable, w.notes.one(t).ends[0].Outcome)
	}
	require.Equal(t, "its name has no address", why(fmt.Errorf("%w: %w", errNoConnection, &net.DNSError{Name: "secret"})))
}

// An observer that panics in any call loses its exchange. Traffic runs on, the end still comes, and the next exchange is
// observed.
//
// Covers C-23.
func TestObserverThatPanicsDisturbsNothing(t *testing.T) {
	for _, call := range []string{"arrive", "request", "request end", "dispatch", "head", "reply", "end"} {
		t.Run(call, func(t *testing.T) {
			w := newWorld(t, raw(t, says("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok")), nil)
			var once atomic.Bool
			w.notes.gate = func(name string) {
				if name == call && once.CompareAndSwap(false, true) {
					panic("secret")
				}
			}
			for range 2 {
				out := w.talk(t, strings.Replace(post, "Host", "Connection: close\r\nHost", 1))
				require.True(t, strings.HasPrefix(out, "HTTP/1.1 200 OK") && strings.HasSuffix(out, "ok"), out)
			}
			if call == "arrive" {
				require.Len(t, w.notes.list, 1)
			} else {
				require.Equal(t, call != "end", w.notes.one(t).ends[0].Panicked)
			}
			n := w.notes.one(t)
			require.False(t, n.ends[0].Panicked)
			require.Equal(t, "ok", string(n.reply))
		})
	}
}

// breaking is a connection of a client on which every write panics.
type breaking struct{ *httptest.ResponseRecorder }

func (breaking) Write([]byte) (int, error) { panic("carrying broke") }

// A panic while carrying ends the exchange as aborted, and is raised again.
//
// Covers C-23.
func TestPanicOfCarryingEndsTheExchange(t *testing.T) {
	w := newWorld(t, raw(t, says(plain)), nil)
	r := httptest.NewRequest("POST", "/v1/messages", strings.NewReader("{}"))
	require.PanicsWithValue(t, "carrying broke", func() { w.proxy.ServeHTTP(breaking{httptest.NewRecorder()}, r) })
	require.Equal(t, Aborted, w.notes.one(t).ends[0].Outcome)
}

// Abort ends what is in flight, before and in a reply, and on a connection that speaks another protocol.
//
// Covers C-23.
func TestAbortEndsWhatIsInFlight(t *testing.T) {
	for name, c := range map[string]struct {
		request, answer string
		outcome         Outcome
	}{
		"before the head": {post, "", Aborted},
		"in the reply":    {post, events + chunk("data: 1\n\n"), Aborted},
		"upgraded":        {"GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n", "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n", Upgraded},
	} {
		t.Run(name, func(t *testing.T) {
			asked := make(chan bool)
			w := newWorld(t, raw(t, func(conn net.Conn, in *bufio.Reader) {
				_, _ = readMessage(in, false)
				_, _ = io.WriteString(conn, c.answer)
				asked <- true
				untilGone(conn, in)
			}), func(o *Options) { o.Detach = true })
			conn := w.dial(t)
			_, _ = io.WriteString(conn, c.request)
			<-asked
			in := bufio.NewReader(conn)
			if c.answer != "" {
				readHead(in)
			}
			w.proxy.Abort()
			require.Equal(t, c.outcome, w.notes.one(t).ends[0].Outcome)
			_, _ = io.Copy(io.Discard, in)
		})
	}
}

// A client that leaves ends the request upstream, which TestEveryExitEndsOnce shows. Detached, the reply is read to its end
// and the exchange says that the client was gone, before its head as in its stream.
//
// Covers C-29.
func TestDetachedRepliesAreReadToTheirEnd(t *testing.T) {
	for _, early := range []bool{true, false} {
		gone := make(chan struct{})
		w := newWorld(t, raw(t, func(conn net.Conn, in *bufio.Reader) {
			_, _ = readMessage(in, false)
			if early {
				<-gone
			}
			_, _ = io.WriteString(conn, events+chunk("data: 1\n\n"))
			<-gone
			_, _ = io.WriteString(conn, chunk("data: 2\n\n")+"0\r\n\r\n")
			untilGone(conn, in)
		}), func(o *Options) { o.Detach = true })
		clients := w.clients()
		conn := w.dial(t)
		_, _ = io.WriteString(conn, post)
		if !early {
			in := bufio.NewReader(conn)
			readHead(in)
			_, _ = io.ReadFull(in, make([]byte, len(chunk("data: 1\n\n"))))
		}
		conn.Close()
		r := <-clients
		<-r.Context().Done()
		close(gone)
		n := w.notes.one(t)
		require.Equal(t, Whole, n.ends[0].Outcome)
		require.True(t, n.ends[0].ClientGone)
		require.Equal(t, "data: 1\n\ndata: 2\n\n", string(n.reply))
	}
}

// Detached, a client that ends its half of the connection gets the whole reply: it may read on.
//
// Covers C-29.
func TestDetachedHalfCloseGetsTheWholeReply(t *testing.T) {
	closed := make(chan struct{})
	w := newWorld(t, raw(t, func(conn net.Conn, in *bufio.Reader) {
		_, _ = readMessage(in, false)
		<-closed
		_, _ = io.WriteString(conn, events+chunk("data: 1\n\n")+chunk("data: 2\n\n")+"0\r\n\r\n")
	}), func(o *Options) { o.Detach = true })
	clients := w.clients()
	conn := w.dial(t)
	_, _ = io.WriteString(conn, post)
	require.NoError(t, conn.CloseWrite())
	r := <-clients
	<-r.Context().Done()
	close(closed)
	m, err := readMessage(bufio.NewReader(conn), false)
	require.NoError(t, err)
	require.False(t, m.broken)
	require.Equal(t, "data: 1\n\ndata: 2\n\n", m.body)
	require.Equal(t, Whole, w.notes.one(t).ends[0].Outcome)
}

// Detached, a reply that breaks after its client left is broken; without a head, it is unreachable.
//
// Covers C-29.
func TestDetachedRepliesMayBreak(t *testing.T) {
	for answer, outcome := range map[string]Outcome{events + chunk("data: 1\n\n"): Broken, "": Unreachable} {
		gone := make(chan struct{})
		w := newWorld(t, raw(t, func(conn net.Conn, in *bufio.Reader) {
			_, _ = readMessage(in, false)
			<-gone
			_, _ = io.WriteString(conn, answer)
		}), func(o *Options) { o.Detach = true })
		clients := w.clients()
		conn := w.dial(t)
		_, _ = io.WriteString(conn, post)
		conn.Close()
		r := <-clients
		<-r.Context().Done()
		close(gone)
		n := w.notes.one(t)
		require.Equal(t, outcome, n.ends[0].Outcome)
		require.True(t, n.ends[0].ClientGone)
	}
}

// The upstream sees one request: none is sent again when a kept connection breaks.
func TestNothingIsSentTwice(t *testing.T) {
	for _, request := range []string{"GET /v1/models HTTP/1.1\r\nHost: h\r\n\r\n", "HEAD /v1/models HTTP/1.1\r\nHost: h\r\n\r\n", post, strings.Replace(post, "Host", "Idempotency-Key: a\r\nHost", 1)} {
		asked := make(chan string, 4)
		w := newWorld(t, raw(t, func(conn net.Conn, in *bufio.Reader) {
			for i := 0; ; i++ {
				m, err := readMessage(in, false)
				if errors.Is(err, io.EOF) {
					return
				}
				asked <- m.first
				if i == 1 {
					reset(conn)
					return
				}
				_, _ = io.WriteString(conn, "HTTP/1.1 204 No Content\r\n\r\n")
			}
		}), nil)
		conn := w.dial(t)
		in := bufio.NewReader(conn)
		for _, status := range []string{"HTTP/1.1 204", "HTTP/1.1 502"} {
			_, _ = io.WriteString(conn, request)
			m, err := readMessage(in, request[0] == 'H')
			require.NoError(t, err)
			require.Equal(t, status, m.first)
			w.notes.one(t)
		}
		require.Len(t, asked, 2, request)
	}
}
