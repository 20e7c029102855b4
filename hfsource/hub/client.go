package hub

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/go-resty/resty/v2"
)

// client makes HTTP requests. It has two resty clients: hub sends the token and speaks to the endpoint only; cdn speaks to
// any host and never has the token. Neither follows redirects: follow makes a request of its own for each, so that headers
// are chosen for every host.
type client struct {
	settings
	kind      kind // of the repository
	hub, cdn  *resty.Client
	userAgent string
	rand      func() float64 // [0, 1)
	logf      func(format string, args ...any)
	limits    rateLimiter

	mu     sync.Mutex
	warned map[string]bool // warnings of the hub that were logged
}

// minFlow is the number of bytes that a body must deliver within settings.idleTimeout.
const minFlow = 64 << 10

func newClient(s settings, k kind, o Options) *client {
	c := &client{settings: s, kind: k, rand: o.rand, logf: o.Logf, limits: rateLimiter{next: map[budget]time.Time{}}, warned: map[string]bool{}}
	c.userAgent = "agentx/" + o.Version
	// No cookie jar, and no timeout of the client, which would include the body.
	newResty := func() *resty.Client {
		return resty.NewWithClient(&http.Client{Transport: hideLocation{o.Transport}}).
			SetRetryCount(0).
			SetDoNotParseResponse(true).
			SetLogger(silentLogger{})
	}
	c.hub, c.cdn = newResty(), newResty()
	return c
}

func (c *client) close() {
	c.hub.GetClient().CloseIdleConnections()
	c.cdn.GetClient().CloseIdleConnections()
}

// newTransport returns the transport for the network. Where authorities are nil those of the machine count.
func newTransport(authorities *x509.CertPool) *http.Transport {
	return &http.Transport{
		TLSClientConfig:     &tls.Config{RootCAs: authorities},
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout: 30 * time.Second,
		MaxIdleConnsPerHost: 64,
		IdleConnTimeout:     90 * time.Second,
		DisableCompression:  true,
		ForceAttemptHTTP2:   true,
	}
}

// hideLocation moves the header Location to locationKey. http.Client would parse it, and report an address that it cannot
// parse as a failed connection.
type hideLocation struct{ http.RoundTripper }

const locationKey = "Agentx-Location"

func (t hideLocation) RoundTrip(rq *http.Request) (*http.Response, error) {
	r, err := t.RoundTripper.RoundTrip(rq)
	if err == nil {
		r.Header[locationKey] = r.Header.Values("Location")
		r.Header.Del("Location")
	}
	return r, err
}

func (t hideLocation) CloseIdleConnections() {
	if c, ok := t.RoundTripper.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// silentLogger drops what resty logs: it may contain signed addresses.
type silentLogger struct{}

func (silentLogger) Errorf(string, ...any) {}
func (silentLogger) Warnf(string, ...any)  {}
func (silentLogger) Debugf(string, ...any) {}

// budget is a rate limit of the hub that a request counts against.
type budget string

// The budgets of the hub that this package uses.
const (
	apiBudget     budget = "api"       // /api/...
	resolveBudget budget = "resolvers" // .../resolve/...
)

// request is one request, which may be sent several times.
type request struct {
	cdn    bool // sent without the token, to any host
	method string
	url    *url.URL
	header func(at *url.URL) map[string]string // for one address of a chain of redirects; may be nil
	budget budget                              // of a request to the hub
}

// reply is the status and the headers of an answer, and its body, which must be closed.
type reply struct {
	status int
	header http.Header
	url    *url.URL
	body   *guardedBody
}

// discard closes an unused body. It first reads up to 4 KiB of it, so that the connection can be reused.
func (r *reply) discard() {
	r.body.left = min(r.body.left, time.Second)
	_, _ = io.CopyN(io.Discard, r.body, 4<<10) // the body is closed whatever this returns
	_ = r.body.Close()
}

// requestID returns the id of the reply for the hub's support.
func (r *reply) requestID() string {
	return sanitize(cmp.Or(r.header.Get("X-Request-Id"), r.header.Get("X-Amzn-Trace-Id"), r.header.Get("X-Amz-Cf-Id")), 100)
}

// encoding returns the Content-Encoding, "" for identity.
func (r *reply) encoding() string {
	if e := r.header.Get("Content-Encoding"); !strings.EqualFold(e, "identity") {
		return e
	}
	return ""
}

// once sends a request once. Its errors are those of the connection, or errHeaderTimeout.
func (c *client) once(ctx context.Context, rq request) (*reply, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	call := c.newCall(ctx, rq)
	timer := time.AfterFunc(c.headerTimeout, func() { cancel(errHeaderTimeout) })
	r, err := call.Execute(rq.method, rq.url.String())
	timer.Stop()
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		cancel(nil)
		var inner *url.Error
		if errors.As(err, &inner) { // its text has the whole address
			err = inner.Err
		}
		return nil, err
	}
	return &reply{status: r.StatusCode(), header: r.RawResponse.Header, url: rq.url, body: guard(ctx, cancel, r.RawBody(), c.idleTimeout)}, nil
}

func (c *client) newCall(ctx context.Context, rq request) *resty.Request {
	via := c.cdn
	if !rq.cdn {
		if via = c.hub; origin(rq.url) != origin(c.endpoint) {
			panic("a request with the token to " + redactURL(rq.url)) // follow never does that
		}
	}
	call := via.R().SetContext(ctx).SetHeader("User-Agent", c.userAgent).SetHeader("Accept-Encoding", "identity")
	if rq.header != nil {
		call.SetHeaders(rq.header(rq.url))
	}
	if !rq.cdn && c.token != "" {
		call.SetHeader("Authorization", "Bearer "+c.token)
	}
	return call
}

// guardedBody is a body whose Read fails with errIdleTimeout when it delivers less than minFlow bytes within idle.
// Only time inside Read counts, so that a slow disk does not look like a slow network.
type guardedBody struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	body   io.ReadCloser
	timer  *time.Timer
	idle   time.Duration
	left   time.Duration // of the current window
	got    int           // bytes in the current window
}

func guard(ctx context.Context, cancel context.CancelCauseFunc, body io.ReadCloser, idle time.Duration) *guardedBody {
	b := &guardedBody{ctx: ctx, cancel: cancel, body: body, idle: idle, left: idle}
	b.timer = time.AfterFunc(time.Hour, func() { cancel(errIdleTimeout) })
	b.timer.Stop()
	return b
}

func (b *guardedBody) Read(p []byte) (int, error) {
	begin := time.Now()
	b.timer.Reset(max(b.left, 1))
	n, err := b.body.Read(p)
	b.timer.Stop()
	b.left -= time.Since(begin)
	if b.got += n; b.got >= minFlow {
		b.left, b.got = b.idle, 0
	}
	if err != nil && err != io.EOF {
		if cause := context.Cause(b.ctx); cause != nil {
			err = cause
		}
	}
	return n, err
}

func (b *guardedBody) Close() error {
	b.timer.Stop()
	b.cancel(nil)
	return b.body.Close()
}
