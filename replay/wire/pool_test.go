package wire

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// ofSession sends a small streaming request of a session.
func ofSession(c *Client, session string, ends bool) Result {
	return c.Do(context.Background(), &Request{
		Path: "/v1/chat/completions", Stream: true, Body: textBody("{}"), Session: session, EndsSession: ends,
	})
}

// keepGoing answers any number of requests on a connection.
func keepGoing(p *peer) { serveGood(p, sized(eventHead, goodStream)) }

// Sessions share connections as the options say. The last requests of two sessions come first and second.
func TestReuse(t *testing.T) {
	for reuse, want := range map[Reuse][]bool{
		Pooled:         {false, true, true, true, true, true},
		StickySessions: {false, false, true, true, false, false}, // a, b; a, b again, which ends b; b, no session
		NoReuse:        {false, false, false, false, false, false},
	} {
		url := serve(t, keepGoing, keepGoing, keepGoing, keepGoing, keepGoing, keepGoing)
		c := newClient(t, url, Options{Reuse: reuse})
		var reused []bool
		for _, r := range []struct {
			session string
			ends    bool
		}{{"a", false}, {"b", false}, {"a", false}, {"b", true}, {"b", true}, {"", false}} {
			res := ofSession(c, r.session, r.ends)
			require.Nil(t, res.Err)
			reused = append(reused, res.Reused)
		}
		require.Equal(t, want, reused, "reuse %d", reuse)
		if reuse == StickySessions {
			require.Len(t, c.idle.idle, 1, "the connection of a session that has ended is closed")
		}
		c.Close()
	}
}

// The lease of a session ends with a failure, whatever became of the connection, and with a cancellation.
func TestLeaseEnds(t *testing.T) {
	refusal := sized("HTTP/1.1 500 Oops\r\n", "no")
	hold := make(chan struct{})
	url := serve(t, func(p *peer) {
		p.request()
		p.say(sized(eventHead, goodStream))
		p.request()
		p.say(refusal) // the connection could go on
	}, func(p *peer) {
		p.request()
		p.say(sized(eventHead, goodStream))
		p.request()
		p.say(eventHead, "Content-Length: 9999\r\n\r\n", event1("a"))
		<-hold
	}, keepGoing)
	defer close(hold)
	c := newClient(t, url, Options{Reuse: StickySessions})
	require.Nil(t, ofSession(c, "a", false).Err)
	res := ofSession(c, "a", false)
	require.True(t, res.Reused)
	require.Equal(t, HTTPStatus, res.Err.Category)
	require.Empty(t, c.idle.idle)

	require.Nil(t, ofSession(c, "a", false).Err)
	ctx, cancel := context.WithCancelCause(context.Background())
	res = c.Do(ctx, &Request{Path: "/", Stream: true, Body: textBody("{}"), Session: "a",
		OnFirstToken: func(time.Duration) { cancel(errors.New("over")) }})
	require.True(t, res.Reused)
	require.Equal(t, Cancelled, res.Err.Category)
	require.Empty(t, c.idle.idle)

	res = ofSession(c, "a", false)
	require.Nil(t, res.Err)
	require.False(t, res.Reused)
	c.Close()
}

// A session that sends nothing any more loses its connection when others are kept, after twice the time at the latest.
func TestOldLeaseIsClosed(t *testing.T) {
	p := pool{keep: time.Second}
	first := dialPair(t)
	p.put("a", first, 0)
	p.put("b", dialPair(t), time.Second/2)
	require.Len(t, p.idle, 2)
	p.put("b", dialPair(t), time.Second)
	require.NotContains(t, p.idle, "a")
	require.Error(t, first.SetDeadline(time.Time{}))
	p.close()
}
