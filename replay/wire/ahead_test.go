package wire

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// ahead returns a number of requests of sessions of their own.
func ahead(n int) (list []Ahead) {
	for k := range n {
		list = append(list, Ahead{Session: string(rune('a' + k))})
	}
	return list
}

// Open makes what is missing: a second call with the same requests makes nothing, and one that has used its session's connection needs none.
func TestOpen(t *testing.T) {
	for _, reuse := range []Reuse{Pooled, StickySessions} {
		c := newClient(t, "http://"+sinkAddress(t), Options{Reuse: reuse, KeepAlive: time.Minute})
		require.Equal(t, 3, c.Open(t.Context(), ahead(3)))
		require.Zero(t, c.Open(t.Context(), ahead(3)))
		require.Equal(t, 2, c.Open(t.Context(), ahead(5)))
		for n, reused := range []bool{false, true} {
			r := c.Do(t.Context(), &Request{Path: "/v1/chat/completions", Stream: true, Session: "a", Body: textBody(`{}`)})
			require.Nil(t, r.Err)
			require.Equal(t, Never, r.Exchange.ConnectStart)
			require.Equal(t, reused, r.Reused, "request %d", n)
		}
		require.Zero(t, c.Open(t.Context(), ahead(5)))
		c.Close()
		require.Empty(t, c.idle.idle)
	}
	never := newClient(t, "http://"+sinkAddress(t), Options{Reuse: NoReuse})
	require.Zero(t, never.Open(t.Context(), ahead(3)))
	nameless := newClient(t, "http://"+sinkAddress(t), Options{Reuse: StickySessions})
	require.Zero(t, nameless.Open(t.Context(), make([]Ahead, 3)))
}

// A connection that is kept too long is no connection.
func TestOpenBesideOldConnections(t *testing.T) {
	c := newClient(t, "http://"+sinkAddress(t), Options{KeepAlive: time.Minute})
	require.Equal(t, 2, c.Open(t.Context(), ahead(2)))
	c.idle.idle[""][0].idle -= time.Minute
	require.Equal(t, 1, c.Open(t.Context(), ahead(2)))
}

// Open gives up at the first connection that cannot be made, and when its context ends.
func TestOpenGivesUp(t *testing.T) {
	c := newClient(t, "http://"+sinkAddress(t), Options{DialTimeout: time.Hour})
	dial := c.connect
	var tried atomic.Int64
	made := make(chan bool, 2)
	c.connect = func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
		switch n := tried.Add(1); {
		case n <= 2:
			defer func() { made <- true }()
			return dial(ctx, to)
		case n == 3:
			<-made
			<-made
			return nil, errors.New("no more")
		}
		<-ctx.Done()
		return nil, ctx.Err()
	}
	require.Equal(t, 2, c.Open(t.Context(), ahead(1000)))
	require.LessOrEqual(t, tried.Load(), int64(openAtOnce+2))

	ctx, cancel := context.WithCancel(t.Context())
	tried.Store(3)
	c.connect = func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
		if tried.Add(1) == 3+5 {
			cancel()
		}
		<-ctx.Done()
		return nil, ctx.Err()
	}
	require.Zero(t, c.Open(ctx, ahead(1000)))
}
