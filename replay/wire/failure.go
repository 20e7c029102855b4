package wire

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
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
	Category Category
	Message  string // at most 4 KiB, with a mark where it was cut; API key, secret header fields and secret URL parameters never appear in it
	Code     int    // the HTTP status; 502 for StreamEvent; 0 when no answer came
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
