package carry

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"
)

// head passes the head of the final reply on.
func (x *exchange) head(reply *http.Response) {
	x.watch.head(x.last, reply.StatusCode, reply.Header)
	h := x.w.Header()
	passOn(h, reply.Header)
	for _, name := range []string{"Date", "Content-Type"} {
		if _, ok := h[name]; !ok {
			h[name] = nil // net/http would add one
		}
	}
	if len(reply.Trailer) > 0 {
		names := make([]string, 0, len(reply.Trailer))
		for name := range reply.Trailer {
			names = append(names, name)
		}
		slices.Sort(names)
		h["Trailer"] = []string{strings.Join(names, ", ")}
	}
	x.w.WriteHeader(reply.StatusCode)
	if reply.ContentLength != 0 {
		x.flush()
	}
	if first := x.firstByte.Load(); first >= 0 {
		x.p.o.Added(FirstByte, x.p.o.Now()-first)
	}
}

// stream passes the body of the reply on, each read at once. The client's connection breaks where the upstream's broke.
func (x *exchange) stream(reply *http.Response) {
	pool := &x.p.short
	buffer := pool.Get().(*[]byte)
	defer func() { pool.Put(buffer) }()
	silence := x.silence()
	for {
		silence.watch()
		n, err := reply.Body.Read(*buffer)
		silence.rest()
		if n > 0 {
			x.last = x.p.o.Now()
			x.pass((*buffer)[:n])
			x.watch.replied((*buffer)[:n], x.last)
		}
		if n == len(*buffer) && pool == &x.p.short {
			pool.Put(buffer)
			pool = &x.p.long
			buffer = pool.Get().(*[]byte)
		}
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			x.breakOff()
		}
	}
}

// pass writes bytes to the client. With Options.Detach one that has ended its half of the connection may still read: it gets what
// it takes.
func (x *exchange) pass(p []byte) {
	left := x.r.Context().Err() != nil
	x.gone = x.gone || left && x.p.o.Detach
	if x.shut {
		return
	}
	if !left || x.p.o.Detach {
		if _, err := x.w.Write(p); err == nil && x.flush() {
			x.p.o.Added(Flush, x.p.o.Now()-x.last)
			return
		}
	}
	if !x.p.o.Detach {
		x.watch.replied(p, x.last)
		x.leave()
	}
	x.gone, x.shut = true, true
}

func (x *exchange) flush() bool { return x.flusher.Flush() == nil }

// breakOff ends an exchange whose reply cannot be read on.
func (x *exchange) breakOff() {
	switch {
	case x.p.running.Err() != nil:
		x.outcome = Aborted
	case x.r.Context().Err() != nil && !x.p.o.Detach:
		x.outcome = Left
	default:
		x.outcome = Broken
	}
	panic(http.ErrAbortHandler)
}

// leave ends an exchange whose client left.
func (x *exchange) leave() {
	x.outcome = Left
	panic(http.ErrAbortHandler)
}

// trailers passes the trailers of the reply on, which net/http has read by now.
func (x *exchange) trailers(reply *http.Response) {
	h := x.w.Header()
	announced := h["Trailer"]
	for name, values := range reply.Trailer {
		if !hasToken(announced, name) {
			name = http.TrailerPrefix + name
		}
		h[name] = values
	}
}

// silence ends exchanges whose upstream says nothing in mid-reply.
type silence struct {
	timer *time.Timer // nil: none is too long
	limit time.Duration
}

func (x *exchange) silence() silence {
	s := silence{limit: x.p.o.Timeouts.Stall}
	if s.limit > 0 {
		s.timer = time.AfterFunc(s.limit, x.cancel)
	}
	return s
}

func (s silence) watch() {
	if s.timer != nil {
		s.timer.Reset(s.limit)
	}
}

func (s silence) rest() {
	if s.timer != nil {
		s.timer.Stop()
	}
}

// isStream reports whether a reply is a stream of events.
func isStream(h http.Header) bool {
	kind, _, _ := mime.ParseMediaType(h.Get("Content-Type"))
	return kind == "text/event-stream"
}
