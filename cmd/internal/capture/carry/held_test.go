package carry

import (
	"bufio"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A held request reaches its observer whole before the upstream is asked, and goes up as it came.
func TestHeldRequestsGoUpWhole(t *testing.T) {
	for name, request := range map[string]string{
		"length": "POST /v1/messages HTTP/1.1\r\nHost: h\r\nContent-Length: 6\r\n\r\nabcdef",
		"chunks": "POST /v1/messages HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n3\r\nabc\r\n3\r\ndef\r\n0\r\nX-Sum: 1\r\n\r\n",
		"none":   "GET /v1/models HTTP/1.1\r\nHost: h\r\n\r\n",
		"empty":  "POST /v1/messages HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			sent, err := readMessage(bufio.NewReader(strings.NewReader(request)), false)
			require.NoError(t, err)
			arrived := make(chan message, 1)
			w := newWorld(t, raw(t, func(conn net.Conn, in *bufio.Reader) {
				m, _ := readMessage(in, false)
				arrived <- m
				_, _ = io.WriteString(conn, plain)
			}), nil)
			w.notes.course.Hold = true
			conn := w.dial(t)
			_, _ = io.WriteString(conn, request)
			require.Equal(t, sent.crossed(), (<-arrived).crossed())
			m, err := readMessage(bufio.NewReader(conn), false)
			require.NoError(t, err)
			require.Equal(t, "ok", m.body)
			n := w.notes.one(t)
			require.Equal(t, sent.body, string(n.request))
			require.Equal(t, int64(len(sent.body)), n.ends[0].RequestBytes)
			if sent.body == "" {
				require.Equal(t, []string{"request end", "dispatch", "head", "reply", "end"}, n.calls)
			} else {
				require.Equal(t, []string{"request", "request end", "dispatch", "head", "reply", "end"}, n.calls)
			}
		})
	}
}

// A refusal is answered in the shape of the API, the upstream is not asked, and the connection serves the next request.
func TestRefusalsAreAnsweredHere(t *testing.T) {
	for _, hold := range []bool{false, true} {
		w := newWorld(t, raw(t, func(net.Conn, *bufio.Reader) { t.Error("the upstream was asked") }), nil)
		w.notes.course.Hold = hold
		w.notes.refuse = &Refusal{Status: 409, Message: `session "busy"`, RetryAfter: 1}
		conn := w.dial(t)
		in := bufio.NewReader(conn)
		for _, c := range [][2]string{
			{"/v1/messages", `{"type":"error","error":{"type":"conflict_error","message":"session \"busy\""}}`},
			{"/v1/chat/completions", `{"error":{"message":"session \"busy\"","type":"conflict_error","param":null,"code":null}}`},
		} {
			_, _ = io.WriteString(conn, strings.Replace(post, "/v1/messages", c[0], 1))
			m, err := readMessage(in, false)
			require.NoError(t, err)
			require.Equal(t, "HTTP/1.1 409", m.first)
			require.Equal(t, c[1], m.body)
			require.Contains(t, m.headers, "Retry-After: 1")
			require.Equal(t, Refused, w.notes.one(t).ends[0].Outcome)
		}
	}
}

// A held request that is too long is answered 413, whether or not it says so; the longest one is carried.
func TestHeldRequestsHaveALimit(t *testing.T) {
	for request, want := range map[string]string{
		"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 8\r\n\r\nabcdefgh":                                "HTTP/1.1 200",
		"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nabcdefghi":                               "HTTP/1.1 413",
		"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n8\r\nabcdefgh\r\n0\r\n\r\n":     "HTTP/1.1 200",
		"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nabcdefghi\r\n0\r\n\r\n":    "HTTP/1.1 413",
		"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000000000\r\nExpect: 100-continue\r\n\r\n":    "HTTP/1.1 413",
		"POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 5000000000000000\r\n\r\n": "HTTP/1.1 413",
	} {
		w := newWorld(t, raw(t, says(plain)), func(o *Options) { o.held = 8 })
		w.notes.course.Hold = true
		conn := w.dial(t)
		_, _ = io.WriteString(conn, request)
		m, err := readMessage(bufio.NewReader(conn), false)
		require.NoError(t, err)
		require.Equal(t, want, m.first, request)
		conn.Close()
		w.notes.one(t)
	}
}

// A client that first sends all of a request that is too long, and then reads, gets the 413, and goes on with the connection.
//
// Covers C-22.
func TestClientThatWritesFirstReadsThe413(t *testing.T) {
	const limit, length = 1 << 20, 12 << 20 // what is too much fits no buffer of a socket
	part := strings.Repeat("x", 1<<20)
	for _, head := range []string{"Transfer-Encoding: chunked\r\n\r\n", "Content-Length: " + strconv.Itoa(length) + "\r\n\r\n"} {
		w := newWorld(t, raw(t, says(plain)), func(o *Options) { o.held = limit })
		w.notes.course.Hold = true
		conn := w.dial(t)
		before, after, end := "", "", ""
		if strings.HasPrefix(head, "T") {
			before, after, end = "100000\r\n", "\r\n", "0\r\n\r\n"
		}
		_, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: h\r\n"+head)
		require.NoError(t, err)
		for range length / len(part) {
			_, err := io.WriteString(conn, before+part+after)
			require.NoError(t, err, "the proxy reads on")
		}
		_, err = io.WriteString(conn, end+"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nshort")
		require.NoError(t, err)
		in := bufio.NewReader(conn)
		m, err := readMessage(in, false)
		require.NoError(t, err)
		require.Equal(t, "HTTP/1.1 413", m.first)
		require.Contains(t, m.body, "agentx capture --linear reads requests of up to 1048576 bytes")
		m, err = readMessage(in, false)
		require.NoError(t, err)
		require.Equal(t, "HTTP/1.1 200", m.first)
		conn.Close()
	}
}

// A held upload that breaks off never reaches the upstream.
//
// Covers C-23.
func TestHeldUploadsThatBreakOff(t *testing.T) {
	w := newWorld(t, raw(t, func(net.Conn, *bufio.Reader) { t.Error("the upstream was asked") }), nil)
	w.notes.course.Hold = true
	conn := w.dial(t)
	_, _ = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nabc")
	conn.Close()
	n := w.notes.one(t)
	require.Equal(t, Left, n.ends[0].Outcome)
	require.Equal(t, []error{errUpload}, n.upload)
}
