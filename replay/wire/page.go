package wire

import "net/url"

// PageURL returns the URL of a page below the root of a server, such as /metrics, with the query of the server's URL.
func PageURL(server, path string) (string, error) {
	t, err := parseTarget(server)
	if err != nil {
		return "", err
	}
	scheme := "http://"
	if t.tls {
		scheme = "https://"
	}
	return scheme + t.hostHeader + string(t.appendBelowRoot(nil, path)), nil
}

// SameServer reports whether a URL has the scheme, host and port of a server, which then may get its credentials.
func SameServer(server, raw string) bool {
	t, err := parseTarget(server)
	u, urlErr := url.Parse(raw)
	return err == nil && urlErr == nil && t.isOrigin(u)
}
