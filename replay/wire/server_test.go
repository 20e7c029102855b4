package wire

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// peer is the server's end of one connection, driven by a script.
type peer struct {
	t *testing.T
	*net.TCPConn
	in *bufio.Reader
}

// request reads one request and returns its bytes.
func (p *peer) request() (head string, body []byte) {
	p.t.Helper()
	var raw bytes.Buffer
	req, err := http.ReadRequest(bufio.NewReader(io.TeeReader(io.LimitReader(onlyHead{p.in}, 1<<20), &raw)))
	if err != nil {
		p.t.Errorf("request: %v", err)
		return "", nil
	}
	body = make([]byte, req.ContentLength)
	if _, err := io.ReadFull(p.in, body); err != nil {
		p.t.Errorf("request body: %v", err)
	}
	return raw.String(), body
}

// onlyHead reads line by line, so that nothing behind the head is read.
type onlyHead struct{ r *bufio.Reader }

func (h onlyHead) Read(b []byte) (int, error) {
	line, err := h.r.ReadBytes('\n')
	return copy(b, line), err
}

func (p *peer) say(parts ...string) {
	if _, err := io.WriteString(p.TCPConn, strings.Join(parts, "")); err != nil {
		p.t.Logf("server write: %v", err)
	}
}

// serve answers the i-th connection with the i-th script and returns the URL. The test waits for all scripts.
func serve(t *testing.T, scripts ...func(p *peer)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var all sync.WaitGroup
	all.Go(func() {
		for _, script := range scripts {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer nc.Close()
				script(&peer{t, nc.(*net.TCPConn), bufio.NewReader(nc)})
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		all.Wait()
	})
	return "http://" + l.Addr().String()
}

// answer returns a script that reads a request and writes an answer.
func answer(parts ...string) func(*peer) {
	return func(p *peer) {
		p.request()
		p.say(parts...)
	}
}

func newClient(t *testing.T, url string, o Options) *Client {
	t.Helper()
	c, err := New(url, o)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// textBody is a Body that writes itself in one piece.
type textBody string

func (b textBody) Size() int64 { return int64(len(b)) }
func (b textBody) WriteTo(w io.Writer) (int64, error) {
	n, err := io.WriteString(w, string(b))
	return int64(n), err
}

// post sends a small streaming request.
func post(c *Client) Result {
	return c.Do(context.Background(), &Request{Path: "/v1/chat/completions", Stream: true, Body: textBody(`{"messages":[]}`)})
}

func event1(content string) string {
	return fmt.Sprintf("data: {\"choices\":[{\"delta\":{\"content\":%q}}]}\n\n", content)
}

const (
	finishEvent = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"length\"}]}\n\n"
	usageEvent  = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":10,\"completion_tokens\":2}}\n\n"
	doneEvent   = "data: [DONE]\n\n"
	goodStream  = "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n" +
		"data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"b\"}}]}\n\n" +
		finishEvent + usageEvent + doneEvent
	eventHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
	jsonHead  = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
)

// sized returns a response with a Content-Length.
func sized(head, body string) string {
	return fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", head, len(body), body)
}

// chunked returns a response in chunks of the given size.
func chunked(head, body string, size int) string {
	var b strings.Builder
	b.WriteString(head + "Transfer-Encoding: chunked\r\n\r\n")
	for len(body) > 0 {
		n := min(size, len(body))
		fmt.Fprintf(&b, "%x\r\n%s\r\n", n, body[:n])
		body = body[n:]
	}
	return b.String() + "0\r\n\r\n"
}

// serveGood gives the same answer to every request of a connection.
func serveGood(nc net.Conn, response string) {
	in := bufio.NewReader(nc)
	for {
		length := 0
		for {
			line, err := in.ReadSlice('\n')
			if err != nil {
				return
			}
			if len(line) <= 2 {
				break
			}
			if v, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
				for _, c := range bytes.TrimSpace(v) {
					length = 10*length + int(c-'0')
				}
			}
		}
		if _, err := in.Discard(length); err != nil {
			return
		}
		if _, err := io.WriteString(nc, response); err != nil {
			return
		}
	}
}
