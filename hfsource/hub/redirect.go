package hub

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// maxRedirects is how many redirects one request follows.
const maxRedirects = 5

// follow sends a request and follows redirects. A request to the CDN may go to any host. A request to the hub stays on the
// origin of the endpoint: a redirect to another origin is the result of a resolve request (away, with the redirect as r,
// whose body the caller closes) and an error of an API request.
func (c *client) follow(ctx context.Context, rq request) (r *reply, away *url.URL, err error) {
	for redirects := 0; ; redirects++ {
		if r, err = c.exchange(ctx, rq); err != nil || !isRedirect(r.status) {
			return r, nil, err
		}
		to, err := c.location(r)
		if err == nil && !rq.cdn {
			if origin(to) != origin(c.endpoint) && rq.budget == resolveBudget {
				return r, to, nil
			}
			err = c.checkHubRedirect(r, to)
		}
		if err == nil && redirects == maxRedirects {
			err = r.unexpected(fmt.Sprintf("more than %d redirects in a row, the last from %s", maxRedirects, redactURL(rq.url)))
		}
		r.discard()
		if err != nil {
			return nil, nil, err
		}
		rq.url = to
	}
}

// checkHubRedirect refuses a redirect of the hub to an address outside the endpoint.
func (c *client) checkHubRedirect(r *reply, to *url.URL) error {
	switch {
	case origin(to) != origin(c.endpoint):
		return r.unexpected(fmt.Sprintf("%s redirects to %s, which is not asked", origin(r.url), origin(to)))
	case !strings.HasPrefix(to.EscapedPath(), strings.TrimRight(c.endpoint.EscapedPath(), "/")+"/"):
		return r.unexpected("a redirect to " + redactURL(to) + " leads out of " + redactURL(c.endpoint))
	}
	return nil
}

// location returns where a redirect leads, rewritten to the endpoint.
func (c *client) location(r *reply) (*url.URL, error) {
	refuse := func(text string) error {
		err := r.unexpected("a redirect of " + redactURL(r.url) + " " + text)
		err.Hint = proxyHint
		return err
	}
	list := r.header[locationKey]
	if len(list) == 0 || list[0] == "" {
		return nil, refuse("names no address")
	}
	to, err := r.url.Parse(list[0])
	switch {
	case err != nil:
		return nil, refuse("names an address that cannot be parsed: " + strconv.Quote(sanitize(list[0], 200)))
	case to.Scheme != "https" && to.Scheme != "http" || to.Host == "":
		return nil, refuse("leads to " + to.Scheme + ", which is not followed")
	case to.User != nil:
		return nil, refuse("carries a password, which is not sent")
	case to.Scheme == "http" && c.endpoint.Scheme == "https":
		return nil, refuse("leads from https to http, which is not followed")
	case slices.Contains(strings.Split(to.Path, "/"), ".."): // those that are not percent-encoded are resolved by now
		return nil, refuse("leads to " + redactURL(to) + ", whose .. is not followed")
	}
	return c.rewrite(to), nil
}

// rewrite replaces the hub's own origin in an address by the endpoint: a mirror hands out addresses of the hub.
func (c *client) rewrite(u *url.URL) *url.URL {
	hub, _ := url.Parse(DefaultEndpoint) // a constant that parses
	if origin(u) != origin(hub) || origin(c.endpoint) == origin(hub) {
		return u
	}
	to := c.address(u.EscapedPath())
	to.RawQuery = u.RawQuery
	return to
}

// address returns the address of a path below the endpoint, which is escaped already.
func (c *client) address(path string) *url.URL {
	u, err := url.Parse(strings.TrimRight(c.endpoint.String(), "/") + path)
	if err != nil {
		panic(err) // the endpoint was parsed before, and the path is ASCII
	}
	return u
}

func isRedirect(status int) bool {
	return slices.Contains([]int{301, 302, 303, 307, 308}, status)
}

// origin returns scheme, host and port of an address.
func origin(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return u.Scheme + "://" + net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

// redactURL returns an address for messages: without its query, which may be a signature.
func redactURL(u *url.URL) string { return u.Scheme + "://" + u.Host + u.EscapedPath() }
