package wire

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"slices"
	"strings"
	"sync"
)

// HeaderField is one field of a request header.
type HeaderField struct{ Name, Value string }

// Validate refuses a name that is no HTTP token, a name that the client writes itself (Content-Length, ...) and a value with
// a control character. The error names the field but never its value, which may be a secret.
func (f *HeaderField) Validate() error {
	if f.Name == "" {
		return errors.New("header field without a name: give one")
	}
	for i := range len(f.Name) {
		if !isToken[f.Name[i]] {
			return fmt.Errorf("header name %q has byte %#x at %d: want letters, digits and marks such as - and _", f.Name, f.Name[i], i)
		}
	}
	for _, name := range reservedFields {
		if equalFold(f.Name, name) {
			return fmt.Errorf("header %s is set by the client itself", name)
		}
	}
	if i := badValueByte(f.Value); i >= 0 {
		return fmt.Errorf("value of header %s has byte %#x at %d: leave control characters out", f.Name, f.Value[i], i)
	}
	return nil
}

// reservedFields are written by the client, or never sent. A caller who could set the fields of framing could make two
// requests of one; a compressed answer could not be read.
var reservedFields = [...]string{
	"Host", "Accept", "Accept-Encoding", "Content-Type", "Content-Length", "Transfer-Encoding", "Connection",
	"Expect", "Trailer", "Upgrade",
}

// appendHeader appends what names client, request and session, but for the fields of Request.Affinity: each field unless one with
// precedence over it has the same name.
func (c *Client) appendHeader(b []byte, r *Request) []byte {
	if !overlap(c.common, r.Affinity) && !overlap(c.common, r.Header) && !overlap(r.Header, r.Affinity) {
		return appendFields(append(b, c.rendered...), r.Header)
	}
	for i, f := range c.common {
		if !named(f, r.Affinity) && (i >= c.given || !named(f, r.Header)) {
			b = appendFields(b, c.common[i:i+1])
		}
	}
	for i, f := range r.Header {
		if !named(f, r.Affinity) && !named(f, c.common[c.given:]) {
			b = appendFields(b, r.Header[i:i+1])
		}
	}
	return b
}

// named reports whether a list has a field with the name of f.
func named(f HeaderField, list []HeaderField) bool {
	return slices.ContainsFunc(list, func(o HeaderField) bool { return equalFold(o.Name, f.Name) })
}

// overlap reports whether two lists have a field with the same name.
func overlap(a, b []HeaderField) bool {
	return slices.ContainsFunc(a, func(f HeaderField) bool { return named(f, b) })
}

// appendFields appends the lines of header fields.
func appendFields(b []byte, fields []HeaderField) []byte {
	for i := range fields {
		b = append(b, fields[i].Name...)
		b = append(b, ": "...)
		b = append(b, fields[i].Value...)
		b = append(b, "\r\n"...)
	}
	return b
}

// isToken has the bytes that a header name may contain.
var isToken = func() (t [256]bool) {
	const tokens = "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	for i := range len(tokens) {
		t[tokens[i]] = true
	}
	return t
}()

// badPathByte returns the position of the first byte that a path must not contain, -1 when there is none.
func badPathByte(p string) int {
	for i := range len(p) {
		if p[i] <= ' ' || p[i] >= 0x7f {
			return i
		}
	}
	return -1
}

// badValueByte returns the position of the first control character other than a tab, -1 when there is none.
func badValueByte(v string) int {
	for i := range len(v) {
		if (v[i] < ' ' && v[i] != '\t') || v[i] == 0x7f {
			return i
		}
	}
	return -1
}

// equalFold compares ASCII without regard to case.
func equalFold[A, B []byte | string](a A, b B) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		x, y := a[i], b[i]
		if x != y && (x|0x20 != y|0x20 || x|0x20 < 'a' || x|0x20 > 'z') {
			return false
		}
	}
	return true
}

// Jar keeps what gateways tell sessions by: the cookies of answers, and the last value of their header field x-session-token. Requests
// that have the same jar send it back. Many goroutines may use it at once; the zero value is empty.
type Jar struct {
	mu      sync.Mutex
	cookies *cookiejar.Jar
	token   string
}

// sessionToken is the header field of llm-d, Envoy's AI gateway and others that names the server of a session.
const sessionToken = "X-Session-Token"

// add keeps a field of an answer to a request of a URL, if it is one of those.
func (j *Jar) add(u *url.URL, name, value []byte) {
	isCookie := equalFold(name, "Set-Cookie")
	if !isCookie && !equalFold(name, sessionToken) || badValueByte(string(value)) >= 0 {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if !isCookie {
		j.token = string(value)
		return
	}
	cookie, err := http.ParseSetCookie(string(value))
	if err != nil {
		return
	}
	if j.cookies == nil {
		j.cookies, _ = cookiejar.New(nil) // it has no error
	}
	j.cookies.SetCookies(u, []*http.Cookie{cookie})
}

// appendFields appends the fields that a request to a URL sends back.
func (j *Jar) appendFields(b []byte, u *url.URL) []byte {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.cookies != nil {
		var pairs []string
		for _, c := range j.cookies.Cookies(u) {
			pairs = append(pairs, c.Name+"="+c.Value)
		}
		if len(pairs) > 0 {
			b = appendFields(b, []HeaderField{{"Cookie", strings.Join(pairs, "; ")}})
		}
	}
	if j.token != "" {
		b = appendFields(b, []HeaderField{{sessionToken, j.token}})
	}
	return b
}

// keeper returns what takes the fields of an answer into the jar of the request, nil without one.
func (x *call) keeper() func(name, value []byte) {
	jar := x.request.Jar
	if jar == nil {
		return nil
	}
	u := x.url()
	return func(name, value []byte) { jar.add(u, name, value) }
}

// url returns the URL of the request, of a redirect that where it leads.
func (x *call) url() *url.URL {
	if u, err := url.Parse(x.address()); err == nil {
		return u
	}
	return &url.URL{}
}

// address returns the text of that URL.
func (x *call) address() string {
	if x.redirectedTo != "" {
		return x.target.origin() + x.redirectedTo
	}
	return x.target.origin() + string(x.target.appendPath(nil, x.request.Path))
}
