package fakehub

import (
	"bytes"
	"compress/gzip"
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

// IgnoreRange replies to a range with the whole file. S5
func IgnoreRange(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		r.Header.Del("Range")
		next(w, r)
	}
}

// NoRange replies to a range with 416. S5
func NoRange(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Range") != "" {
			w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
			return
		}
		next(w, r)
	}
}

// WrongRange replies to a range with one that begins start bytes later, of a file that is size bytes longer. S5
func WrongRange(start, size int64) Fault {
	return handle(func(w http.ResponseWriter, r *http.Request, next http.HandlerFunc) {
		var from int64
		if n, _ := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from); n == 1 {
			r.Header.Set("Range", fmt.Sprintf("bytes=%d-", from+start))
		}
		next(&editor{ResponseWriter: w, head: func(status int, h http.Header) int {
			var a, b, total int64
			if n, _ := fmt.Sscanf(h.Get("Content-Range"), "bytes %d-%d/%d", &a, &b, &total); n == 3 {
				h.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", a, b, total+size))
			}
			return status
		}}, r)
	})
}

// Cut closes the connection after n bytes of the body. S6
func Cut(n int64) Fault { return CutAndCall(n, func() {}) }

// CutAndCall sends n bytes of the body, calls f, and closes the connection.
func CutAndCall(n int64, f func()) Fault {
	return cutBody(n, func(*http.Request) { f() })
}

// ExpireBytes lets a signed address expire after n bytes, and closes the connection. S9
func (h *Hub) ExpireBytes(n int64) Fault {
	return cutBody(n, func(r *http.Request) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.expired[r.URL.Query().Get("X-Amz-Signature")] = true
	})
}

// cutBody sends n bytes of a body, calls f, and closes the connection. A body of at most n bytes is sent as it is.
func cutBody(n int64, f func(*http.Request)) Fault {
	return handle(func(w http.ResponseWriter, r *http.Request, next http.HandlerFunc) {
		left := n
		next(&editor{ResponseWriter: w, body: func(w http.ResponseWriter, p []byte) (int, error) {
			if int64(len(p)) <= left {
				left -= int64(len(p))
				return w.Write(p)
			}
			_, _ = w.Write(p[:left])
			_ = http.NewResponseController(w).Flush()
			f(r)
			panic(http.ErrAbortHandler)
		}}, r)
	})
}

// MisstateLength adds to the Content-Length; 0 removes the header. S7
func MisstateLength(by int64) Fault {
	return EditHeaders(func(status int, h http.Header) int {
		n, err := strconv.ParseInt(h.Get("Content-Length"), 10, 64)
		if h.Del("Content-Length"); err == nil && by != 0 {
			h.Set("Content-Length", strconv.FormatInt(n+by, 10))
		}
		return status
	})
}

// Corrupt changes one bit of the file, at the byte at. S8
func Corrupt(at int64) Fault {
	return handle(func(w http.ResponseWriter, r *http.Request, next http.HandlerFunc) {
		pos := int64(0)
		if v, ok := strings.CutPrefix(r.Header.Get("Range"), "bytes="); ok {
			v, _, _ = strings.Cut(v, "-")
			pos, _ = strconv.ParseInt(v, 10, 64)
		}
		next(&editor{ResponseWriter: w, body: func(w http.ResponseWriter, p []byte) (int, error) {
			if k := at - pos; k >= 0 && k < int64(len(p)) {
				p = bytes.Clone(p)
				p[k] ^= 0x20
			}
			pos += int64(len(p))
			return w.Write(p)
		}}, r)
	})
}

// Slow sends n bytes, one a second, and then nothing until the client disconnects. S15
func Slow(n int) Fault { return SlowAfter(0, n) }

// SlowAfter sends fast bytes at once, and then does as Slow.
func SlowAfter(fast, n int) Fault {
	return handle(func(w http.ResponseWriter, r *http.Request, next http.HandlerFunc) {
		sent, left := 0, fast
		next(&editor{ResponseWriter: w, body: func(w http.ResponseWriter, p []byte) (int, error) {
			quick, err := w.Write(p[:min(left, len(p))])
			if left -= quick; err != nil {
				return quick, err
			}
			for k := quick; k < len(p); k++ {
				if err := sendSlowly(w, r, p[k:k+1], sent == n); err != nil {
					return k, err
				}
				sent++
			}
			return len(p), nil
		}}, r)
	})
}

// sendSlowly sends p after a second, or never.
func sendSlowly(w http.ResponseWriter, r *http.Request, p []byte, never bool) error {
	var second <-chan time.Time // nil: never
	if !never {
		second = time.After(time.Second)
	}
	select {
	case <-second:
	case <-r.Context().Done():
		return r.Context().Err()
	}
	if _, err := w.Write(p); err != nil {
		return err
	}
	return http.NewResponseController(w).Flush()
}

// Oversize sends n bytes after the body, without a Content-Length; below 0 without an end. S17
func Oversize(n int64) Fault {
	return handle(func(w http.ResponseWriter, r *http.Request, next http.HandlerFunc) {
		e := &editor{ResponseWriter: w, head: func(status int, h http.Header) int {
			h.Del("Content-Length")
			return status
		}}
		next(e, r)
		more := make([]byte, 4<<10)
		for left := n; left != 0; {
			size := int64(len(more))
			if left > 0 {
				size = min(size, left)
				left -= size
			}
			if _, err := e.Write(more[:size]); err != nil {
				return
			}
		}
	})
}

// Gzip compresses the body although the request did not ask for it. S18
func Gzip(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		z := gzip.NewWriter(w)
		next(&editor{ResponseWriter: w, head: func(status int, h http.Header) int {
			h.Set("Content-Encoding", "gzip")
			h.Del("Content-Length")
			return status
		}, body: func(_ http.ResponseWriter, p []byte) (int, error) { return z.Write(p) }}, r)
		if r.Method != http.MethodHead {
			_ = z.Close()
		}
	}
}
