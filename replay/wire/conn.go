package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// conn is one connection with everything a request on it needs, so that a kept connection serves the next request
// without allocating.
type conn struct {
	net.Conn
	tcp  *net.TCPConn // the connection below TLS, or the same
	in   reader
	out  sender
	head []byte // of the request, rebuilt for each
	dec  decoder
	idle time.Duration // when it was put back
	stop func()        // abort, as a value made once
}

// dial makes a connection. The context ends it early; the deadline, when there is one, as well.
func (c *Client) dial(ctx context.Context, deadline time.Time) (*conn, error) {
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
	d := net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 60 * time.Second, Interval: 30 * time.Second, Count: 1}}
	for _, a := range addrs {
		var nc net.Conn
		if nc, err = d.DialContext(ctx, "tcp", netip.AddrPortFrom(a, c.target.port).String()); err == nil {
			return c.newConn(ctx, nc.(*net.TCPConn))
		}
	}
	return nil, err
}

// newConn wraps a TCP connection, which has NODELAY set as all of Go's do.
func (c *Client) newConn(ctx context.Context, tcp *net.TCPConn) (*conn, error) {
	cn := &conn{Conn: tcp, tcp: tcp}
	if c.target.tls {
		t := tls.Client(tcp, c.tls)
		if err := t.HandshakeContext(ctx); err != nil {
			tcp.Close()
			return nil, handshakeError(err)
		}
		cn.Conn = t
	}
	cn.in = reader{conn: cn.Conn, now: c.now}
	cn.out.conn = cn.Conn
	cn.stop = cn.abort
	return cn, nil
}

// handshakeError says that it is about TLS, once.
func handshakeError(err error) error {
	if strings.HasPrefix(err.Error(), "tls: ") {
		return err
	}
	return fmt.Errorf("tls: %w", err)
}

// abort makes every read and write of the connection fail at once. It may be called at any time by anyone.
func (cn *conn) abort() {
	cn.tcp.SetDeadline(time.Unix(1, 0)) //nolint:errcheck // a closed connection needs no deadline
}

// Close drops the connection at once. The farewell of TLS is left out: it may block on a peer that does not read.
func (cn *conn) Close() error { return cn.tcp.Close() }

// send writes head and body. Errors of the connection come back as they are, everything else as a *bodyError.
func (cn *conn) send(head []byte, b Body) error {
	s := &cn.out
	s.head, s.left, s.err = head, b.Size(), nil
	err := s.copy(b)
	var own *bodyError
	switch {
	case errors.As(err, &own):
		return own
	case s.err != nil:
		return s.err
	case err != nil:
		return &bodyError{fmt.Errorf("request body: %w", err)}
	case s.left > 0:
		return &bodyError{fmt.Errorf("request body ended %d bytes early", s.left)}
	case len(s.head) > 0: // an empty body never called Write
		_, err = s.Write(nil)
	}
	return err
}

// bodyError is a request body that could not be read; the server has no part in it.
type bodyError struct{ error }

func (e *bodyError) Unwrap() error { return e.error }

// sender is the sending side of a connection: the writer that a Body writes itself to.
type sender struct {
	conn  net.Conn
	head  []byte // not sent yet; goes out with the first piece of the body
	left  int64  // bytes of the body still to come
	sent  int64  // since the connection was made
	err   error  // first error of the connection
	pair  [2][]byte
	queue net.Buffers
}

// copy lets the body write itself. Faults on mapped memory are turned into an error: the file may have been cut.
func (s *sender) copy(b Body) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = &bodyError{panicError(p)}
		}
	}()
	_, err = b.WriteTo(s)
	return err
}

func panicError(p any) error {
	var fault interface {
		runtime.Error
		Addr() uintptr
	}
	if err, ok := p.(error); ok && errors.As(err, &fault) {
		return fmt.Errorf("request body: memory fault at %#x: was a mapped file cut?", fault.Addr())
	}
	return fmt.Errorf("request body: panic: %v", p)
}

// Write sends a piece of the body; the first one takes the head with it in one system call.
func (s *sender) Write(p []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	if int64(len(p)) > s.left {
		return 0, &bodyError{errors.New("request body is longer than it announced")}
	}
	n, err := s.write(p)
	s.left -= int64(n)
	if err != nil {
		s.err = err
	}
	return n, err
}

func (s *sender) write(p []byte) (int, error) {
	if len(s.head) == 0 {
		n, err := s.conn.Write(p)
		s.sent += int64(n)
		return n, err
	}
	s.pair = [2][]byte{s.head, p}
	s.queue = s.pair[:]
	n, err := s.queue.WriteTo(s.conn)
	s.sent += n
	n = max(0, n-int64(len(s.head)))
	s.head, s.pair = nil, [2][]byte{}
	return int(n), err
}
