package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Category is why a request failed, in one word; it goes into records and reports as it stands.
type Category string

// The categories. ContextOverflow takes precedence over the ones that have a text of the server in them.
const (
	HTTPStatus      Category = "http_status"          // status outside 200-299, but for those of Overload
	Overload        Category = "overload"             // status 503 or 529: the server does not take the request now
	Connection      Category = "connection"           // refused, reset, broken, or not HTTP
	Timeout         Category = "timeout"              // the request took longer than Options.Timeout
	StreamEvent     Category = "stream_error_event"   // an event named error
	StreamPayload   Category = "stream_error_payload" // an error object in a payload under status 200
	StreamTruncated Category = "stream_truncated"     // clean end, but neither finish reason nor [DONE]
	NoContent       Category = "no_content"           // complete, but nothing was generated
	ContextOverflow Category = "context_overflow"     // any of the above whose text matches a needle
	Cancelled       Category = "cancelled"            // the caller's context ended
	Internal        Category = "internal"             // the request could not be written: our side, not the server's
)

// Failure is the reason why a request did not end well.
type Failure struct {
	Category Category
	Message  string // at most 4 KiB; the API key, secret header fields and parameters of the URL never appear in it
	Code     int    // the HTTP status; 502 for StreamEvent; 0 when there was none
}

// Error makes a Failure an error.
func (f *Failure) Error() string { return string(f.Category) + ": " + f.Message }

// Overflow says whether the server refused the request because its context was too long.
func (f *Failure) Overflow() bool { return f.Category == ContextOverflow }

// DefaultOverflowPatterns are the texts by which a context overflow is known, in any letter case.
var DefaultOverflowPatterns = []string{
	"context length", "maximum context", "context_length_exceeded", "prompt is too long",
	"exceeds the available context size", "exceed_context_size_error", // llama.cpp
	"exceed context limit", "exceeds the context window", // Anthropic, OpenAI
}

const (
	maxMessage   = 4 << 10  // of Failure.Message
	maxErrorText = 64 << 10 // of an error body: what is searched for needles
	maxErrorBody = 1 << 20  // what is read of it

	errorWait = 30 * time.Second // for the body of an error
)

// refused reads an answer with a status outside 200-299: its body, for a limited time.
func (x *call) refused(cn *conn, h *head, b *body) *Failure {
	x.limit(cn, x.errorWait)
	text := append([]byte(strconv.Itoa(h.status)+" "+h.reason+": "), x.redirect(h)...)
	read, err := 0, error(nil)
	for read < maxErrorBody && err == nil {
		var p []byte
		p, err = b.next()
		read += len(p)
		if room := maxErrorText - len(text); room > 0 && h.encoding == "" {
			text = append(text, p[:min(len(p), room)]...)
		}
	}
	switch { // the status stands, whatever becomes of the body
	case h.encoding != "" && read > 0:
		text = fmt.Appendf(text, "compressed (Content-Encoding %s), which was not asked for", h.encoding)
	case errors.Is(err, os.ErrDeadlineExceeded):
		text = fmt.Appendf(bytes.TrimRight(text, ": \r\n"), ": the rest of the body did not come within %v", x.errorWait)
	}
	category := HTTPStatus
	if h.status == 503 || h.status == 529 {
		category = Overload
	}
	return x.judge(category, h.status, string(bytes.TrimRight(text, ": \r\n")))
}

// dynamoOverflow reports whether a stream failed before any content with an error of no more words than Dynamo has for a prompt that
// does not fit. It answers so under status 200; other failures of its have words of their own.
func dynamoOverflow(category Category, res *Result, text string) bool {
	return category == StreamPayload && res.Chunks == 0 && strings.EqualFold(strings.TrimSpace(errorMessage(text)), "Internal server error")
}

// judge makes the failure out of its full text, once: overflow is decided here and nowhere else.
func (c *Client) judge(category Category, code int, text string) *Failure {
	switch category {
	case Cancelled, Internal:
	default:
		if c.overflows(text) {
			category = ContextOverflow
		}
	}
	return &Failure{Category: category, Message: clip(c.secrets.Replace(text), maxMessage), Code: code}
}

// secretWords are what names of header fields and of a URL's parameters have in them whose values are secrets.
var secretWords = [...]string{"auth", "key", "token", "secret", "password", "cookie", "credential", "signature"}

func isSecret(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc(secretWords[:], func(word string) bool { return strings.Contains(name, word) })
}

// setSecrets notes what must not be printed: the API key, secrets in the URL's query, and of secret fields the values as
// well as what follows the scheme in them, as in "Bearer x".
func (c *Client) setSecrets(o Options) {
	var pairs [][2]string
	add := func(secret string) {
		if secret = strings.TrimSpace(secret); secret != "" {
			pairs = append(pairs, [2]string{secret, "[secret]"})
		}
	}
	for _, f := range o.Header {
		if isSecret(f.Name) {
			_, credentials, _ := strings.Cut(strings.TrimSpace(f.Value), " ")
			add(f.Value)
			add(credentials)
		}
	}
	query, _ := url.ParseQuery(strings.TrimPrefix(c.target.query, "?")) // what can be read of it
	for name, values := range query {
		for _, v := range values {
			if isSecret(name) {
				add(v)
				add(url.QueryEscape(v))
			}
		}
	}
	if o.APIKey != "" {
		pairs = append(pairs, [2]string{o.APIKey, "[API key]"})
	}
	slices.SortStableFunc(pairs, func(a, b [2]string) int { return len(b[0]) - len(a[0]) }) // one may begin another
	var flat []string
	for _, p := range pairs {
		flat = append(flat, p[:]...)
	}
	c.secrets = strings.NewReplacer(flat...)
}

// overflows reports whether the text, or the error message inside it when a part of it is JSON, has a needle in it or
// matches a pattern.
func (c *Client) overflows(text string) bool {
	if c.tells(text) {
		return true
	}
	// The message may be escaped in the raw text, so it is looked at decoded as well.
	i := strings.IndexByte(text, '{')
	return i >= 0 && c.tells(errorMessage(text[i:]))
}

func (c *Client) tells(text string) bool {
	low := strings.ToLower(text)
	return slices.ContainsFunc(c.needles, func(n string) bool { return strings.Contains(low, n) }) ||
		slices.ContainsFunc(c.overflow, func(p *regexp.Regexp) bool { return p.MatchString(text) })
}

// errorMessage is the text of the error field of a JSON object: a string, or an object with a message.
func errorMessage(text string) string {
	var doc struct{ Error json.RawMessage }
	if json.NewDecoder(strings.NewReader(text)).Decode(&doc) != nil {
		return ""
	}
	var s string
	if json.Unmarshal(doc.Error, &s) == nil {
		return s
	}
	var e struct{ Message, Code any }
	if json.Unmarshal(doc.Error, &e) != nil {
		return ""
	}
	message, _ := e.Message.(string)
	code, _ := e.Code.(string)
	return message + " " + code
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
