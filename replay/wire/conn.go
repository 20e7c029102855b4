package wire

import (
	"context"
	"crypto/tls"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"
	"time"
)

// conn is one connection with all that a request on it needs, so that the next request on it allocates nothing.
type conn struct {
	net.Conn
	raw     net.Conn // the connection below TLS, or the same
	in      reader
	out     requestWriter
	head    []byte // of the request, rebuilt for each
	dec     decoder
	idle    time.Duration // when it was put into the pool
	address string        // of the server, as Route.address tells it
	stop    func()        // abort, as a value made once
	flight  int           // index in flights
	stalled atomic.Bool   // the request on it has stalled

	suspected time.Duration // when the bytes came, plus 1, behind which EndStalled has found too long a silence; 0: it has not
}

// dial makes a connection to the first address that takes one: to that of the route, if there is one. It ends with ctx, at the deadline (zero: none) or after the
// dial timeout, whichever is first.
func (c *Client) dial(ctx context.Context, deadline time.Time, route *Route) (*conn, error) {
	limit := time.Now().Add(c.dialTimeout)
	if !deadline.IsZero() && deadline.Before(limit) {
		limit = deadline
	}
	ctx, cancel := context.WithDeadline(ctx, limit)
	defer cancel()
	addrs, err := c.resolver.addresses(ctx)
	if err != nil {
		return nil, err
	}
	for _, a := range route.order(addrs) {
		nc, failed := c.connect(ctx, netip.AddrPortFrom(a, c.target.port))
		if failed == nil {
			return c.newConn(ctx, nc, route.stay(a))
		}
		if err == nil || adviceFor(failed) == "" { // a server that refuses says more than this machine, which may have no IPv6 address
			err = failed
		}
	}
	return nil, err
}

// dialTCP returns a function that makes TCP connections, which have NODELAY set like all of Go's. userTimeout is that of Options.
func dialTCP(userTimeout time.Duration) func(context.Context, netip.AddrPort) (net.Conn, error) {
	d := net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 60 * time.Second, Interval: 30 * time.Second, Count: 1}}
	if userTimeout > 0 {
		d.Control = func(_, _ string, s syscall.RawConn) error { return limitUnacknowledged(s, userTimeout) }
	}
	return func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
		return d.DialContext(ctx, "tcp", to.String())
	}
}

// newConn wraps a connection, and makes the TLS handshake of an https target.
func (c *Client) newConn(ctx context.Context, raw net.Conn, address string) (*conn, error) {
	cn := &conn{Conn: raw, raw: raw, address: address}
	if c.target.tls {
		t := tls.Client(raw, c.tls)
		if err := t.HandshakeContext(ctx); err != nil {
			raw.Close()
			return nil, handshakeError(err)
		}
		cn.Conn = t
	}
	cn.in.conn, cn.in.now = cn.Conn, c.now
	cn.out.conn = cn.Conn
	cn.stop = cn.abort
	return cn, nil
}

// abort makes every read and write of the connection fail at once. Any goroutine may call it at any time.
func (cn *conn) abort() {
	cn.raw.SetDeadline(time.Unix(1, 0)) //nolint:errcheck // a closed connection needs no deadline
}

// Close closes the TCP connection at once, without the closing alert of TLS: that write may block on a peer that does not read.
func (cn *conn) Close() error { return cn.raw.Close() }
