package wire

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A server that sends nothing for too long has stalled: in the middle of an answer, which another limit holds for than before its first
// byte. Requests that receive something, and those without a limit, go on.
//
// Covers T-161.
func TestStalledServer(t *testing.T) {
	const limit, first = 5 * time.Minute, 30 * time.Minute
	for name, c := range map[string]struct {
		says    []string
		silent  time.Duration // at which the request fails
		message string
		status  int
		chunks  int
	}{
		"before a byte":        {nil, first, "the server sent no byte of an answer within 30m0s", 0, 0},
		"in the head":          {[]string{"HTTP/1.1 200 OK\r\n"}, limit, "the server sent nothing for 5m0s in the middle of its answer", 0, 0},
		"in the answer":        {[]string{eventHead, "\r\n", event1("a"), event1("b")}, limit, "the server sent nothing for 5m0s in the middle of its answer", 200, 2},
		"behind a whole chunk": {[]string{eventHead, "Transfer-Encoding: chunked\r\n\r\n", "1\r\n:\r\n"}, limit, "the server sent nothing for 5m0s in the middle of its answer", 200, 0},
	} {
		t.Run(name, func(t *testing.T) {
			said, over := make(chan struct{}), make(chan struct{})
			client := newClient(t, serve(t, func(p *peer) {
				p.request()
				p.say(c.says...)
				close(said)
				<-over
			}), Options{StallTimeout: limit, FirstByteTimeout: first})
			result := make(chan Result)
			go func() { result <- post(client) }()
			<-said
			cn := received(client, len(c.says) > 0)
			since, begun := cn.silentSince()
			for range 2 {
				client.EndStalled(since + c.silent - 1)
				require.False(t, cn.stalled.Load(), "not before")
			}
			client.EndStalled(since + c.silent)
			require.False(t, cn.stalled.Load(), "bytes may have come that are not read yet")
			heard := client.EndStalled(since + c.silent)
			res := <-result
			close(over)
			require.Equal(t, &Failure{Category: Stalled, Message: c.message, Code: c.status}, res.Err)
			require.Equal(t, c.chunks, res.Chunks)
			require.Empty(t, client.flights.conns)
			require.Empty(t, client.idle.idle[""])
			if begun {
				require.Equal(t, since, heard)
				require.Equal(t, since, client.EndStalled(0), "it is known of what is over")
			} else {
				require.Zero(t, heard)
			}
		})
	}
}

// received returns the connection of the request in flight when its answer has begun, or, if it does not, at once.
func received(c *Client, begins bool) *conn {
	for {
		c.flights.mu.Lock()
		for _, cn := range c.flights.conns {
			if _, begun := cn.silentSince(); begun == begins {
				c.flights.mu.Unlock()
				return cn
			}
		}
		c.flights.mu.Unlock()
		runtime.Gosched()
	}
}

// Without a limit nothing stalls, and a request that goes on is not touched. Of several requests that ends which has stalled.
func TestOnlyWhatHasStalledEnds(t *testing.T) {
	over := make(chan struct{})
	hangs := func(p *peer) {
		p.request()
		p.say(eventHead, "\r\n", event1("a"))
		<-over
		p.say(finishEvent, doneEvent)
	}
	client := newClient(t, serve(t, hangs, answer(sized(eventHead, goodStream))), Options{FirstByteTimeout: time.Second})
	begun, result := make(chan struct{}), make(chan Result)
	go func() {
		result <- client.Do(context.Background(), &Request{
			Path: "/", Stream: true, Body: textBody("{}"), OnFirstToken: func(time.Duration) { close(begun) },
		})
	}()
	<-begun
	require.Nil(t, post(client).Err)
	for range 3 {
		client.EndStalled(1000 * time.Hour)
	}
	close(over)
	require.Nil(t, (<-result).Err)
}

// Retry-After is a number of seconds or a date, which counts from the date of the answer; other statuses have none.
//
// Covers T-162.
func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		value, date string
		want        time.Duration
	}{
		{"", "", 0}, {"2", "", 2 * time.Second}, {"1.5", "", 1500 * time.Millisecond}, {"120", "", 2 * time.Minute},
		{"0", "", time.Second}, {"0.2", "", time.Second}, {"-1", "", 0}, {"soon", "", 0}, {"NaN", "", 0}, {"1e300", "", 1 << 62},
		{"Sun, 01 Mar 2026 12:00:30 GMT", "", 30 * time.Second},
		{"Sun, 01 Mar 2026 12:00:30 GMT", "Sun, 01 Mar 2026 12:00:20 GMT", 10 * time.Second},
		{"Sunday, 01-Mar-26 12:00:30 GMT", "no date", 30 * time.Second},
		{"Sun, 01 Mar 2026 11:00:00 GMT", "", time.Second},
	} {
		require.InDelta(t, c.want, retryAfter(c.value, c.date, now), 1, "%q %q", c.value, c.date)
	}
	for status, want := range map[string]time.Duration{"429 Too Many Requests": 7 * time.Second, "503 Busy": 7 * time.Second, "500 Broken": 0, "529 Overloaded": 0} {
		client := newClient(t, serve(t, answer(sized("HTTP/1.1 "+status+"\r\nretry-after: 7\r\nDate: Sun, 01 Mar 2026 12:00:00 GMT\r\n", "{}"))), Options{})
		res := post(client)
		require.NotNil(t, res.Err)
		require.Equal(t, want, res.RetryAfter, status)
	}
	client := newClient(t, serve(t, answer(sized(eventHead+"Retry-After: 7\r\n", goodStream))), Options{})
	require.Zero(t, post(client).RetryAfter)
}

// Bytes that come between two looks, as after this process stood still, show that a server has not stalled.
func TestBytesBetweenTwoLooks(t *testing.T) {
	c := &Client{stallTimeout: time.Minute}
	cn := dialPair(t)
	c.flights.enter(cn, 0)
	for at := time.Minute; at < time.Hour; at += time.Minute {
		c.EndStalled(at + time.Second)
		cn.in.heard.Store(int64(at))
		c.EndStalled(at + time.Second)
		require.False(t, cn.stalled.Load())
	}
	c.EndStalled(time.Hour)
	c.EndStalled(time.Hour)
	require.True(t, cn.stalled.Load())
	require.True(t, c.flights.leave(cn))
	c.flights.enter(cn, time.Hour)
	require.False(t, cn.stalled.Load())
	c.EndStalled(2 * time.Hour)
	require.False(t, cn.stalled.Load(), "another request")
}
