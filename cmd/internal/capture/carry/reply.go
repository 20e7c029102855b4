package carry

import (
	"cmp"
	"crypto/tls"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"slices"
	"strconv"
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
	stall := x.p.o.Stall
	var silence *time.Timer // ends the exchange when the upstream says nothing; nil: it may be silent for ever
	if stall > 0 {
		silence = time.AfterFunc(stall, x.cancel)
	}
	for {
		if silence != nil {
			silence.Reset(stall)
		}
		n, err := reply.Body.Read(*buffer)
		if silence != nil {
			silence.Stop()
		}
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

// isStream reports whether a reply is a stream of events.
func isStream(h http.Header) bool {
	kind, _, _ := mime.ParseMediaType(h.Get("Content-Type"))
	return kind == "text/event-stream"
}

// unanswered ends an exchange that got no head of a reply.
func (x *exchange) unanswered(err error) {
	var wait net.Error
	x.gone = x.p.o.Detach && x.r.Context().Err() != nil
	switch {
	case x.p.running.Err() != nil:
		panic(http.ErrAbortHandler)
	case x.body.broken.Load(), x.r.Context().Err() != nil && !x.p.o.Detach:
		x.leave()
	case errors.As(err, &wait) && wait.Timeout() && x.dispatched.Load():
		x.outcome = TimedOut
		x.answer(http.StatusGatewayTimeout, "agentx capture: the upstream sent no response header in time", 0, "transport")
	default:
		x.outcome = Unreachable
		x.answer(http.StatusBadGateway, "agentx capture: the upstream gives no reply: "+why(err), 0, "transport")
	}
}

var errNoConnection = errors.New("no connection to the upstream")

// why says why there is no reply. The words are ours: errors of the network name addresses.
func why(err error) string {
	var name *net.DNSError
	var trust *tls.CertificateVerificationError
	var speech tls.RecordHeaderError
	var wait net.Error
	switch {
	case errors.As(err, &name):
		return "its name has no address"
	case errors.Is(err, errNoConnection) && errors.As(err, &wait) && wait.Timeout():
		return "it takes no connection in time"
	case errors.Is(err, errNoConnection):
		return "it takes no connection"
	case errors.As(err, &trust):
		return "its certificate is not trusted"
	case errors.As(err, &speech):
		return "it does not speak TLS"
	case errors.As(err, &wait) && wait.Timeout():
		return "its TLS handshake took too long"
	}
	return "it broke off before its response header"
}

// maxDrained is how many bytes are read of what a client still uploads after an answer of ours.
const maxDrained = 1 << 30

// answer answers in place of the upstream, in the shape of its API.
func (x *exchange) answer(status int, message string, retryAfter int, stage string) {
	body := errorBody(x.shape(), status, message)
	h := x.w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if stage != "" {
		h.Set("X-Agentx-Capture-Error", stage)
	}
	if retryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(retryAfter))
	}
	x.w.WriteHeader(status)
	_, _ = io.WriteString(x.w, body)
	x.flush()
	if x.r.Header.Get("Expect") == "" { // net/http closes a connection with much of a body unread, and a client that is writing then misses the answer
		_, _ = io.CopyN(io.Discard, x.r.Body, maxDrained)
	}
}

// shape returns the API in whose shape an error is answered.
func (x *exchange) shape() Kind {
	if kind := kindOf(x.path); kind != Any {
		return kind
	}
	if x.upstream.Kind == Anthropic || x.r.Header.Get("Anthropic-Version") != "" {
		return Anthropic
	}
	return OpenAI
}

// errorBody writes an error object of an API; the message is ASCII.
func errorBody(shape Kind, status int, message string) string {
	word := cmp.Or(map[int]string{
		http.StatusGatewayTimeout: "timeout_error", http.StatusNotFound: "not_found_error",
		http.StatusRequestEntityTooLarge: "request_too_large", http.StatusConflict: "conflict_error",
	}[status], "api_error")
	text := strconv.QuoteToASCII(message)
	if shape == Anthropic {
		return `{"type":"error","error":{"type":"` + word + `","message":` + text + `}}`
	}
	return `{"error":{"message":` + text + `,"type":"` + word + `","param":null,"code":null}}`
}
