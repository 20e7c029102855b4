package carry

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/agentx/agentx/internal/endpoint"
)

// Kind is an API that an upstream speaks.
type Kind string

// The kinds. An upstream of kind Any takes what no other takes.
const (
	Any       Kind = ""
	OpenAI    Kind = endpoint.OpenAI
	Anthropic Kind = endpoint.Anthropic
)

// Upstream is a server to which requests are carried.
type Upstream struct {
	Kind   Kind
	Scheme string // http or https
	Host   string // with a port where it is not that of the scheme
	Base   string // a raw path that precedes every path, without a slash at its end
}

// ParseUpstream reads [KIND=]URL.
func ParseUpstream(text string) (Upstream, error) {
	kind, address := Any, text
	if before, after, ok := strings.Cut(text, "="); ok && !strings.ContainsAny(before, ":/") {
		kind, address = Kind(before), after
	}
	if kind != Any && kind != OpenAI && kind != Anthropic {
		return Upstream{}, fmt.Errorf("upstream %q: kind %q: use openai or anthropic, or a URL alone", redacted(text), string(kind))
	}
	u, err := url.Parse(address)
	if err != nil {
		return Upstream{}, fmt.Errorf("upstream %q: not a URL: give one such as http://localhost:8000", redacted(text))
	}
	up := Upstream{kind, u.Scheme, u.Host, strings.TrimSuffix(u.EscapedPath(), "/")}
	switch {
	case u.User != nil:
		err = errors.New("a URL with a user name or password: clients send their own credentials")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		err = errors.New("a URL with a query or fragment: give scheme, host and path alone")
	default:
		err = up.check()
	}
	if err != nil {
		return Upstream{}, fmt.Errorf("upstream %q: %w", redacted(text), err)
	}
	return up, nil
}

// redacted returns a text that is no good URL without what stands before its last @, which may be a password.
func redacted(text string) string {
	if at := strings.LastIndexByte(text, '@'); at >= 0 {
		return "..." + text[at:]
	}
	return text
}

// check returns the first thing that is wrong with an upstream.
func (u Upstream) check() error {
	switch {
	case u.Kind != Any && u.Kind != OpenAI && u.Kind != Anthropic:
		return fmt.Errorf("kind %q: use openai or anthropic", string(u.Kind))
	case u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("scheme %q: use http or https", u.Scheme)
	case u.Host == "" || strings.HasPrefix(u.Host, ":"):
		return errors.New("no host: give a URL such as http://localhost:8000")
	case !u.goodPort():
		return errors.New("the port is missing or invalid: give one from 1 to 65535, or leave the colon out")
	case u.Base != "" && (!strings.HasPrefix(u.Base, "/") || strings.HasSuffix(u.Base, "/")):
		return fmt.Errorf("base path %q: must begin with a slash and must not end with one", u.Base)
	}
	return nil
}

// goodPort reports whether the host has no port, or one to which a connection can be made.
func (u Upstream) goodPort() bool {
	at := strings.LastIndexByte(u.Host, ':')
	if at < 0 || strings.HasSuffix(u.Host, "]") {
		return true
	}
	port, err := strconv.ParseUint(u.Host[at+1:], 10, 16)
	return err == nil && port > 0
}

// kindOf returns the API to which a raw path belongs, Any for one of neither or of both.
func kindOf(path string) Kind {
	for _, e := range endpoint.All {
		if _, after, ok := strings.Cut(path, e.Path); ok && (after == "" || after[0] == '/') {
			return Kind(e.API)
		}
	}
	return Any
}

// choose returns the upstream of a path: the one of its kind, else the one of kind Any, else the one whose API the headers
// belong to, else the first.
func choose(list []Upstream, path string, header http.Header) *Upstream {
	kinds := [3]Kind{kindOf(path), Any, OpenAI}
	if header.Get("Anthropic-Version") != "" {
		kinds[2] = Anthropic
	}
	for _, kind := range kinds {
		for i := range list {
			if list[i].Kind == kind {
				return &list[i]
			}
		}
	}
	return &list[0]
}

// target returns the URL that net/http writes as this raw path and query, byte for byte.
func (u *Upstream) target(path, query string, hasQuery bool) *url.URL {
	if strings.HasPrefix(path, "/") { // not that of OPTIONS * or of CONNECT
		path = u.Base + path
	}
	t := &url.URL{Scheme: u.Scheme, Host: u.Host, RawQuery: query, ForceQuery: hasQuery, Opaque: path}
	if strings.HasPrefix(path, "//") { // net/http takes an opaque part that begins so for a host
		t.Opaque = ""
		t.Path, _ = url.PathUnescape(path)
		t.RawPath = path
	}
	return t
}

// splitURI splits the target of a request line into its raw path and query. An absolute URI loses scheme and host.
func splitURI(uri string) (path, query string, hasQuery bool) {
	path, query, hasQuery = strings.Cut(uri, "?")
	if _, rest, ok := strings.Cut(path, "://"); ok && !strings.HasPrefix(path, "/") {
		if slash := strings.IndexByte(rest, '/'); slash >= 0 {
			return rest[slash:], query, hasQuery
		}
		return "/", query, hasQuery
	}
	return path, query, hasQuery
}
