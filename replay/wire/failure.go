package wire

import (
	"bytes"
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/agentx/agentx/internal/secrets"
	"github.com/agentx/agentx/replay/preset"
)

// Category is why a request failed, in one word. Records and summaries have it as it stands.
type Category string

// The categories. ContextOverflow takes precedence over those that carry a text of the server.
const (
	HTTPStatus      Category = "http_status"          // a status outside 200-299, except those of Overload
	Overload        Category = "overload"             // status 503 or 529: the server does not take the request now
	Connection      Category = "connection"           // refused, reset, broken, or not HTTP
	Timeout         Category = "timeout"              // the request took longer than Options.Timeout
	Stalled         Category = "stalled"              // its server sent nothing for Options.StallTimeout or FirstByteTimeout
	StreamEvent     Category = "stream_error_event"   // an event named error
	StreamPayload   Category = "stream_error_payload" // an error object in a payload under a 2xx status
	StreamTruncated Category = "stream_truncated"     // the stream ended with neither finish reason nor [DONE]
	NoContent       Category = "no_content"           // the answer is complete and has no content
	ContextOverflow Category = "context_overflow"     // one of the above whose text matches an overflow pattern
	Cancelled       Category = "cancelled"            // the context of the caller was cancelled
	Internal        Category = "internal"             // the request could not be written, or a limit of this machine stood in its way: the fault is on this side
)

// Failure says why a request did not end well.
type Failure struct {
	Category Category `json:"category"`
	Code     int      `json:"code,omitempty"` // the HTTP status; 502 for StreamEvent; 0 when no answer came
	Message  string   `json:"message"`        // at most 4 KiB, with a mark where it was cut; API key, secret header fields and secret URL parameters never appear in it
}

// Error returns category and message.
func (f *Failure) Error() string { return string(f.Category) + ": " + f.Message }

// Bounds of the text of a failure, bytes, and of the time for it.
const (
	maxFailureText = 4 << 10  // of Failure.Message
	maxErrorText   = 64 << 10 // of what overflow patterns are matched against: of an error body, or of a message that failed
	maxErrorBody   = 1 << 20  // of an error body that is read

	errorWait = 30 * time.Second // for an error body
)

// newFailure makes the failure of a request out of its full text. It alone decides on overflow and takes out secrets.
func (c *Client) newFailure(category Category, code int, text string) *Failure {
	switch category {
	case Cancelled, Internal:
	default:
		if c.isOverflow(text) {
			category = ContextOverflow
		}
	}
	return &Failure{Category: category, Message: cut(c.Redact(text)), Code: code}
}

// cutMark ends a message that was longer.
const cutMark = "... [cut at 4 KiB]"

// cut bounds the message of a failure, and marks it where it was cut.
func cut(s string) string {
	if len(s) <= maxFailureText {
		return clip(s, maxFailureText)
	}
	return clip(s, maxFailureText-len(cutMark)) + cutMark
}

// receiveError reads an answer with a status outside 200-299. It waits errorWait for the body; the failure has the status
// whatever comes of the body.
func (x *call) receiveError(cn *conn, h *responseHead, b *responseBody) *Failure {
	x.limitRead(cn, x.errorWait)
	x.res.RetryAfter = retryAfter(h.retryAfter, h.date, time.Now())
	text := append([]byte(strconv.Itoa(h.status)+" "+h.reason+": "), x.followRedirect(h)...)
	read, err := 0, error(nil)
	for read < maxErrorBody && err == nil {
		var p []byte
		p, err = b.next()
		read += len(p)
		if room := maxErrorText - len(text); room > 0 && h.encoding == "" {
			text = append(text, p[:min(len(p), room)]...)
		}
	}
	switch {
	case h.encoding != "" && read > 0:
		text = fmt.Appendf(text, "compressed (Content-Encoding %s), which was not asked for", h.encoding)
	case errors.Is(err, os.ErrDeadlineExceeded):
		text = fmt.Appendf(bytes.TrimRight(text, ": \r\n"), ": the rest of the body did not come within %v", x.errorWait)
	}
	return x.newFailure(categoryOf(h.status), h.status, string(bytes.TrimRight(text, ": \r\n")))
}

// categoryOf returns the category of an answer with a status outside 200-299.
func categoryOf(status int) Category {
	if status == 503 || status == 529 {
		return Overload
	}
	return HTTPStatus
}

// excerpt returns the text of a message that failed, as far as it is looked at. Bytes that are no UTF-8 are replaced.
func excerpt(b []byte) string {
	return string([]rune(string(b[:min(len(b), maxErrorText)])))
}

// clip cuts a text to at most n bytes, at the border of a character, and makes it valid UTF-8.
func clip(s string, n int) string {
	if len(s) > n {
		for i := 1; i < utf8.UTFMax && !utf8.RuneStart(s[n]); i++ {
			n--
		}
		s = s[:n]
	}
	return strings.ToValidUTF8(s, "?")
}

// The errors that have no operand. They reach a caller as the message of a Failure, never as an error value.
var (
	errMessageTooLong = fmt.Errorf("response has a message of more than %d bytes", maxMessageSize)
	errAnswerTooLong  = fmt.Errorf("response is longer than %d bytes", maxAnswer)
	errLineTooLong    = fmt.Errorf("response has a line of more than %d bytes", maxBuffer)
	errHeadTooLong    = fmt.Errorf("response head is longer than %d bytes", maxHead)
	errHTTP2          = errors.New("the server speaks only HTTP/2: use one that speaks HTTP/1.1")
	errUnexpectedEOF  = errors.New("the server closed the connection before its answer ended")
)

// bodyError is a request body that cannot be read. It becomes the category Internal: the server has no part in it.
type bodyError struct{ error }

func (e *bodyError) Unwrap() error { return e.error }

// handshakeError returns the error of a TLS handshake, prefixed with "tls: ". Of a certificate that is refused it says what helps.
func handshakeError(err error) error {
	var name x509.HostnameError
	var authority x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &name) && name.Certificate != nil:
		names := append([]string{}, name.Certificate.DNSNames...)
		for _, ip := range name.Certificate.IPAddresses {
			names = append(names, ip.String())
		}
		return fmt.Errorf("tls: the certificate of the server is for %s, not for %s: want a URL with a name that it has, or %s NAME",
			cmp.Or(clip(strings.Join(names, ", "), 256), "no name"), clip(name.Host, 256), preset.Setting("server-name"))
	case errors.As(err, &authority):
		issuer := ""
		if authority.Cert != nil {
			issuer = " (" + clip(authority.Cert.Issuer.String(), 256) + ")"
		}
		return fmt.Errorf("tls: the certificate of the server is signed by an authority that this machine does not know%s: %s FILE names its certificate", issuer, preset.Setting("ca-file"))
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired && invalid.Cert != nil:
		return fmt.Errorf("tls: the certificate of the server is valid from %s to %s, by the clock of this machine not now: renew it, or set the clock; %s connects all the same",
			invalid.Cert.NotBefore.UTC().Format(time.RFC3339), invalid.Cert.NotAfter.UTC().Format(time.RFC3339), preset.Setting("insecure"))
	case strings.HasPrefix(err.Error(), "tls: "):
		return err
	}
	return fmt.Errorf("tls: %w", err)
}

// secretWords mark a header field or URL parameter as secret when its name contains one of them.
var secretWords = [...]string{"auth", "key", "token", "secret", "password", "cookie", "credential", "signature"}

// isSecret reports whether the value of a header field or URL parameter is a secret.
func isSecret(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc(secretWords[:], func(word string) bool { return strings.Contains(name, word) })
}

// secretsOf returns what takes secrets out of a text: the API key, the values of secret header fields, the credentials
// behind the scheme in such a value ("Bearer x"), and the values of secret parameters of the URL.
func secretsOf(o Options, query string) *secrets.Filter {
	filter := &secrets.Filter{}
	filter.Add(o.APIKey, "[API key]")
	for _, f := range o.Header {
		if isSecret(f.Name) {
			_, credentials, _ := strings.Cut(strings.TrimSpace(f.Value), " ")
			filter.Add(strings.TrimSpace(f.Value), "[secret]")
			filter.Add(strings.TrimSpace(credentials), "[secret]")
		}
	}
	parameters, _ := url.ParseQuery(strings.TrimPrefix(query, "?")) // a malformed part is left out
	for name, values := range parameters {
		for _, v := range values {
			if isSecret(name) {
				filter.Add(strings.TrimSpace(v), "[secret]")
			}
		}
	}
	return filter
}

// Redact returns a text of the server without the secrets that requests have.
func (c *Client) Redact(text string) string { return c.secrets.Replace(text) }

// retryAfter returns how long a server asks not to be called, by the fields Retry-After and Date of its answer and, without a Date, the
// clock of this machine. What is no time is 0; no time at all, or one that is over, is a second: the server has said when, and
// it is not now.
func retryAfter(value, date string, now time.Time) time.Duration {
	if value == "" {
		return 0
	}
	if s, err := strconv.ParseFloat(value, 64); err == nil {
		if !(s >= 0) { // NaN, too
			return 0
		}
		return max(time.Second, time.Duration(min(s*1e9, math.MaxInt64/2)))
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	if its, err := http.ParseTime(date); err == nil {
		now = its
	}
	return max(time.Second, at.Sub(now))
}

// limits are the errors of a system that has nothing left for another connection or another write, and what to do about each. The
// server has no part in them.
var limits = []struct {
	errnos []syscall.Errno
	advice string
}{
	{tooManyFiles, "this process may open no more: raise its limit (ulimit -n), or play fewer lanes"},
	{tooManyFilesOfAll, "this machine has no more: raise fs.file-max, or play fewer lanes"},
	{noAddress, "this machine has no free port, or no address, towards that one: widen net.ipv4.ip_local_port_range, keep connections, or play parts on several machines"},
	{noBuffers, "this machine has no memory for another connection: play fewer lanes"},
}

// adviceFor returns what to do about an error that is a limit of this machine, "" if it is none.
func adviceFor(err error) string {
	var name *net.DNSError // keeps of its cause the text alone
	isName := errors.As(err, &name)
	for _, l := range limits {
		if slices.ContainsFunc(l.errnos, func(e syscall.Errno) bool {
			return errors.Is(err, e) || isName && strings.Contains(name.Err, e.Error())
		}) {
			return l.advice
		}
	}
	return ""
}
