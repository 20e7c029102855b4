package live

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/agentx/agentx/cmd/internal/report/page"
	"github.com/agentx/agentx/internal/guard"
)

// Limits of a server. A reader that does not read keeps its connection for writeLimit; the text for it is shared by all readers.
const (
	maxConnections = 64
	readLimit      = 5 * time.Second // of a request
	writeLimit     = 10 * time.Second
	idleLimit      = time.Minute
	maxHeader      = 16 << 10 // bytes
)

// Address returns the address to listen on for HOST:PORT. Without a host only this machine can reach it.
func Address(text string) (string, error) {
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		return "", fmt.Errorf("%q: want HOST:PORT, or :PORT for this machine alone", text)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return "", fmt.Errorf("%q: port %q: want 0 to 65535; 0: one that is free", text, port)
	}
	host = cmp.Or(host, "127.0.0.1")
	return net.JoinHostPort(host, port), nil
}

// Site serves pages to people. It answers only GET, and only those whom its guard lets through: otherwise any web page that is open on this
// machine, or everybody on the network, could read them.
type Site struct {
	Drawn string // the token, if Serve drew one, which the user must be told

	listener net.Listener
	http     http.Server
	done     chan error
	guard    *guard.Guard
}

// Serve begins to serve on an address of Address, to those who have the token; "": one is drawn if the address is beyond this machine. flag names
// the address in errors. The caller must call Close.
func Serve(flag, address, token string, handler http.Handler) (*Site, error) {
	l, err := net.Listen("tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("%s: another program listens there: choose another port, or 0 for one that is free", address)
	case err != nil:
		return nil, err
	}
	token, drawn, err := guard.Token(l.Addr(), token, rand.Reader)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	s := serve(flag, l, token, handler)
	if drawn {
		s.Drawn = token
	}
	return s, nil
}

// serve begins to serve on a listener, with a token of package guard. The caller must call Close.
func serve(flag string, l net.Listener, token string, handler http.Handler) *Site {
	s := &Site{listener: l, done: make(chan error, 1), guard: guard.New(flag, l.Addr(), token)}
	s.http = http.Server{
		Handler: s.check(handler), ReadTimeout: readLimit, WriteTimeout: writeLimit, IdleTimeout: idleLimit, MaxHeaderBytes: maxHeader,
	}
	go func() { s.done <- s.http.Serve(&limitedListener{Listener: l, limit: maxConnections}) }()
	return s
}

// URL returns the address of the page.
func (s *Site) URL() string { return "http://" + s.listener.Addr().String() + "/" }

// Close ends the serving.
func (s *Site) Close() error {
	err := s.http.Close()
	<-s.done // http.ErrServerClosed
	return err
}

// policy lets the page do what a page on disk may do, and fetch its data. No other page may embed it.
var policy = (&page.Page{Live: true}).Policy() + "; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// check sets the header of every answer, and refuses requests with another method than GET, or without permission.
func (s *Site) check(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		if r.Method != http.MethodGet {
			h.Set("Allow", http.MethodGet)
			http.Error(w, "only GET is allowed", http.StatusMethodNotAllowed)
			return
		}
		switch status, why := s.guard.Refuse(w, r); {
		case status != 0:
			http.Error(w, why, status)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// limitedListener accepts at most limit connections at a time and closes further ones at once, so that none waits or keeps the run busy.
type limitedListener struct {
	net.Listener
	limit int64
	open  atomic.Int64
}

// Accept returns the next connection that is within the limit.
func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.open.Add(1) <= l.limit {
			return &limitedConn{Conn: conn, release: sync.OnceFunc(func() { l.open.Add(-1) })}, nil
		}
		l.open.Add(-1)
		_ = conn.Close()
	}
}

// limitedConn is a connection that counts until it is closed.
type limitedConn struct {
	net.Conn
	release func()
}

func (c *limitedConn) Close() error {
	defer c.release()
	return c.Conn.Close()
}
