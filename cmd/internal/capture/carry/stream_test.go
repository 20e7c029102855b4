package carry

import (
	"bufio"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Streams of events arrive byte for byte: names, comments, every line end, a line of 1 MiB, a break inside a character.
//
// Covers C-13.
func TestStreamsArriveByteForByte(t *testing.T) {
	pieces := []string{
		"event: message_start\ndata: {\"a\": 1}\n\n", ": ping\r\n\r\n", "data:x\rdata: y\r\r", "data: " + strings.Repeat("long ", 1<<18) + "\n\n",
		"data: na\xc3", "\xafve\n\n", "data: [DONE]",
	}
	w := newWorld(t, raw(t, func(conn net.Conn, in *bufio.Reader) {
		_, _ = readMessage(in, false)
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n")
		for _, p := range pieces {
			_, _ = io.WriteString(conn, chunk(p))
		}
		_, _ = io.WriteString(conn, "0\r\n\r\n")
	}), func(o *Options) { o.ReplyCopy = 1 }) // streams have no limit of their own
	conn := w.dial(t)
	_, _ = io.WriteString(conn, post)
	m, err := readMessage(bufio.NewReader(conn), false)
	require.NoError(t, err)
	require.False(t, m.broken)
	require.Equal(t, strings.Join(pieces, ""), m.body)
	n := w.notes.one(t)
	require.Equal(t, m.body, string(n.reply))
	require.NoError(t, n.ends[0].ReplyLost)
}

// The head of a reply and each of its events reach the client while the upstream waits for the client to have them.
//
// Covers C-13.
func TestEventsAreNotHeldBack(t *testing.T) {
	seen := make(chan struct{})
	w := newWorld(t, raw(t, func(conn net.Conn, in *bufio.Reader) {
		_, _ = readMessage(in, false)
		for _, part := range []string{"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n", chunk("data: 1\n\n"), chunk("data: 2\n\n"), "0\r\n\r\n"} {
			_, _ = io.WriteString(conn, part)
			<-seen
		}
	}), nil)
	conn := w.dial(t)
	_, _ = io.WriteString(conn, post)
	in := bufio.NewReader(conn)
	head := readHead(in)
	require.Contains(t, string(head), "200 OK")
	seen <- struct{}{}
	for _, event := range []string{chunk("data: 1\n\n"), chunk("data: 2\n\n"), "0\r\n\r\n"} {
		got := make([]byte, len(event))
		_, err := io.ReadFull(in, got)
		require.NoError(t, err)
		require.Equal(t, event, string(got))
		seen <- struct{}{}
	}
	w.notes.one(t)
}

// Each piece of a request reaches the upstream while the client waits for that, by length and in chunks; and a reply that
// begins before the whole request came is carried at once.
//
// Covers C-13.
func TestUploadsAreNotHeldBack(t *testing.T) {
	for name, c := range map[string][3]string{
		"length": {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 6\r\n\r\n", "abc", "def"},
		"chunks": {"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n", "3\r\nabc\r\n", "3\r\ndef\r\n0\r\n\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			step := make(chan string)
			w := newWorld(t, raw(t, func(conn net.Conn, in *bufio.Reader) {
				readHead(in)
				step <- "head"
				part := make([]byte, len(c[1]))
				_, _ = io.ReadFull(in, part)
				step <- string(part)
				_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"+chunk("early"))
				rest := make([]byte, len(c[2]))
				_, _ = io.ReadFull(in, rest)
				step <- string(rest)
				_, _ = io.WriteString(conn, "0\r\n\r\n")
			}), nil)
			conn := w.dial(t)
			_, _ = io.WriteString(conn, c[0])
			require.Equal(t, "head", <-step)
			_, _ = io.WriteString(conn, c[1])
			require.Equal(t, c[1], <-step)
			in := bufio.NewReader(conn)
			readHead(in)
			early := make([]byte, len(chunk("early")))
			_, err := io.ReadFull(in, early)
			require.NoError(t, err)
			_, _ = io.WriteString(conn, c[2])
			require.Equal(t, c[2], <-step)
			n := w.notes.one(t)
			require.Equal(t, "abcdef", string(n.request))
			require.Equal(t, []error{nil}, n.upload)
		})
	}
}

// A client that waits for 100 gets it when the upstream gives it, once; one that the upstream refuses keeps its body.
//
// Covers C-12.
func TestContinueIsTheUpstreams(t *testing.T) {
	const expects = "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n"
	t.Run("given", func(t *testing.T) {
		body := make(chan string, 1)
		w := newWorld(t, raw(t, func(conn net.Conn, in *bufio.Reader) {
			head := readHead(in)
			_, _ = io.WriteString(conn, "HTTP/1.1 100 Continue\r\n\r\n")
			part := make([]byte, 3)
			_, _ = io.ReadFull(in, part)
			body <- string(head) + string(part)
			_, _ = io.WriteString(conn, plain)
		}), nil)
		conn := w.dial(t)
		_, _ = io.WriteString(conn, expects)
		in := bufio.NewReader(conn)
		require.Equal(t, "HTTP/1.1 100 Continue\r\n\r\n", string(readHead(in)))
		_, _ = io.WriteString(conn, "abc")
		require.Contains(t, <-body, "Expect: 100-continue")
		require.Contains(t, string(readHead(in)), "HTTP/1.1 200 OK")
		require.Equal(t, "abc", string(w.notes.one(t).request))
	})
	t.Run("refused", func(t *testing.T) {
		head := make(chan string, 1)
		w := newWorld(t, raw(t, func(conn net.Conn, in *bufio.Reader) {
			head <- string(readHead(in))
			_, _ = io.WriteString(conn, "HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\nno")
			_, _ = in.ReadByte()
		}), nil)
		conn := w.dial(t)
		_, _ = io.WriteString(conn, expects)
		m, err := readMessage(bufio.NewReader(conn), false)
		require.NoError(t, err)
		require.Equal(t, "HTTP/1.1 401", m.first)
		require.Equal(t, "no", m.body)
		require.Contains(t, <-head, "Connection: close") // else net/http asks for the body nevertheless, now and then in time
		n := w.notes.one(t)
		require.Equal(t, []error{errUpload}, n.upload)
		require.Equal(t, Whole, n.ends[0].Outcome)
	})
}

// A connection that switches to another protocol carries its bytes both ways, those beside the head included, and ends when
// both sides ended.
//
// Covers C-12.
func TestUpgradesPassThrough(t *testing.T) {
	const ask = "GET /v1/realtime?model=a HTTP/1.1\r\nHost: h\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-Websocket-Key: a\r\n\r\n"
	head, read := make(chan string, 1), make(chan bool, 20)
	w := newWorld(t, raw(t, func(conn net.Conn, in *bufio.Reader) {
		head <- string(readHead(in))
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-Websocket-Accept: b\r\n\r\nhello")
		data, _ := io.ReadAll(in)
		for range 20 { // the other half of the connection lives on
			_, _ = io.WriteString(conn, ".")
			<-read
		}
		_, _ = io.WriteString(conn, "["+string(data)+"]")
	}), nil)
	conn := w.dial(t)
	_, _ = io.WriteString(conn, ask+"early")
	in := bufio.NewReader(conn)
	require.Equal(t, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nSec-Websocket-Accept: b\r\nUpgrade: websocket\r\n\r\n", string(readHead(in)))
	require.Contains(t, <-head, "Connection: Upgrade\r\n")
	hello := make([]byte, 5)
	_, err := io.ReadFull(in, hello)
	require.NoError(t, err)
	require.Equal(t, "hello", string(hello))
	_, _ = io.WriteString(conn, " late")
	require.NoError(t, conn.CloseWrite())
	for range 20 {
		_, _ = in.ReadByte()
		read <- true
	}
	rest, _ := io.ReadAll(in)
	require.Equal(t, "[early late]", string(rest))
	n := w.notes.one(t)
	require.Equal(t, Upgraded, n.ends[0].Outcome)
	require.Equal(t, 101, n.status)
	require.Empty(t, n.reply)
}

// An upgrade that the upstream does not grant is answered as it answers; a switch for which the client did not ask is a failure.
//
// Covers C-12.
func TestUpgradesThatFail(t *testing.T) {
	answer := ""
	w := newWorld(t, raw(t, func(conn net.Conn, in *bufio.Reader) {
		readHead(in)
		_, _ = io.WriteString(conn, answer)
	}), nil)
	answer = "HTTP/1.1 426 Upgrade Required\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno"
	out := w.talk(t, "GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade, close\r\nUpgrade: websocket\r\n\r\n")
	require.True(t, strings.HasPrefix(out, "HTTP/1.1 426") && strings.HasSuffix(out, "\r\n\r\nno"), out)
	require.Equal(t, Whole, w.notes.one(t).ends[0].Outcome)
	answer = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
	for _, ask := range []string{"", "Upgrade: h2c\r\n"} {
		connection := "Connection: close, upgrade\r\n"
		out = w.talk(t, "GET / HTTP/1.1\r\nHost: h\r\n"+connection+ask+"\r\n")
		require.True(t, strings.HasPrefix(out, "HTTP/1.1 502"), out)
		require.Equal(t, Unreachable, w.notes.one(t).ends[0].Outcome)
	}
}
