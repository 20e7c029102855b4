package wire

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// target is where requests go.
type target struct {
	tls    bool
	host   string // name or address, without brackets
	port   uint16
	header string // value of the Host header
	root   string // what stands before the path of a request
	api    string // what stands before it in place of /v1
	query  string // with its question mark
}

// endpoints are what people copy into a URL behind the root of the API.
var endpoints = [...]string{"/chat/completions", "/completions"}

// parseTarget reads the URL of a server: scheme, host and port, a path that goes before every request's, a query
// that goes behind it. Errors do not repeat the URL: it may have a secret in it.
func parseTarget(raw string) (target, error) {
	u, err := url.Parse(raw)
	if err != nil {
		var parse *url.Error
		if errors.As(err, &parse) {
			err = parse.Err
		}
		return target{}, fmt.Errorf("wire: target is no URL: %w", err)
	}
	t := target{tls: u.Scheme == "https", host: u.Hostname(), header: u.Host, port: 80}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return target{}, fmt.Errorf("wire: target has scheme %q: want http or https", u.Scheme)
	case t.host == "":
		return target{}, errors.New("wire: target has no host")
	case u.User != nil:
		return target{}, errors.New("wire: target has a user in it: pass credentials as an API key or a header")
	case u.Fragment != "":
		return target{}, errors.New("wire: target has a fragment")
	}
	for i := range len(u.Host) {
		if u.Host[i] <= ' ' || u.Host[i] >= 0x7f {
			return target{}, fmt.Errorf("wire: target host has byte %#x in it", u.Host[i])
		}
	}
	if t.tls {
		t.port = 443
	}
	if p := u.Port(); p != "" {
		n, err := strconv.ParseUint(p, 10, 16)
		if err != nil || n == 0 {
			return target{}, fmt.Errorf("wire: target has port %q", p)
		}
		t.port = uint16(n)
	}
	t.setPath(strings.TrimRight(u.EscapedPath(), "/"))
	if u.RawQuery != "" {
		t.query = "?" + u.RawQuery
	}
	return t, nil
}

// setPath takes the path of a URL. One that ends in an endpoint, or in /v1, is that of the API; any other one has /v1
// below it: so all forms of URL that people write mean the same.
func (t *target) setPath(path string) {
	t.root, t.api = path, path+"/v1"
	for _, e := range endpoints {
		if api, ok := strings.CutSuffix(path, e); ok {
			t.root, t.api = api, api
			return
		}
	}
	if strings.HasSuffix(path, "/v1") {
		t.api = path
	}
}

// appendPath appends the path of a request and the query.
func (t *target) appendPath(b []byte, path string) []byte {
	if rest, ok := strings.CutPrefix(path, "/v1/"); ok {
		b = append(append(b, t.api...), '/')
		b = append(b, rest...)
	} else {
		b = append(append(b, t.root...), path...)
	}
	return append(b, t.query...)
}

// resolver keeps the addresses of a host, so that a thousand lanes that start at once ask the name server once.
type resolver struct {
	host   string
	turn   chan struct{} // holds one token: whoever has it may look, and ask
	addrs  []netip.Addr
	expiry time.Time
}

// addressLife is how long an answer of the name server is used.
const addressLife = 300 * time.Second

func newResolver(host string) *resolver {
	r := &resolver{host: host, turn: make(chan struct{}, 1)}
	r.turn <- struct{}{}
	if a, err := netip.ParseAddr(host); err == nil {
		r.addrs, r.expiry = []netip.Addr{a}, time.Unix(1<<40, 0)
	}
	return r
}

// addresses are those of the host, IPv4 first.
func (r *resolver) addresses(ctx context.Context) ([]netip.Addr, error) {
	select {
	case <-r.turn:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { r.turn <- struct{}{} }()
	if time.Now().Before(r.expiry) {
		return r.addrs, nil
	}
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", r.host)
	if err != nil {
		return nil, err
	}
	for i, a := range addrs {
		addrs[i] = a.Unmap()
	}
	slices.SortStableFunc(addrs, func(a, b netip.Addr) int { return a.BitLen() - b.BitLen() })
	r.addrs, r.expiry = addrs, time.Now().Add(addressLife)
	return addrs, nil
}
