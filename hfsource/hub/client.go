package hub

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-resty/resty/v2"

	"github.com/agentx/agentx/internal/durable"
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

// newClient returns a client for repositories of a kind.
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

// newCall returns a request with its headers. Only one to the hub itself has the token.
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

// guard returns a body that fails when it delivers less than minFlow bytes within idle.
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

const (
	attempts   = 6                // for one request
	maxBackoff = time.Minute      // between two attempts, where the server names no time
	longWait   = 5 * time.Second  // shortest wait that is logged, unless the server asks for it
	maxWait    = 10 * time.Minute // longest wait that a server may ask for
)

// exchange sends a request until its reply needs no retry, at most attempts times. Its errors are of ClassUnavailable, or
// those of the context.
func (c *client) exchange(ctx context.Context, rq request) (*reply, error) {
	for attempt := 1; ; attempt++ {
		if err := c.pace(ctx, rq); err != nil {
			return nil, err
		}
		r, err := c.once(ctx, rq)
		if ctx.Err() != nil {
			if err == nil {
				r.discard()
			}
			return nil, context.Cause(ctx)
		}
		if err == nil && !rq.cdn {
			c.readHeaders(r, rq.budget)
		}
		if err == nil && !isRetryable(r.status) {
			return r, nil
		}
		failure, wait := failureOf(rq, r, err)
		if isPermanent(err) {
			return nil, failure
		}
		if attempt == attempts {
			return nil, c.exhausted(failure)
		}
		if err := c.waitToRetry(ctx, rq, failure, wait, attempt); err != nil {
			return nil, err
		}
	}
}

// failureOf describes a failed attempt, by its reply or its error. wait is how long the server asks to wait, 0 if it does
// not say.
func failureOf(rq request, r *reply, err error) (failure *Error, wait time.Duration) {
	if err != nil {
		return &Error{Class: ClassUnavailable, Text: "no connection to " + redactURL(rq.url), Err: err, Hint: networkHint(err)}, 0
	}
	defer r.discard()
	failure = &Error{Class: ClassUnavailable, Status: r.status, RequestID: r.requestID(), Text: rq.url.Host + " answers " + statusText(r.status)}
	return failure, serverWait(r, rq.budget)
}

// exhausted completes the failure of the last attempt.
func (c *client) exhausted(failure *Error) error {
	failure.Text += fmt.Sprintf(", %d times in a row", attempts)
	failure.Hint = cmp.Or(failure.Hint, "again later")
	if failure.Status == http.StatusTooManyRequests && c.token == "" {
		failure.Hint = "again later, or set HF_TOKEN: the limits of an account are higher than those of an address"
	}
	return failure
}

// waitToRetry waits as long as the server asks, at most maxWait, or else for the backoff.
func (c *client) waitToRetry(ctx context.Context, rq request, failure *Error, wait time.Duration, failures int) error {
	asked := wait > 0
	if wait = min(wait, maxWait); !asked {
		wait = c.backoff(failures)
	}
	if asked || wait >= longWait {
		why := fmt.Sprintf("status %d", failure.Status)
		if failure.Err != nil {
			why = redact(failure.Err.Error())
		}
		if failure.Status == http.StatusTooManyRequests && !rq.cdn {
			why += ", the budget of " + string(rq.budget) + " calls is used up"
		}
		c.logf("waiting %s for %s: %s", wait.Round(time.Second), rq.url.Host, why)
	}
	return durable.Sleep(ctx, wait)
}

// backoff returns how long to wait after a number of failures in a row: 1 s, doubled with each up to maxBackoff, times a
// random number in [0, 1).
func (c *client) backoff(failures int) time.Duration {
	limit := min(time.Second<<min(failures-1, 10), maxBackoff)
	return time.Duration(c.rand() * float64(limit))
}

// pace delays a request whose budget is nearly used up.
func (c *client) pace(ctx context.Context, rq request) error {
	wait := c.limits.wait(rq.budget, time.Now())
	if rq.cdn || wait <= 0 {
		return nil
	}
	if wait >= longWait {
		c.logf("waiting %s: the hub has few %s calls left for this address", wait.Round(time.Second), rq.budget)
	}
	return durable.Sleep(ctx, wait)
}

// readHeaders reads rate limits and warnings from a reply of the hub. It logs each warning once, at most 20.
func (c *client) readHeaders(r *reply, b budget) {
	c.limits.note(r.header, b, time.Now())
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, text := range r.header.Values("X-HF-Warning") {
		if text = sanitize(text, 500); !c.warned[text] && len(c.warned) < 20 {
			c.warned[text] = true
			c.logf("the hub says: %s", text)
		}
	}
}

// isRetryable reports whether a request with this status is retried.
func isRetryable(status int) bool {
	return slices.Contains([]int{408, 429, 500, 502, 503, 504}, status)
}

// isPermanent reports whether a retry of a failed connection is useless, because the certificate is wrong.
func isPermanent(err error) bool {
	var certificate *tls.CertificateVerificationError
	return errors.As(err, &certificate)
}

// networkHint says what to do where the hub cannot be reached, "" for other errors.
func networkHint(err error) string {
	var authority x509.UnknownAuthorityError
	if errors.As(err, &authority) {
		return "REQUESTS_CA_BUNDLE=FILE or SSL_CERT_FILE=FILE, with the certificate (PEM) of the authority that signs for your proxy or mirror"
	}
	var name *net.DNSError
	if !errors.As(err, &name) && !slices.ContainsFunc(unreachableErrors, func(e error) bool { return errors.Is(err, e) }) {
		return ""
	}
	return "check the network; or without it: HF_ENDPOINT=URL of a mirror, HF_HUB_OFFLINE=1 for what the cache has, or the path of a local copy"
}

// statusText writes an HTTP status for messages, in words where it has some.
func statusText(status int) string {
	if text := http.StatusText(status); text != "" {
		return strings.ToLower(text)
	}
	return fmt.Sprintf("with the unknown status %d", status)
}

// rateLimiter spreads requests over the time until a budget is reset, before the hub answers 429. doc/spec/hub.md 6.
type rateLimiter struct {
	mu   sync.Mutex
	next map[budget]time.Time // when the next request is due
}

// note reads how many requests of a budget are left. Below 5 % of it, it spreads them over the time until the reset.
func (l *rateLimiter) note(h http.Header, b budget, now time.Time) {
	left, reset, ok := remaining(h, b)
	if !ok {
		return
	}
	quota, _ := parameter(itemOf(h, "RateLimit-Policy", b), "q")
	reset = min(reset, maxWait)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case left == 0:
		l.next[b] = now.Add(reset + time.Second)
	case left*20 < quota:
		l.next[b] = now.Add(reset / time.Duration(left))
	default:
		delete(l.next, b)
	}
}

// wait returns how long to wait before a request; 0 or less is not at all.
func (l *rateLimiter) wait(b budget, now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.next[b].Sub(now)
}

// serverWait returns how long a reply with a retryable status asks to wait, 0 if it names no time or one in the past.
func serverWait(r *reply, b budget) time.Duration {
	if r.status != http.StatusTooManyRequests && r.status != http.StatusServiceUnavailable {
		return 0
	}
	if left, reset, ok := remaining(r.header, b); ok && left == 0 && r.status == http.StatusTooManyRequests {
		return reset + time.Second
	}
	text := strings.TrimSpace(r.header.Get("Retry-After"))
	if v, err := strconv.ParseUint(text, 10, 63); err == nil {
		return time.Duration(min(v, 1e6)) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}

// remaining reads from the header RateLimit how many requests of a budget are left, and when it is reset.
func remaining(h http.Header, b budget) (left int, reset time.Duration, ok bool) {
	item := itemOf(h, "RateLimit", b)
	left, ok = parameter(item, "r")
	seconds, okReset := parameter(item, "t")
	return left, time.Duration(seconds) * time.Second, ok && okReset
}

// itemOf returns the item of a budget in a header like "api";r=0;t=55 or "fixed window";"api";q=500;w=300. If the header
// has one item, it is that.
func itemOf(h http.Header, name string, b budget) string {
	items := strings.Split(strings.Join(h.Values(name), ","), ",")
	for _, item := range items {
		for part := range strings.SplitSeq(item, ";") {
			if strings.Trim(part, ` "`) == string(b) {
				return item
			}
		}
	}
	if len(items) == 1 {
		return items[0]
	}
	return ""
}

// parameter returns the number name=NUMBER of an item, at most 1e6.
func parameter(item, name string) (n int, ok bool) {
	for part := range strings.SplitSeq(item, ";") {
		if text, found := strings.CutPrefix(strings.TrimSpace(part), name+"="); found {
			n, err := strconv.Atoi(text)
			return min(n, 1e6), err == nil && n >= 0
		}
	}
	return 0, false
}

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
