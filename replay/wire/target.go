package wire

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/agentx/agentx/internal/endpoint"
)

// target is the server of a client, out of its URL.
type target struct {
	tls        bool
	host       string // name or address, without brackets
	port       uint16
	hostHeader string // value of the Host field
	root       string // precedes the path of a request that does not begin with /v1/
	apiRoot    string // replaces the /v1 of a request's path
	query      string // with its question mark
}

// parseTarget parses the URL of a server: scheme, host, port, a path that precedes the path of every request and a query that
// follows it. Its errors do not repeat the URL, which may contain a secret.
func parseTarget(raw string) (target, error) {
	u, err := url.Parse(raw)
	if err != nil {
		var parse *url.Error
		if errors.As(err, &parse) {
			err = parse.Err
		}
		return target{}, fmt.Errorf("target is not a URL: %w", err)
	}
	if err := checkURL(u); err != nil {
		return target{}, err
	}
	t := target{tls: u.Scheme == "https", host: u.Hostname(), hostHeader: u.Host}
	if t.port, err = portOf(u); err != nil {
		return target{}, err
	}
	t.setPath(strings.TrimRight(u.EscapedPath(), "/"))
	if u.RawQuery != "" {
		t.query = "?" + u.RawQuery
	}
	return t, nil
}

// checkURL returns an error about a URL that cannot be the target of a client.
func checkURL(u *url.URL) error {
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("target has scheme %q: want http or https", u.Scheme)
	case u.Hostname() == "":
		return errors.New("target has no host: want http://HOST:PORT")
	case u.User != nil:
		return errors.New("target has a user in it: pass credentials as an API key or a header")
	case u.Fragment != "":
		return errors.New("target has a fragment: leave out the # and what follows it")
	}
	if i := badPathByte(u.Host); i >= 0 {
		return fmt.Errorf("target host has byte %#x in it: want a name or an address", u.Host[i])
	}
	return nil
}

// portOf returns the port of a URL, or that of its scheme.
func portOf(u *url.URL) (uint16, error) {
	p := u.Port()
	switch {
	case p == "" && u.Scheme == "https":
		return 443, nil
	case p == "":
		return 80, nil
	}
	n, err := strconv.ParseUint(p, 10, 16)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("target has port %q: want 1 to 65535", p)
	}
	return uint16(n), nil
}

// setPath sets the roots from the path of a URL. A path that ends in an endpoint or in /v1 is the root of the API; below any
// other path the API is at /v1. So all forms of URL that people write mean the same.
func (t *target) setPath(path string) {
	t.root, t.apiRoot = path, path+"/v1"
	for _, e := range endpoint.All {
		if api, ok := strings.CutSuffix(path, strings.TrimPrefix(e.Path, "/v1")); ok {
			t.root, t.apiRoot = api, api
			return
		}
	}
	if strings.HasSuffix(path, "/v1") {
		t.apiRoot = path
	}
}

// origin returns scheme, host and port.
func (t *target) origin() string {
	if t.tls {
		return "https://" + t.hostHeader
	}
	return "http://" + t.hostHeader
}

// appendPath appends the path of a request, below the roots of the target, and the query.
func (t *target) appendPath(b []byte, path string) []byte {
	if rest, ok := strings.CutPrefix(path, "/v1/"); ok {
		b = append(append(b, t.apiRoot...), '/')
		b = append(b, rest...)
	} else {
		b = append(append(b, t.root...), path...)
	}
	return append(b, t.query...)
}

// Address returns where the client sends requests with a path, without query.
func (c *Client) Address(path string) string {
	t := c.target
	t.query = ""
	return t.origin() + string(t.appendPath(nil, path))
}

// appendBelowRoot appends a path below the root of the server, and the query.
func (t *target) appendBelowRoot(b []byte, path string) []byte {
	root := strings.TrimSuffix(t.apiRoot, "/v1")
	return append(append(append(b, root...), path...), t.query...)
}

// PageURL returns the URL of a page below the root of a server, such as /metrics, with the query of the server's URL.
func PageURL(server, path string) (string, error) {
	t, err := parseTarget(server)
	if err != nil {
		return "", err
	}
	return t.origin() + string(t.appendBelowRoot(nil, path)), nil
}

// SameServer reports whether a URL has the scheme, host and port of a server, which then may get its credentials.
func SameServer(server, raw string) bool {
	t, err := parseTarget(server)
	u, urlErr := url.Parse(raw)
	return err == nil && urlErr == nil && t.isOrigin(u)
}
