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

// Match says which requests a switch is for. What is empty fits all.
type Match struct {
	Listener, Method string
	Path             string // that the escaped path contains
}

func (m Match) fits(r *Request) bool {
	return (m.Listener == "" || m.Listener == r.Listener) && (m.Method == "" || m.Method == r.Method) && strings.Contains(r.Path, m.Path)
}

// Fault changes how requests are answered.
type Fault func(next http.HandlerFunc) http.HandlerFunc

type rule struct {
	Match
	Fault
}

// On switches something on for some requests. The first that was switched on stands outermost.
func (h *Hub) On(m Match, switches ...Fault) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range switches {
		h.rules = append(h.rules, rule{m, s})
	}
}

// Off switches everything off.
func (h *Hub) Off() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.rules = nil
}

// Times applies a switch to the first n requests only.
func Times(n int, s Fault) Fault {
	var count atomic.Int64
	return func(next http.HandlerFunc) http.HandlerFunc {
		if count.Add(1) > int64(n) {
			return next
		}
		return s(next)
	}
}

// After leaves the first n requests alone.
func After(n int, s Fault) Fault {
	var count atomic.Int64
	return func(next http.HandlerFunc) http.HandlerFunc {
		if count.Add(1) <= int64(n) {
			return next
		}
		return s(next)
	}
}

// AfterReply runs f after every request was answered.
func AfterReply(f func()) Fault {
	return func(next http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			defer f()
			next(w, r)
		}
	}
}

// changed is a ResponseWriter whose headers are edited at the last moment, and whose body goes through a function.
type changed struct {
	http.ResponseWriter
	head func(status int, h http.Header) int
	body func(w http.ResponseWriter, p []byte) (int, error)
	once sync.Once
}

func (c *changed) WriteHeader(status int) {
	c.once.Do(func() {
		if c.head != nil {
			status = c.head(status, c.Header())
		}
		c.ResponseWriter.WriteHeader(status)
	})
}

func (c *changed) Write(p []byte) (int, error) {
	c.WriteHeader(http.StatusOK)
	if c.body != nil {
		return c.body(c.ResponseWriter, p)
	}
	return c.ResponseWriter.Write(p)
}

func (c *changed) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// EditHeaders edits the headers of replies.
func EditHeaders(edit func(status int, h http.Header) int) Fault {
	return func(next http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { next(&changed{ResponseWriter: w, head: edit}, r) }
	}
}

// SetHeader sets a header; "" takes it away.
func SetHeader(name, value string) Fault {
	return EditHeaders(func(status int, h http.Header) int {
		if h.Del(name); value != "" {
			h.Set(name, value)
		}
		return status
	})
}

// Rename answers requests for a repository by the relative address of another (1).
func Rename(from, to string) Fault {
	return func(next http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
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
		}
	}
}

// Hops redirects n times to the same path before it answers (1).
func Hops(n int) Fault {
	return func(next http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			q := r.URL.Query()
			hop, _ := strconv.Atoi(q.Get("hop"))
			if hop == n {
				next(w, r)
				return
			}
			q.Set("hop", strconv.Itoa(hop+1))
			w.Header().Set("Location", "?"+q.Encode())
			w.WriteHeader(http.StatusTemporaryRedirect)
		}
	}
}

// ETag writes the digest of a file in another form (3).
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

// IgnoreRange serves the whole although a part was asked for (5).
func IgnoreRange(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		r.Header.Del("Range")
		next(w, r)
	}
}

// NoRange answers every range with 416 (5).
func NoRange(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Range") != "" {
			w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
			return
		}
		next(w, r)
	}
}

// WrongRange answers a range with another: it begins so many bytes later, or is of a file so many bytes longer (5).
func WrongRange(start, size int64) Fault {
	return func(next http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			var from int64
			if n, _ := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from); n == 1 {
				r.Header.Set("Range", fmt.Sprintf("bytes=%d-", from+start))
			}
			next(&changed{ResponseWriter: w, head: func(status int, h http.Header) int {
				var a, b, total int64
				if n, _ := fmt.Sscanf(h.Get("Content-Range"), "bytes %d-%d/%d", &a, &b, &total); n == 3 {
					h.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", a, b, total+size))
				}
				return status
			}}, r)
		}
	}
}

// Cut closes the connection after n bytes of the body (6).
func Cut(n int64) Fault {
	return func(next http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			left := n
			c := &changed{ResponseWriter: w, body: func(w http.ResponseWriter, p []byte) (int, error) {
				if int64(len(p)) < left {
					left -= int64(len(p))
					return w.Write(p)
				}
				_, _ = w.Write(p[:left])
				_ = http.NewResponseController(w).Flush()
				panic(http.ErrAbortHandler)
			}}
			next(c, r)
		}
	}
}

// Drop closes the connection before there is any answer (6).
func Drop(http.HandlerFunc) http.HandlerFunc {
	return func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
}

// MisstateLength announces so many bytes more, or fewer; 0 announces nothing (7).
func MisstateLength(by int64) Fault {
	return func(next http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			next(&changed{ResponseWriter: w, head: func(status int, h http.Header) int {
				n, err := strconv.ParseInt(h.Get("Content-Length"), 10, 64)
				if h.Del("Content-Length"); err == nil && by != 0 {
					h.Set("Content-Length", strconv.FormatInt(n+by, 10))
				}
				return status
			}}, r)
		}
	}
}

// Corrupt turns one bit of the body, the same each time it is sent (8).
func Corrupt(at int64) Fault {
	return func(next http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			pos := int64(0)
			if v, ok := strings.CutPrefix(r.Header.Get("Range"), "bytes="); ok {
				v, _, _ = strings.Cut(v, "-")
				pos, _ = strconv.ParseInt(v, 10, 64)
			}
			next(&changed{ResponseWriter: w, body: func(w http.ResponseWriter, p []byte) (int, error) {
				if k := at - pos; k >= 0 && k < int64(len(p)) {
					p = bytes.Clone(p)
					p[k] ^= 0x20
				}
				pos += int64(len(p))
				return w.Write(p)
			}}, r)
		}
	}
}

// Expire lets signed addresses run out so long after they were given (9).
func (h *Hub) Expire(after time.Duration) Fault {
	return func(next http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			signature := r.URL.Query().Get("X-Amz-Signature")
			h.mu.Lock()
			if given, ok := h.signed[signature]; ok && time.Since(given) >= after {
				h.spent[signature] = true
			}
			h.mu.Unlock()
			next(w, r)
		}
	}
}

// ExpireBytes lets a signed address run out after it gave n bytes, in the middle of a body (9).
func (h *Hub) ExpireBytes(n int64) Fault {
	return func(next http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			signature := r.URL.Query().Get("X-Amz-Signature")
			left := n
			next(&changed{ResponseWriter: w, body: func(w http.ResponseWriter, p []byte) (int, error) {
				if int64(len(p)) <= left {
					left -= int64(len(p))
					return w.Write(p)
				}
				h.mu.Lock()
				h.spent[signature] = true
				h.mu.Unlock()
				_, _ = w.Write(p[:left])
				_ = http.NewResponseController(w).Flush()
				panic(http.ErrAbortHandler)
			}}, r)
		}
	}
}

// Status answers with a status and headers (10, 11).
func Status(status int, headers ...string) Fault {
	return func(http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			for k := 0; k+1 < len(headers); k += 2 {
				w.Header().Set(headers[k], headers[k+1])
			}
			w.WriteHeader(status)
		}
	}
}

// Refuse answers with an error of the hub (12).
func Refuse(status int, code, message string) Fault {
	return func(http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Del("X-Repo-Commit")
			if code != "" {
				w.Header().Set("X-Error-Code", code)
			}
			if message != "" {
				w.Header().Set("X-Error-Message", message)
			}
			w.WriteHeader(status)
		}
	}
}

// Redirect sends requests elsewhere (14).
func Redirect(to string) Fault { return Status(http.StatusFound, "Location", to) }

// Slow sends n bytes, one a second, and then is silent for as long as the client stays (15).
func Slow(n int) Fault { return SlowAfter(0, n) }

// SlowAfter is Slow after so many bytes that come at once.
func SlowAfter(fast, n int) Fault {
	return func(next http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			sent, left := 0, fast
			next(&changed{ResponseWriter: w, body: func(w http.ResponseWriter, p []byte) (int, error) {
				quick, err := w.Write(p[:min(left, len(p))])
				if left -= quick; err != nil {
					return quick, err
				}
				for k := quick; k < len(p); k++ {
					if sent == n {
						<-r.Context().Done()
						return k, r.Context().Err()
					}
					select {
					case <-time.After(time.Second):
					case <-r.Context().Done():
						return k, r.Context().Err()
					}
					if _, err := w.Write(p[k : k+1]); err != nil {
						return k, err
					}
					if err := http.NewResponseController(w).Flush(); err != nil {
						return k, err
					}
					sent++
				}
				return len(p), nil
			}}, r)
		}
	}
}

// Oversize sends n bytes more than it should, below 0 without an end (17).
func Oversize(n int64) Fault {
	return func(next http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			c := &changed{ResponseWriter: w, head: func(status int, h http.Header) int {
				h.Del("Content-Length")
				return status
			}}
			next(c, r)
			more := make([]byte, 4<<10)
			for left := n; left != 0; {
				size := int64(len(more))
				if left > 0 {
					size = min(size, left)
					left -= size
				}
				if _, err := c.Write(more[:size]); err != nil {
					return
				}
			}
		}
	}
}

// Endless answers a listing with empty pages, each of which names a next one.
func Endless() Fault {
	page := 0
	return func(http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			page++
			w.Header().Set("Link", fmt.Sprintf(`<%s?cursor=%d>; rel="next"`, r.URL.EscapedPath(), page))
			reply(w, []any{})
		}
	}
}

// Gzip encodes the body although nobody asked for that (18).
func Gzip(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		z := gzip.NewWriter(w)
		next(&changed{ResponseWriter: w, head: func(status int, h http.Header) int {
			h.Set("Content-Encoding", "gzip")
			h.Del("Content-Length")
			return status
		}, body: func(_ http.ResponseWriter, p []byte) (int, error) { return z.Write(p) }}, r)
		if r.Method != http.MethodHead {
			_ = z.Close()
		}
	}
}

// CutAndCall sends n bytes of the body, calls f, and closes the connection.
func CutAndCall(n int64, f func()) Fault {
	return func(next http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			left := n
			next(&changed{ResponseWriter: w, body: func(w http.ResponseWriter, p []byte) (int, error) {
				if int64(len(p)) <= left {
					left -= int64(len(p))
					return w.Write(p)
				}
				_, _ = w.Write(p[:left])
				_ = http.NewResponseController(w).Flush()
				f()
				panic(http.ErrAbortHandler)
			}}, r)
		}
	}
}
