package wire

import (
	"fmt"
	"net/url"
	"strings"
)

// followRedirect sets x.redirect when an answer redirects to the same origin with a status that keeps the method, the first
// time. Otherwise it returns what the failure says of the redirect. Of another origin it names no path, which may contain a
// secret.
func (x *call) followRedirect(h *responseHead) (text string) {
	if h.location == "" {
		return ""
	}
	to, err := x.locate(h.location)
	switch {
	case err != nil:
		return "redirected to what is no URL: "
	case !x.target.isOrigin(to):
		return fmt.Sprintf("redirected to %s://%s, which is not followed: name it in the URL: ", to.Scheme, clip(to.Host, 256))
	case h.status != 307 && h.status != 308:
		return fmt.Sprintf("redirected to %s, which is not followed: only 307 and 308 keep the method: ", clip(to.EscapedPath(), 256))
	case x.redirectedTo != "":
		return fmt.Sprintf("redirected again, to %s, which is not followed: ", clip(to.EscapedPath(), 256))
	}
	if path := to.RequestURI(); badPathByte(path) < 0 {
		x.redirect = path
	}
	return ""
}

// locate resolves the Location of an answer against the URL of the request.
func (x *call) locate(location string) (*url.URL, error) {
	from, err := url.Parse(x.address())
	if err != nil {
		return nil, err
	}
	return from.Parse(location)
}

// isOrigin reports whether a URL has the scheme, host and port of the target.
func (t *target) isOrigin(u *url.URL) bool {
	other, err := parseTarget((&url.URL{Scheme: u.Scheme, Host: u.Host}).String())
	return err == nil && other.tls == t.tls && other.port == t.port && strings.EqualFold(other.host, t.host)
}
