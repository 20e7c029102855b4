package wire

import (
	"context"
	"crypto/tls"
	"net"
	"net/netip"
	"slices"
	"sync"
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
	used    bool          // has served a request
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

// Reuse says which requests may use a connection that has served another request.
type Reuse uint8

// The kinds of reuse.
const (
	Pooled         Reuse = iota // every request: it gets the connection that was used last
	StickySessions              // a request of the same session, which has the connection to itself: see Request.Session
	NoReuse                     // none: every request has a connection of its own
)

// pool keeps idle connections by session; those that any request may use are of the session "", or of the address that they lead to where a
// server has several. It gives out the newest first,
// so that surplus connections age and are closed.
type pool struct {
	mu     sync.Mutex
	idle   map[string][]*conn // oldest first
	keep   time.Duration      // how long a connection is kept; not positive: not at all
	swept  time.Duration      // when all sessions were last looked through for old connections
	closed bool
}

// get returns an idle connection that is open as far as can be seen, nil when there is none.
func (p *pool) get(session string, now time.Duration) *conn {
	for {
		cn := p.pop(session)
		if cn == nil {
			return nil
		}
		if now-cn.idle < p.keep && cn.alive() {
			return cn
		}
		cn.Close()
	}
}

// count returns how many connections of a session are not too old.
func (p *pool) count(session string, now time.Duration) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, cn := range p.idle[session] {
		if now-cn.idle < p.keep {
			n++
		}
	}
	return n
}

// pop takes the newest idle connection of a session, whatever its age; nil: there is none.
func (p *pool) pop(session string) *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	idle := p.idle[session]
	n := len(idle)
	if n == 0 {
		return nil
	}
	cn := idle[n-1]
	idle[n-1] = nil
	p.set(session, idle[:n-1])
	return cn
}

// set replaces the connections of a session. A session without any is forgotten.
func (p *pool) set(session string, idle []*conn) {
	if len(idle) == 0 && session != "" {
		delete(p.idle, session)
		return
	}
	p.idle[session] = idle
}

// put adds a connection and closes those that were idle for too long.
func (p *pool) put(session string, cn *conn, now time.Duration) {
	cn.idle = now
	p.mu.Lock()
	p.closeOld(session, now)
	if now-p.swept >= p.keep {
		p.swept = now
		for other := range p.idle {
			p.closeOld(other, now)
		}
	}
	keep := !p.closed && p.keep > 0
	if keep {
		if p.idle == nil {
			p.idle = map[string][]*conn{}
		}
		p.idle[session] = append(p.idle[session], cn)
	}
	p.mu.Unlock()
	if !keep {
		cn.Close()
	}
}

// closeOld closes the connections of a session that were idle for too long.
func (p *pool) closeOld(session string, now time.Duration) {
	idle := p.idle[session]
	old := 0
	for old < len(idle) && now-idle[old].idle >= p.keep {
		idle[old].Close()
		old++
	}
	if old > 0 {
		p.set(session, slices.Delete(idle, 0, old))
	}
}

// close closes all idle connections. Later ones are closed by put.
func (p *pool) close() {
	p.mu.Lock()
	idle := p.idle
	p.idle, p.closed = nil, true
	p.mu.Unlock()
	for _, list := range idle {
		for _, cn := range list {
			cn.Close()
		}
	}
}
