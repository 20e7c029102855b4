package meet

import (
	"context"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

// overTCP lets parts meet on the loopback interface.
func overTCP(t *testing.T, ctx context.Context, of int) (list []joined) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	w := &world{t: t}
	options := w.all(of)
	for k := range options {
		o := &options[k]
		o.Address, o.Dial = l.Addr().String(), nil
		o.Listen = func(context.Context) (net.Listener, error) { return l, nil }
	}
	list = w.join(ctx, options...)
	for _, j := range list {
		require.NoError(t, j.err)
	}
	return list
}

// Over real connections parts meet, begin, and end: what was said last before a connection ends has come.
//
// Covers D-11.
func TestOverTCP(t *testing.T) {
	for from := range 3 {
		parts := overTCP(t, t.Context(), 3)
		(&world{t: t}).begin(parts)
		each(parts, func(k int, m *Meeting) {
			if k == from {
				m.Stop(Failed, "a gate has failed")
			} else {
				<-m.Context().Done()
				require.Equal(t, "a gate has failed", m.Stopped().Reason)
			}
			m.Finish(m.Context())
			m.Close()
			require.Empty(t, m.Lost())
		})
	}
	parts := overTCP(t, t.Context(), 3)
	(&world{t: t}).begin(parts)
	finish(parts)
}

// Part 0 listens on the loopback interface alone where the address names it, else on all addresses.
func TestListen(t *testing.T) {
	for address, loopback := range map[string]bool{"127.0.0.1:0": true, "localhost:0": true, "[::1]:0": true, "n0.example:0": false, "10.1.2.3:0": false} {
		o := Options{Address: address}
		l, err := o.listen(t.Context())
		if address == "[::1]:0" && err != nil {
			continue // a machine without IPv6
		}
		require.NoError(t, err)
		require.Equal(t, loopback, l.Addr().(*net.TCPAddr).IP.IsLoopback(), address)
		require.NoError(t, l.Close())
	}
}
