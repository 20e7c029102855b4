package fakehub

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

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
