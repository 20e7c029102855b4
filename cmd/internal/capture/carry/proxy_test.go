package carry

import (
	"bufio"
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

// A request goes up without prefix, hop-by-hop headers and agentx's own, and its observer sees the same bytes.
func TestProxyCarriesOneExchange(t *testing.T) {
	var got string
	w := newWorld(t, raw(t, func(c net.Conn, in *bufio.Reader) {
		got = string(readHead(in))
		body := make([]byte, 5)
		_, _ = io.ReadFull(in, body)
		got += string(body)
		_, _ = io.WriteString(c, "HTTP/1.1 529 Overloaded\r\nX-A: 1\r\nx-a: 2\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n")
	}), nil)
	out := w.talk(t, "POST /s/me/v1/messages?a=1;b=%2F HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nConnection: close, X-Gone\r\nX-Gone: 1\r\nX-B: 2\r\nX-Agentx-Capture: on\r\n\r\nhello")
	require.Equal(t, "HTTP/1.1 529 status code 529\r\nX-A: 1\r\nX-A: 2\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", out)
	n := w.notes.one(t)
	require.Equal(t, "POST /v1/messages?a=1;b=%2F HTTP/1.1\r\nHost: "+w.host+"\r\nContent-Length: 5\r\nX-B: 2\r\n\r\nhello", got)
	require.Equal(t, "hello", string(n.request))
	require.Equal(t, "abc", string(n.reply))
	require.Equal(t, []string{"dispatch", "request", "request end", "head", "reply", "end"}, n.calls)
	require.Equal(t, []error{nil}, n.upload)
	require.Equal(t, "me", n.arrival.Session)
	require.Equal(t, "/v1/messages", n.arrival.Path)
	require.Equal(t, 529, n.status)
	require.Equal(t, Whole, n.ends[0].Outcome)
	require.Equal(t, [2]int64{5, 3}, [2]int64{n.ends[0].RequestBytes, n.ends[0].ReplyBytes})
}
