package carry

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
)

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
	if kind := KindOf(x.path); kind != Any {
		return kind
	}
	if x.upstream.Kind == Anthropic || x.r.Header.Get("Anthropic-Version") != "" {
		return Anthropic
	}
	return OpenAI
}

// errorBody writes an error object of an API; the message is ASCII.
func errorBody(shape Kind, status int, message string) string {
	words := map[int]string{
		http.StatusBadGateway: "api_error", http.StatusGatewayTimeout: "timeout_error", http.StatusNotFound: "not_found_error",
		http.StatusRequestEntityTooLarge: "request_too_large", http.StatusConflict: "conflict_error",
	}
	word, ok := words[status]
	if !ok {
		word = "api_error"
	}
	text := strconv.QuoteToASCII(message)
	if shape == Anthropic {
		return `{"type":"error","error":{"type":"` + word + `","message":` + text + `}}`
	}
	return `{"error":{"message":` + text + `,"type":"` + word + `","param":null,"code":null}}`
}
