package fakehub

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
)

// pipeListener is a listener inside the process.
type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (m *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-m.conns:
		return c, nil
	case <-m.done:
		return nil, net.ErrClosed
	}
}

func (m *pipeListener) Close() error {
	m.once.Do(func() { close(m.done) })
	return nil
}

func (m *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipeListener", Net: "pipe"} }

func (m *pipeListener) dial(ctx context.Context) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case m.conns <- theirs:
		return ours, nil
	case <-m.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// ListenInMemory makes the hub reachable inside this process, and returns the transport that leads there. Inside a
// synctest bubble the hub uses its clock. The addresses are https, but nothing is encrypted.
func (h *Hub) ListenInMemory() *http.Transport {
	h.HubURL, h.cdnURL, h.OtherURL = "https://hub.test", "https://cdn.test:8443", "https://hub.test:8444"
	listeners := map[string]*pipeListener{}
	for _, l := range []struct {
		addr, name string
		serve      http.HandlerFunc
	}{{"hub.test:443", "hub", h.serveHub}, {"cdn.test:8443", "cdn", h.serveCDN}, {"cdn2.test:8443", "cdn", h.serveCDN}, {"hub.test:8444", "other", h.serveHub}} {
		m := &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
		listeners[l.addr] = m
		h.serve(m, l.name, l.serve)
	}
	dial := func(ctx context.Context, _, addr string) (net.Conn, error) {
		if m := listeners[addr]; m != nil {
			return m.dial(ctx)
		}
		return nil, fmt.Errorf("the fake hub has no address %s", addr)
	}
	t := &http.Transport{DialContext: dial, DialTLSContext: dial, DisableCompression: true, MaxIdleConnsPerHost: 64}
	h.close = append(h.close, t.CloseIdleConnections)
	return t
}

// Listen makes the hub reachable on the loopback interface: the hub as 127.0.0.1, the CDN as localhost.
func (h *Hub) Listen() error {
	for _, l := range []struct {
		host, name string
		url        *string
		serve      http.HandlerFunc
	}{{"127.0.0.1", "hub", &h.HubURL, h.serveHub}, {"localhost", "cdn", &h.cdnURL, h.serveCDN}, {"127.0.0.1", "other", &h.OtherURL, h.serveHub}} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		*l.url = fmt.Sprintf("http://%s:%d", l.host, listener.Addr().(*net.TCPAddr).Port)
		h.serve(listener, l.name, l.serve)
	}
	return nil
}

func (h *Hub) serve(l net.Listener, name string, serve http.HandlerFunc) {
	s := &http.Server{Handler: h.handler(name, serve), ErrorLog: log.New(io.Discard, "", 0)}
	h.servers = append(h.servers, s)
	h.serving.Go(func() { _ = s.Serve(l) }) // it returns after Close
}

// Close stops the listeners and closes all connections.
func (h *Hub) Close() {
	for _, f := range h.close {
		f()
	}
	for _, s := range h.servers {
		_ = s.Close()
	}
	h.serving.Wait()
}
