package wire

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/fixtures"
)

// slowBody is a body of zeros whose size takes time to tell. The client asks for it while it waits for a connection, before it
// sends, and while it sends: so a test says how long these steps take.
type slowBody struct {
	size  int
	waits []time.Duration
}

func (b *slowBody) Size() int64 {
	if len(b.waits) > 0 {
		time.Sleep(b.waits[0])
		b.waits = b.waits[1:]
	}
	return int64(b.size)
}

func (b *slowBody) WriteTo(w io.Writer) (int64, error) {
	n, err := w.Write(make([]byte, b.size))
	return int64(n), err
}

// traced is a vector of the steps of a request.
type traced struct {
	WaitStart     int64 `json:"wait_start_ns"`
	WaitEnd       int64 `json:"wait_end_ns"`
	ConnectStart  int64 `json:"connect_start_ns"`
	ConnectEnd    int64 `json:"connect_end_ns"`
	SendStart     int64 `json:"send_start_ns"`
	SendEnd       int64 `json:"send_end_ns"`
	FirstByte     int64 `json:"first_byte_ns"`
	LastByte      int64 `json:"last_byte_ns"`
	BytesSent     int   `json:"bytes_sent"`
	BytesReceived int   `json:"bytes_received"`
	Reused        bool
}

// answerSlowly reads a request and answers it, each step as long as the vector says.
func (v *traced) answerSlowly(nc net.Conn) {
	last := make([]byte, 1)
	_, _ = io.ReadFull(nc, make([]byte, v.BytesSent-1))
	time.Sleep(time.Duration(v.SendEnd - v.SendStart))
	_, _ = io.ReadFull(nc, last)
	time.Sleep(time.Duration(v.FirstByte - v.SendEnd))
	head := eventHead + "Content-Length: %05d\r\n\r\n"
	size := v.BytesReceived - len(fmt.Sprintf(head, 0))
	answer := fmt.Sprintf(head, size) + ": " + strings.Repeat("x", size-len(": \n\n")-len(goodStream)) + "\n\n" + goodStream
	first := len(answer)
	if v.LastByte > v.FirstByte {
		first = 1
	}
	_, _ = io.WriteString(nc, answer[:first])
	if first < len(answer) {
		time.Sleep(time.Duration(v.LastByte - v.FirstByte))
		_, _ = io.WriteString(nc, answer[first:])
	}
}

// The steps of a request on its connection are those of the group, to the nanosecond. Time is virtual, the connection a pipe.
//
// Covers T-56.
func TestVectorsHTTPTrace(t *testing.T) {
	fixtures.EachCase(t, "http_trace", fixtures.Counts{2, 2, 2}, func(t *testing.T, _ fixtures.Case, in traced, want map[string]float64) {
		synctest.Test(t, func(t *testing.T) {
			c, err := New("http://127.0.0.1:1", Options{KeepAlive: time.Hour})
			require.NoError(t, err)
			served := make(chan struct{})
			c.connect = func(context.Context, netip.AddrPort) (net.Conn, error) {
				time.Sleep(time.Duration(in.ConnectEnd - in.ConnectStart))
				near, far := net.Pipe()
				go func() {
					defer close(served)
					defer far.Close()
					if in.Reused {
						serveOnce(far)
					}
					in.answerSlowly(far)
				}()
				return near, nil
			}
			if in.Reused {
				require.Nil(t, post(c).Err)
			}
			time.Sleep(time.Duration(in.WaitStart) - c.now())
			connected := max(in.WaitEnd, in.ConnectEnd)
			body := &slowBody{waits: []time.Duration{time.Duration(in.WaitEnd - in.WaitStart), time.Duration(in.SendStart - connected), 0}}
			r := &Request{Path: "/", Stream: true, Body: body}
			body.size = in.BytesSent - headSize(c, r, in.BytesSent)
			res := c.Do(t.Context(), r)
			require.Nil(t, res.Err)
			c.Close()
			<-served

			orNever := func(ns int64) time.Duration {
				if ns == 0 {
					return Never
				}
				return time.Duration(ns)
			}
			require.Equal(t, Exchange{
				time.Duration(in.WaitEnd), orNever(in.ConnectStart), orNever(in.ConnectEnd), time.Duration(in.SendStart), time.Duration(in.SendEnd),
				time.Duration(in.FirstByte), time.Duration(in.LastByte),
			}, res.Exchange)
			x := res.Exchange
			require.Equal(t, time.Duration(in.WaitStart), res.Sent)
			require.Equal(t, in.Reused, res.Reused)
			ms := func(d time.Duration) float64 { return float64(d) / 1e6 }
			got := map[string]float64{
				"http_req_blocked": ms(x.WaitEnd - res.Sent), "http_req_connecting": ms(x.ConnectEnd - x.ConnectStart),
				"http_req_sending": ms(x.SendEnd - x.SendStart), "http_req_waiting": ms(x.FirstByte - x.SendEnd), "http_req_receiving": ms(x.LastByte - x.FirstByte),
				"http_req_data_sent": float64(res.BytesSent) / 1024, "http_req_data_received": float64(res.BytesReceived) / 1024,
				"http_req_connection_reused": 0,
			}
			if res.Reused {
				got["http_req_connection_reused"] = 1
			}
			require.Equal(t, want, got)
		})
	})
}

// serveOnce gives one good answer.
func serveOnce(nc net.Conn) {
	in := bufio.NewReader(nc)
	for line := ""; line != "\r\n"; {
		line, _ = in.ReadString('\n')
	}
	_, _ = in.Discard(len(`{"messages":[]}`)) // the body of post
	_, _ = io.WriteString(nc, sized(eventHead, goodStream))
}

// headSize returns the size of the head of a request of the given size in all.
func headSize(c *Client, r *Request, total int) int {
	probe := *r
	probe.Body = textBody(strings.Repeat("x", total))
	res := newResult(0)
	n := len((&call{Client: c, request: &probe, res: &res}).appendHead(nil))
	probe.Body = textBody(strings.Repeat("x", total-n))
	return len((&call{Client: c, request: &probe, res: &res}).appendHead(nil))
}

// A request that failed has ended when it was over for the client, to the nanosecond: with the last byte of an error body, with the
// refusal, with the timeout, with the cancellation.
//
// Covers T-56.
func TestEndOfFailures(t *testing.T) {
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		connect error // after 3 ms; nil: a connection
		script  func(nc net.Conn)
		cancel  time.Duration
		want    Category
		acknow  time.Duration
		end     time.Duration
	}{
		"500 after 50 ms": {want: HTTPStatus, acknow: 53 * ms, end: 60 * ms, script: func(nc net.Conn) {
			time.Sleep(50 * ms)
			_, _ = io.WriteString(nc, "HTTP/1.1 500 Oops\r\nContent-Length: 4\r\n\r\n")
			time.Sleep(7 * ms)
			_, _ = io.WriteString(nc, "oops")
		}},
		"error body that never ends": {want: Overload, acknow: 3 * ms, end: 3*ms + errorWait, script: func(nc net.Conn) {
			_, _ = io.WriteString(nc, "HTTP/1.1 503 Busy\r\n\r\nla")
			time.Sleep(time.Hour)
		}},
		"refusal": {connect: syscall.ECONNREFUSED, want: Connection, acknow: Never, end: 3 * ms},
		"hang-up": {want: Connection, acknow: Never, end: 8 * ms, script: func(net.Conn) { time.Sleep(5 * ms) }},
		"timeout": {want: Timeout, acknow: 13 * ms, end: 90 * time.Second, script: func(nc net.Conn) {
			time.Sleep(10 * ms)
			_, _ = io.WriteString(nc, eventHead+"\r\n"+event1("a"))
			time.Sleep(time.Hour)
		}},
		"nothing but comments": {want: Timeout, acknow: 3 * ms, end: 90 * time.Second, script: func(nc net.Conn) {
			_, err := io.WriteString(nc, eventHead+"\r\n")
			for err == nil {
				time.Sleep(time.Second)
				_, err = io.WriteString(nc, ": keep-alive\n\n")
			}
		}},
		"cancelled": {want: Cancelled, cancel: 40 * ms, acknow: Never, end: 40 * ms, script: func(net.Conn) { time.Sleep(time.Hour) }},
		"truncated": {want: StreamTruncated, acknow: 3 * ms, end: 5 * ms, script: func(nc net.Conn) {
			_, _ = io.WriteString(nc, eventHead+"\r\n"+event1("a"))
			time.Sleep(2 * ms)
		}},
		"error event": {want: StreamEvent, acknow: 3 * ms, end: 3 * ms, script: func(nc net.Conn) {
			_, _ = io.WriteString(nc, eventHead+"\r\n"+event1("a")+"event: error\ndata: {}\n\n")
			time.Sleep(time.Hour)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, err := New("http://127.0.0.1:1", Options{Timeout: 90 * time.Second})
				require.NoError(t, err)
				r := &Request{Path: "/", Stream: true, Body: textBody("{}")}
				client.connect = func(context.Context, netip.AddrPort) (net.Conn, error) {
					time.Sleep(3 * ms)
					if c.connect != nil {
						return nil, c.connect
					}
					near, far := net.Pipe()
					go func() {
						defer far.Close()
						head := (&call{Client: client, request: r, res: new(Result)}).appendHead(nil)
						_, _ = io.ReadFull(far, make([]byte, len(head)+len("{}")))
						c.script(far)
					}()
					return near, nil
				}
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				if c.cancel > 0 {
					time.AfterFunc(c.cancel, func() { cancel(io.EOF) })
				}
				res := client.Do(ctx, r)
				time.Sleep(2 * time.Hour) // until the server's side has ended, too
				require.NotNil(t, res.Err)
				require.Equal(t, c.want, res.Err.Category)
				require.Equal(t, c.acknow, res.Acknowledged)
				require.Equal(t, c.end, res.End)
				require.Greater(t, res.End, res.Sent)
			})
		})
	}
}
