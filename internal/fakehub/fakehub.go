// Package fakehub is a Hugging Face hub for tests. It serves datasets and models, records every request, and misbehaves where a test
// switches a fault on.
//
//	h := fakehub.New()
//	commit := h.Commit("owner/name", "main", map[string]fakehub.File{"a.jsonl": {Data: data, LFS: true}})
//	transport := h.ListenInMemory() // or h.Listen() for real sockets
//	defer h.Close()
//	h.On(fakehub.Match{Listener: "cdn"}, fakehub.Times(1, fakehub.Cut(1000)))
//
// It has three listeners: the hub; a CDN with another name and port, to which the hub redirects for files in LFS; and
// another server with the hub's name on a third port, which must get no request. doc/spec/hub.md 13 lists the faults; the
// comments give their numbers there.
package fakehub

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// File is a file of a repository.
type File struct {
	Data []byte
	LFS  bool // on the CDN, and named by its sha256; else on the hub, and named by git's sha1
	Xet  bool // in LFS, and also on Xet
}

// GitDigest returns git's sha1 of a content.
func GitDigest(data []byte) string {
	sum := sha1.New()
	fmt.Fprintf(sum, "blob %d\x00", len(data))
	_, _ = sum.Write(data)
	return hex.EncodeToString(sum.Sum(nil))
}

// Digest returns the sha256 of a content.
func Digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// ETag returns the digest that the hub uses for the file.
func (f File) ETag() string {
	if f.LFS {
		return Digest(f.Data)
	}
	return GitDigest(f.Data)
}

// Request is one recorded request, with its reply.
type Request struct {
	Listener string // hub, cdn or other
	Method   string
	Path     string // escaped, without the query
	Header   http.Header
	Range    string
	At       time.Time
	Status   int
	Sent     int64 // bytes of the body
}

// Hub is a fake hub. Set its fields before the first request.
type Hub struct {
	HubURL, cdnURL, OtherURL string // set by ListenInMemory and Listen
	Page                     int    // entries of a page of a listing
	Token                    string // that requests must have; "": none

	mu      sync.Mutex
	repos   map[string]*repo
	rules   []rule
	log     []*Request
	signed  map[string]time.Time // signatures of addresses, and when they were issued
	expired map[string]bool      // signatures that are refused
	count   int
	servers []*http.Server
	serving sync.WaitGroup
	close   []func()
}

type repo struct {
	branches map[string]string
	commits  map[string]map[string]File
}

// New returns a hub without repositories. ListenInMemory or Listen makes it reachable.
func New() *Hub {
	return &Hub{Page: 1000, repos: map[string]*repo{}, signed: map[string]time.Time{}, expired: map[string]bool{}}
}

// Commit adds a commit to a repository, and points a branch or another reference to it.
func (h *Hub) Commit(name, branch string, files map[string]File) (commit string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.repos[name]
	if r == nil {
		r = &repo{map[string]string{}, map[string]map[string]File{}}
		h.repos[name] = r
	}
	sum := sha1.New()
	fmt.Fprintln(sum, name, branch, len(r.commits))
	for _, path := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintln(sum, path, files[path].ETag())
	}
	commit = hex.EncodeToString(sum.Sum(nil))
	r.commits[commit], r.branches[branch] = files, commit
	return commit
}

// CommitModel adds a commit to a repository of a model, and points a branch or another reference to it.
func (h *Hub) CommitModel(name, branch string, files map[string]File) (commit string) {
	return h.Commit("models/"+name, branch, files)
}

// Log returns the requests since the last ResetLog.
func (h *Hub) Log() (list []Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.log {
		list = append(list, *r)
	}
	return list
}

// ResetLog forgets all requests.
func (h *Hub) ResetLog() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.log = nil
}

// Calls counts the requests by rate limit of the hub, and those to the CDN.
func (h *Hub) Calls() (api, resolvers, cdn int) {
	for _, r := range h.Log() {
		switch {
		case r.Listener == "cdn":
			cdn++
		case r.Listener == "hub" && strings.HasPrefix(r.Path, "/api/"):
			api++
		case r.Listener == "hub":
			resolvers++
		}
	}
	return api, resolvers, cdn
}

// Violations lists requests that a client must not send: those to the third listener, those with credentials to the CDN, and
// those without the required headers.
func (h *Hub) Violations() (list []string) {
	for _, r := range h.Log() {
		if r.Listener == "other" {
			list = append(list, "a request to the other origin: "+r.Path)
		}
		for _, name := range []string{"Authorization", "Cookie", "Referer"} {
			if r.Listener != "hub" && r.Header.Get(name) != "" {
				list = append(list, name+" on "+r.Listener)
			}
		}
		if r.Header.Get("Accept-Encoding") != "identity" {
			list = append(list, "Accept-Encoding "+r.Header.Get("Accept-Encoding"))
		}
		if !strings.HasPrefix(r.Header.Get("User-Agent"), "agentx/") {
			list = append(list, "User-Agent "+r.Header.Get("User-Agent"))
		}
	}
	return list
}

// handler records requests to a listener, and applies the faults.
func (h *Hub) handler(listener string, serve http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		entry := &Request{Listener: listener, Method: r.Method, Path: r.URL.EscapedPath(), Header: r.Header.Clone(), Range: r.Header.Get("Range"), At: time.Now()}
		h.mu.Lock()
		h.log = append(h.log, entry)
		h.count++
		id := fmt.Sprintf("req-%d", h.count)
		next := serve
		for _, rule := range slices.Backward(h.rules) {
			if rule.matches(entry) {
				next = rule.Fault(next)
			}
		}
		h.mu.Unlock()
		w.Header().Set("X-Request-Id", id)
		next(h.recording(w, entry), r)
	})
}

// recording is a ResponseWriter that records status and size.
func (h *Hub) recording(w http.ResponseWriter, r *Request) http.ResponseWriter {
	return &editor{ResponseWriter: w, head: func(status int, _ http.Header) int {
		h.mu.Lock()
		defer h.mu.Unlock()
		r.Status = status
		return status
	}, body: func(w http.ResponseWriter, p []byte) (int, error) {
		n, err := w.Write(p)
		h.mu.Lock()
		defer h.mu.Unlock()
		r.Sent += int64(n)
		return n, err
	}}
}

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
