// Package fakehub is a hub for tests: it serves what the Hugging Face hub serves of datasets, keeps an account of every
// request, and misbehaves as it is told to (switches.go). Nothing but tests imports it.
//
// It has three listeners. The hub; a CDN of another name and port, to which files in LFS are redirected; and another one
// of the hub's name on a third port, which nobody has any business with.
package fakehub

import (
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// File is a file of a repository.
type File struct {
	Data []byte
	LFS  bool // on the CDN, known by its sha256; otherwise git holds it, known by git's digest
	Xet  bool // in LFS, and also to be had from Xet
}

// GitDigest is what git calls a content.
func GitDigest(data []byte) string {
	sum := sha1.New()
	fmt.Fprintf(sum, "blob %d\x00", len(data))
	_, _ = sum.Write(data)
	return hex.EncodeToString(sum.Sum(nil))
}

// Digest is the sha256 of a content.
func Digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// ETag is what the hub calls the file.
func (f File) ETag() string {
	if f.LFS {
		return Digest(f.Data)
	}
	return GitDigest(f.Data)
}

// Request is one request as it arrived, and what became of it.
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

// Hub is the fake.
type Hub struct {
	HubURL, CDNURL, OtherURL string
	Page                     int    // entries of a page of a listing
	Token                    string // that is needed; "": none is

	mu      sync.Mutex
	repos   map[string]*repo
	rules   []rule
	log     []*Request
	signed  map[string]time.Time // signatures, and when they were given
	spent   map[string]bool      // signatures that ran out
	count   int
	servers []*http.Server
	serving sync.WaitGroup
	close   []func()
}

type repo struct {
	branches map[string]string
	commits  map[string]map[string]File
}

// New returns a hub without repositories, not yet reachable.
func New() *Hub {
	return &Hub{Page: 1000, repos: map[string]*repo{}, signed: map[string]time.Time{}, spent: map[string]bool{}}
}

// Commit adds a commit to a repository and moves a branch, or another reference, to it.
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

// Log is the account of all requests so far.
func (h *Hub) Log() (list []Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.log {
		list = append(list, *r)
	}
	return list
}

// ResetLog begins a new account.
func (h *Hub) ResetLog() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.log = nil
}

// Calls counts requests by the budgets of the hub: api and resolvers, and those that came to the CDN.
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

// Violations lists what is wrong whatever was asked for: requests to the third listener, and secrets or traces of the hub on the
// CDN.
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

// handler is a listener: it keeps the account and applies the switches.
func (h *Hub) handler(listener string, serve http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		entry := &Request{Listener: listener, Method: r.Method, Path: r.URL.EscapedPath(), Header: r.Header.Clone(), Range: r.Header.Get("Range"), At: time.Now()}
		h.mu.Lock()
		h.log = append(h.log, entry)
		h.count++
		id := fmt.Sprintf("req-%d", h.count)
		next := serve
		for _, rule := range slices.Backward(h.rules) {
			if rule.Match.fits(entry) {
				next = rule.Fault(next)
			}
		}
		h.mu.Unlock()
		w.Header().Set("X-Request-Id", id)
		next(&recorder{w, h, entry}, r)
	})
}

// recorder is a ResponseWriter that notes what was sent.
type recorder struct {
	http.ResponseWriter
	h *Hub
	r *Request
}

func (a *recorder) WriteHeader(status int) {
	a.h.mu.Lock()
	a.r.Status = status
	a.h.mu.Unlock()
	a.ResponseWriter.WriteHeader(status)
}

func (a *recorder) Write(p []byte) (int, error) {
	if a.r.Status == 0 {
		a.WriteHeader(http.StatusOK)
	}
	n, err := a.ResponseWriter.Write(p)
	a.h.mu.Lock()
	a.r.Sent += int64(n)
	a.h.mu.Unlock()
	return n, err
}

func (a *recorder) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func fail(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("X-Error-Code", code)
	w.Header().Set("X-Error-Message", message)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": message})
}

// serveHub answers as the hub.
func (h *Hub) serveHub(w http.ResponseWriter, r *http.Request) {
	if h.Token != "" && r.Header.Get("Authorization") != "Bearer "+h.Token {
		fail(w, http.StatusUnauthorized, "RepoNotFound", "Repository not found")
		return
	}
	path, api := strings.CutPrefix(r.URL.EscapedPath(), "/api")
	parts := strings.Split(strings.TrimPrefix(path, "/datasets/"), "/")
	if !strings.HasPrefix(path, "/datasets/") || len(parts) < 2 {
		fail(w, http.StatusNotFound, "", "Not found")
		return
	}
	name := parts[0] + "/" + parts[1]
	h.mu.Lock()
	found := h.repos[name]
	h.mu.Unlock()
	if found == nil {
		fail(w, http.StatusNotFound, "RepoNotFound", "Repository not found")
		return
	}
	verb, revision, rest := "", "main", ""
	if len(parts) > 2 {
		verb = parts[2]
	}
	if len(parts) > 3 {
		revision, _ = url.PathUnescape(parts[3])
		rest, _ = url.PathUnescape(strings.Join(parts[4:], "/"))
	}
	h.mu.Lock()
	commit := revision
	if c, ok := found.branches[revision]; ok {
		commit = c
	}
	files, ok := found.commits[commit]
	h.mu.Unlock()
	if !ok {
		fail(w, http.StatusNotFound, "RevisionNotFound", "Invalid rev id: "+revision)
		return
	}
	w.Header().Set("X-Repo-Commit", commit)
	switch {
	case api && (verb == "" || verb == "revision"):
		h.serveInfo(w, name, commit, files)
	case api && verb == "tree":
		h.serveTree(w, r, files)
	case api && verb == "paths-info":
		h.servePaths(w, r, files)
	case api && verb == "xet-read-token":
		h.serveXetToken(w)
	case api && verb == "auth-check":
		w.WriteHeader(http.StatusOK)
	case !api && verb == "resolve":
		h.nameXet(w, name, commit, files[rest])
		h.serveResolve(w, r, rest, files)
	default:
		fail(w, http.StatusNotFound, "", "Not found")
	}
}

func reply(w http.ResponseWriter, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	_, _ = w.Write(data)
}

func (h *Hub) serveInfo(w http.ResponseWriter, name, commit string, files map[string]File) {
	var siblings []map[string]any
	for _, path := range slices.Sorted(maps.Keys(files)) {
		siblings = append(siblings, map[string]any{"rfilename": path})
	}
	reply(w, map[string]any{"_id": "1", "id": name, "sha": commit, "private": false, "gated": false, "disabled": false,
		"lastModified": "2026-06-21T00:00:00.000Z", "tags": []string{}, "downloads": 0, "likes": 0, "siblings": siblings})
}

// item is a file as listings have it.
func item(path string, f File) map[string]any {
	m := map[string]any{"type": "file", "path": path, "size": len(f.Data), "oid": GitDigest(f.Data)}
	if f.LFS {
		pointer := fmt.Sprintf("version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize %d\n", Digest(f.Data), len(f.Data))
		m["oid"] = GitDigest([]byte(pointer))
		m["lfs"] = map[string]any{"oid": Digest(f.Data), "size": len(f.Data), "pointerSize": len(pointer)}
	}
	if f.Xet {
		m["xetHash"] = f.XetHash()
	}
	return m
}

func (h *Hub) serveTree(w http.ResponseWriter, r *http.Request, files map[string]File) {
	list := []map[string]any{}
	folders := map[string]bool{}
	for _, path := range slices.Sorted(maps.Keys(files)) {
		if dir, _, ok := strings.Cut(path, "/"); ok && dir != "" && !folders[dir] {
			folders[dir] = true
			list = append(list, map[string]any{"type": "directory", "path": dir, "size": 0, "oid": GitDigest([]byte(dir))})
		}
		list = append(list, item(path, files[path]))
	}
	start, _ := strconv.Atoi(r.URL.Query().Get("cursor"))
	end := min(start+h.Page, len(list))
	if end < len(list) {
		q := r.URL.Query()
		q.Set("cursor", strconv.Itoa(end))
		q.Set("limit", strconv.Itoa(h.Page))
		w.Header().Set("Link", fmt.Sprintf(`<%s%s?%s>; rel="next"`, h.HubURL, r.URL.EscapedPath(), q.Encode()))
	}
	reply(w, list[start:end])
}

func (h *Hub) servePaths(w http.ResponseWriter, r *http.Request, files map[string]File) {
	var ask struct {
		Paths []string `json:"paths"`
	}
	if strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
		_ = json.NewDecoder(r.Body).Decode(&ask)
	} else if r.ParseForm() == nil { // as the Python client asks
		ask.Paths = r.PostForm["paths"]
	}
	list := []map[string]any{}
	for _, path := range ask.Paths {
		if f, ok := files[path]; ok {
			list = append(list, item(path, f))
		}
	}
	reply(w, list)
}

func (h *Hub) serveResolve(w http.ResponseWriter, r *http.Request, path string, files map[string]File) {
	f, ok := files[path]
	if !ok {
		fail(w, http.StatusNotFound, "EntryNotFound", "Entry not found")
		return
	}
	w.Header().Set("Accept-Ranges", "bytes")
	if !f.LFS {
		serveBytes(w, r, `"`+f.ETag()+`"`, f.Data)
		return
	}
	h.mu.Lock()
	signature := fmt.Sprintf("secret-%d", len(h.signed)+1)
	h.signed[signature] = time.Now()
	h.mu.Unlock()
	to := h.CDNURL + "/repos/" + f.ETag() + "?X-Amz-Signature=" + signature + "&Expires=3600"
	w.Header().Set("X-Linked-Etag", `"`+f.ETag()+`"`)
	w.Header().Set("X-Linked-Size", strconv.Itoa(len(f.Data)))
	w.Header().Set("ETag", `"`+GitDigest(f.Data)+`"`)
	w.Header().Set("Location", to)
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	text := "Found. Redirecting to " + to
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(http.StatusFound)
	if r.Method == http.MethodGet {
		_, _ = w.Write([]byte(text))
	}
}

// serveCDN answers as the CDN: by the digest, if the signature is good.
func (h *Hub) serveCDN(w http.ResponseWriter, r *http.Request) {
	if h.serveXet(w, r) {
		return
	}
	signature := r.URL.Query().Get("X-Amz-Signature")
	h.mu.Lock()
	_, given := h.signed[signature]
	spent := h.spent[signature]
	h.mu.Unlock()
	if !given || spent {
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte("<Error><Code>AccessDenied</Code></Error>"))
		return
	}
	digest := strings.TrimPrefix(r.URL.Path, "/repos/")
	if f, ok := h.find(func(f File) bool { return f.LFS && f.ETag() == digest }); ok {
		serveBytes(w, r, `"cdn-`+digest[:16]+`"`, f.Data)
		return
	}
	w.WriteHeader(http.StatusNotFound)
}

// find returns a file of any repository.
func (h *Hub) find(is func(File) bool) (File, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.repos {
		for _, files := range r.commits {
			for _, f := range files {
				if is(f) {
					return f, true
				}
			}
		}
	}
	return File{}, false
}

// serveBytes serves a content, whole or the range that is asked for.
func serveBytes(w http.ResponseWriter, r *http.Request, etag string, data []byte) {
	w.Header().Set("ETag", etag)
	start, size, status := int64(0), len(data), http.StatusOK
	if text, ok := strings.CutPrefix(r.Header.Get("Range"), "bytes="); ok {
		if v := r.Header.Get("If-Range"); v == "" || v == etag {
			first, last, _ := strings.Cut(text, "-")
			start, _ = strconv.ParseInt(first, 10, 64)
			if n, err := strconv.Atoi(last); err == nil && n < len(data) {
				data = data[:n+1]
			}
			status = http.StatusPartialContent
			if start >= int64(len(data)) {
				w.Header().Set("Content-Range", fmt.Sprintf("bytes */%d", len(data)))
				w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
				return
			}
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", start, len(data)-1, size))
		}
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.FormatInt(int64(len(data))-start, 10))
	w.WriteHeader(status)
	if r.Method == http.MethodHead {
		return
	}
	for data = data[start:]; len(data) > 0; {
		n, err := w.Write(data[:min(len(data), 64<<10)])
		if err != nil {
			return
		}
		data = data[n:]
	}
}
