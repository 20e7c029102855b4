package wire

import (
	"fmt"
	"net/url"
	"strings"
)

// redirect says where an answer points to, and sets next where that is followed: once, to the same origin, where the
// method stays. The origin is all that is told of another one: its path may have a secret in it.
func (x *call) redirect(h *head) string {
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
	case x.moved != "":
		return fmt.Sprintf("redirected again, to %s, which is not followed: ", clip(to.EscapedPath(), 256))
	}
	if path := to.RequestURI(); badPathByte(path) < 0 {
		x.next = path
	}
	return ""
}

// locate resolves the location that an answer names.
func (x *call) locate(location string) (*url.URL, error) {
	scheme := "http://"
	if x.target.tls {
		scheme = "https://"
	}
	path := x.moved
	if path == "" {
		path = string(x.target.appendPath(nil, x.request.Path))
	}
	from, err := url.Parse(scheme + x.target.header + path)
	if err != nil {
		return nil, err
	}
	return from.Parse(location)
}

// isOrigin reports whether a URL is of the target's scheme, host and port.
func (t *target) isOrigin(u *url.URL) bool {
	there, err := parseTarget((&url.URL{Scheme: u.Scheme, Host: u.Host}).String())
	return err == nil && there.tls == t.tls && there.port == t.port && strings.EqualFold(there.host, t.host)
}
