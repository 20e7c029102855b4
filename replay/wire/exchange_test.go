package wire

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

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
