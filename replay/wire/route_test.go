package wire

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// namedServer returns a client of a server whose name has some addresses, which a function lists; connect says which take a connection. Whatever
// the address is, connections lead to the same listener.
func namedServer(t *testing.T, o Options, addrs func() []string, takes func(addr string) bool) *Client {
	t.Helper()
	listener := netip.MustParseAddrPort(echo(t)[len("http://"):])
	c := newClient(t, "http://inference:8000", o)
	c.resolver.lookup = func(context.Context, string, string) (list []netip.Addr, err error) {
		for _, a := range addrs() {
			list = append(list, netip.MustParseAddr(a))
		}
		return list, nil
	}
	c.connect = func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
		if !takes(to.Addr().String()) {
			return nil, errors.New("it takes no connection")
		}
		return new(net.Dialer).DialContext(ctx, "tcp", listener.String())
	}
	return c
}

// onRoute sends a request on a route and returns the address that got it.
func onRoute(t *testing.T, c *Client, r *Route, session string) Result {
	t.Helper()
	res := c.Do(context.Background(), &Request{Path: "/", Stream: true, Body: textBody("{}"), Route: r, Session: session})
	require.Nil(t, res.Err)
	return res
}

// Routes take the addresses of the first family in turn, and stay: with all connections, and when the name server answers in another
// order or with others. One whose address takes no connection goes on at the next, and stays there.
//
// Covers T-154.
func TestRoutes(t *testing.T) {
	for _, reuse := range []Reuse{Pooled, StickySessions, NoReuse} {
		answer := []string{"2001:db8::1", "10.0.0.3", "10.0.0.1", "10.0.0.2", "10.0.0.1"}
		dead := ""
		c := namedServer(t, Options{Reuse: reuse}, func() []string { return answer }, func(addr string) bool { return addr != dead })
		routes := make([]*Route, 7)
		for k := range routes {
			routes[k] = NewRoute(k)
		}
		want := []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"}
		for round := range 3 {
			for k, r := range routes {
				res := onRoute(t, c, r, "session"+string(rune('a'+k)))
				require.Equal(t, want[k%3], res.Address)
				if round > 0 {
					require.Equal(t, reuse != NoReuse, res.Reused)
				}
			}
			slices.Reverse(answer)
			<-c.resolver.token
			c.resolver.expiry = c.resolver.expiry.AddDate(-1, 0, 0)
			c.resolver.token <- struct{}{}
		}
		c.Close()
		dead = "10.0.0.2"
		require.Equal(t, "10.0.0.3", onRoute(t, c, routes[4], "e").Address)
		dead = ""
		require.Equal(t, "10.0.0.3", onRoute(t, c, routes[4], "e").Address, "it stays")
		answer = []string{"10.0.0.9"}
		require.Equal(t, "10.0.0.1", onRoute(t, c, routes[0], "a").Address, "it is not named any more, but takes connections")
	}
}

// Without a choice, and without a route, requests have no address, and share connections.
func TestNoRoutes(t *testing.T) {
	only := []string{"10.0.0.1", "2001:db8::1"}
	c := namedServer(t, Options{}, func() []string { return only }, func(addr string) bool { return addr != "10.0.0.1" })
	first, second := NewRoute(0), NewRoute(1)
	require.False(t, onRoute(t, c, first, "").Reused)
	res := onRoute(t, c, second, "")
	require.True(t, res.Reused)
	require.Empty(t, res.Address)
	require.True(t, onRoute(t, c, nil, "").Reused)
}
