package wire

import (
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"sync"
)

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
