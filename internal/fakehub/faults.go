package fakehub

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Match selects the requests that a fault is for. An empty field matches all.
type Match struct {
	Listener, Method string
	Path             string // a part of the escaped path
}

func (m Match) matches(r *Request) bool {
	return (m.Listener == "" || m.Listener == r.Listener) && (m.Method == "" || m.Method == r.Method) && strings.Contains(r.Path, m.Path)
}

// Fault changes how requests are answered. It is called once per request.
type Fault func(next http.HandlerFunc) http.HandlerFunc

type rule struct {
	Match
	Fault
}

// On switches faults on for some requests. The first one is outermost.
func (h *Hub) On(m Match, faults ...Fault) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, f := range faults {
		h.rules = append(h.rules, rule{m, f})
	}
}

// Off switches all faults off.
func (h *Hub) Off() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.rules = nil
}

// Times applies a fault to the first n requests only.
func Times(n int, f Fault) Fault { return split(n, f, pass) }

// After applies a fault to all requests but the first n.
func After(n int, f Fault) Fault { return split(n, pass, f) }

// pass is no fault.
func pass(next http.HandlerFunc) http.HandlerFunc { return next }

// split applies a fault to the first n requests, and another to those that follow.
func split(n int, first, then Fault) Fault {
	var count atomic.Int64
	return func(next http.HandlerFunc) http.HandlerFunc {
		if count.Add(1) > int64(n) {
			return then(next)
		}
		return first(next)
	}
}

// handle returns the fault of a handler that gets the next one.
func handle(f func(w http.ResponseWriter, r *http.Request, next http.HandlerFunc)) Fault {
	return func(next http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { f(w, r, next) }
	}
}

// editor is a ResponseWriter that passes status, headers and body through functions, which may be nil.
type editor struct {
	http.ResponseWriter
	head func(status int, h http.Header) int
	body func(w http.ResponseWriter, p []byte) (int, error)
	once sync.Once
}

func (e *editor) WriteHeader(status int) {
	e.once.Do(func() {
		if e.head != nil {
			status = e.head(status, e.Header())
		}
		e.ResponseWriter.WriteHeader(status)
	})
}

func (e *editor) Write(p []byte) (int, error) {
	e.WriteHeader(http.StatusOK)
	if e.body != nil {
		return e.body(e.ResponseWriter, p)
	}
	return e.ResponseWriter.Write(p)
}

func (e *editor) Unwrap() http.ResponseWriter { return e.ResponseWriter }

// AfterReply calls f after every reply.
func AfterReply(f func()) Fault {
	return handle(func(w http.ResponseWriter, r *http.Request, next http.HandlerFunc) {
		defer f()
		next(w, r)
	})
}

// EditHeaders edits the status and the headers of replies.
func EditHeaders(edit func(status int, h http.Header) int) Fault {
	return handle(func(w http.ResponseWriter, r *http.Request, next http.HandlerFunc) {
		next(&editor{ResponseWriter: w, head: edit}, r)
	})
}

// SetHeader sets a header of replies; "" removes it.
func SetHeader(name, value string) Fault {
	return EditHeaders(func(status int, h http.Header) int {
		if h.Del(name); value != "" {
			h.Set(name, value)
		}
		return status
	})
}

// Rename redirects requests for a repository to a relative address with another name. S1
func Rename(from, to string) Fault {
	return handle(func(w http.ResponseWriter, r *http.Request, next http.HandlerFunc) {
		path := strings.Replace(r.URL.EscapedPath(), "/datasets/"+from+"/", "/datasets/"+to+"/", 1)
		if path == r.URL.EscapedPath() {
			next(w, r)
			return
		}
		if r.URL.RawQuery != "" {
			path += "?" + r.URL.RawQuery
		}
		w.Header().Set("Location", path)
		w.WriteHeader(http.StatusTemporaryRedirect)
	})
}

// Hops redirects n times to the same path before the reply. S1
func Hops(n int) Fault {
	return handle(func(w http.ResponseWriter, r *http.Request, next http.HandlerFunc) {
		q := r.URL.Query()
		hop, _ := strconv.Atoi(q.Get("hop"))
		if hop == n {
			next(w, r)
			return
		}
		q.Set("hop", strconv.Itoa(hop+1))
		w.Header().Set("Location", "?"+q.Encode())
		w.WriteHeader(http.StatusTemporaryRedirect)
	})
}

// ETag sends the digest of a file in another form. S3
func ETag(form func(digest string) string) Fault {
	return EditHeaders(func(status int, h http.Header) int {
		for _, name := range []string{"X-Linked-Etag", "ETag"} {
			if v := h.Get(name); v != "" {
				h.Set(name, form(strings.Trim(v, `"`)))
			}
		}
		return status
	})
}

// Drop closes the connection without a reply. S6
func Drop(http.HandlerFunc) http.HandlerFunc {
	return func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
}

// Expire refuses signed addresses that are older than a duration. S9
func (h *Hub) Expire(after time.Duration) Fault {
	return handle(func(w http.ResponseWriter, r *http.Request, next http.HandlerFunc) {
		signature := r.URL.Query().Get("X-Amz-Signature")
		h.mu.Lock()
		if given, ok := h.signed[signature]; ok && time.Since(given) >= after {
			h.expired[signature] = true
		}
		h.mu.Unlock()
		next(w, r)
	})
}

// Status replies with a status and headers, given as name, value, ... S10, S11
func Status(status int, headers ...string) Fault {
	return handle(func(w http.ResponseWriter, _ *http.Request, _ http.HandlerFunc) {
		for k := 0; k+1 < len(headers); k += 2 {
			w.Header().Set(headers[k], headers[k+1])
		}
		w.WriteHeader(status)
	})
}

// Refuse replies with an error of the hub. S12
func Refuse(status int, code, message string) Fault {
	return handle(func(w http.ResponseWriter, _ *http.Request, _ http.HandlerFunc) {
		w.Header().Del("X-Repo-Commit")
		if code != "" {
			w.Header().Set("X-Error-Code", code)
		}
		if message != "" {
			w.Header().Set("X-Error-Message", message)
		}
		w.WriteHeader(status)
	})
}

// Redirect replies with a redirect to an address. S14
func Redirect(to string) Fault { return Status(http.StatusFound, "Location", to) }

// Endless replies to a listing with empty pages, each with the address of a next one. S14
func Endless() Fault {
	page := 0
	return handle(func(w http.ResponseWriter, r *http.Request, _ http.HandlerFunc) {
		page++
		w.Header().Set("Link", fmt.Sprintf(`<%s?cursor=%d>; rel="next"`, r.URL.EscapedPath(), page))
		reply(w, []any{})
	})
}
