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
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
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
