package hub

import (
	"cmp"
	"context"
	"crypto/tls"
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

// client speaks HTTP. It has two faces: hub, which may hold the token and speaks to one origin, and cdn, which never
// holds one. No redirect is followed by itself: every hop is a request of ours, with headers chosen anew.
type client struct {
	settings
	hub, cdn  *resty.Client
	userAgent string
	rand      func() float64 // [0, 1)
	notice    func(format string, args ...any)
	limits    rateLimiter

	mu     sync.Mutex
	warned map[string]bool // texts of the hub that were shown
}

// attempts is how often one request is made before its failure counts.
const attempts = 6

// hops is how many redirects are followed for one request.
const hops = 5

// minFlow is what a body must give in the time of settings.idle, in bytes.
const minFlow = 64 << 10

func newClient(s settings, o Options) *client {
	c := &client{settings: s, rand: o.rand, notice: o.Logf, limits: rateLimiter{next: map[string]time.Time{}}, warned: map[string]bool{}}
	c.userAgent = "agentx/" + o.Version
	for _, face := range []**resty.Client{&c.hub, &c.cdn} {
		// Neither a cookie jar nor a limit in time, which would cover the body; one attempt for each call.
		*face = resty.NewWithClient(&http.Client{Transport: unfollowed{o.Transport}}).
			SetRetryCount(0).
			SetDoNotParseResponse(true).
			SetLogger(silence{})
	}
	return c
}

// unfollowed hides from http.Client where a redirect leads: it would read the address, and take one that it cannot read
// for an answer that did not come.
type unfollowed struct{ http.RoundTripper }

// locationKey is where the header Location is put, over what a server may have sent under that name.
const locationKey = "Agentx-Location"

func (u unfollowed) RoundTrip(rq *http.Request) (*http.Response, error) {
	r, err := u.RoundTripper.RoundTrip(rq)
	if err == nil {
		r.Header[locationKey] = r.Header.Values("Location")
		r.Header.Del("Location")
	}
	return r, err
}

func (u unfollowed) CloseIdleConnections() {
	if c, ok := u.RoundTripper.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// silence drops what resty would print: it could be an address that is a secret.
type silence struct{}

func (silence) Errorf(string, ...any) {}
func (silence) Warnf(string, ...any)  {}
func (silence) Debugf(string, ...any) {}

// newTransport returns the transport of a real network.
func newTransport() *http.Transport {
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout: 30 * time.Second,
		MaxIdleConnsPerHost: 64,
		IdleConnTimeout:     90 * time.Second,
		DisableCompression:  true,
		ForceAttemptHTTP2:   true,
	}
}

// origin is scheme, host and port of an address.
func origin(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return u.Scheme + "://" + net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

// shown is an address for people: without its query, which may be a secret.
func shown(u *url.URL) string { return u.Scheme + "://" + u.Host + u.EscapedPath() }

// address returns the address of a path of the hub, which is escaped already.
func (c *client) address(path string) *url.URL {
	u, err := url.Parse(strings.TrimRight(c.endpoint.String(), "/") + path)
	if err != nil {
		panic(err) // the end point was parsed, and the path is ASCII
	}
	return u
}

// request is one request, to be made several times if need be.
type request struct {
	cdn    bool
	method string
	url    *url.URL
	header map[string]string
	class  string // of the budget that it is drawn from: api or resolvers
}

// reply is what came back: status and headers. The body is read through the watchdog and must be closed.
type reply struct {
	status int
	header http.Header
	url    *url.URL
	body   *watched
}

// drop closes a body that nobody reads; what little is left of one is read, so that the connection can be used again.
func (r *reply) drop() {
	r.body.left = min(r.body.left, time.Second)
	_, _ = io.CopyN(io.Discard, r.body, 4<<10) // whatever it gives: it is closed
	_ = r.body.Close()
}

// requestID names the reply for the hub's support.
func (r *reply) requestID() string {
	for _, name := range []string{"X-Request-Id", "X-Amzn-Trace-Id", "X-Amz-Cf-Id"} {
		if v := r.header.Get(name); v != "" {
			return printable(v, 100)
		}
	}
	return ""
}

// printable makes a text of somebody else's fit to be shown.
func printable(text string, limit int) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	if text = scrub(strings.TrimSpace(text)); len(text) > limit {
		text = strings.ToValidUTF8(text[:limit], "") + "..."
	}
	return text
}

var (
	errNoHeaders = errors.New("no answer in time")
	errIdle      = errors.New("the body came too slowly")
)

// once makes a request once. The only errors are those of the connection.
func (c *client) once(ctx context.Context, rq request) (*reply, error) {
	face := c.cdn
	if !rq.cdn {
		if face = c.hub; origin(rq.url) != origin(c.endpoint) {
			panic("a request with the token to " + shown(rq.url)) // no code path leads here
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	call := face.R().SetContext(ctx).SetHeaders(rq.header).SetHeader("User-Agent", c.userAgent).SetHeader("Accept-Encoding", "identity")
	if !rq.cdn && c.token != "" {
		call.SetHeader("Authorization", "Bearer "+c.token)
	}
	slow := time.AfterFunc(c.headers, func() { cancel(errNoHeaders) })
	r, err := call.Execute(rq.method, rq.url.String())
	slow.Stop()
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
	w := &watched{ctx: ctx, cancel: cancel, body: r.RawBody(), idle: c.idle, left: c.idle}
	w.timer = time.AfterFunc(time.Hour, func() { cancel(errIdle) })
	w.timer.Stop()
	return &reply{status: r.StatusCode(), header: r.RawResponse.Header, url: rq.url, body: w}, nil
}

// watched is a body that ends when it gives less than minFlow in the time idle. Only the time in Read counts: a slow disk
// is not the network's fault.
type watched struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	body   io.ReadCloser
	timer  *time.Timer
	idle   time.Duration
	left   time.Duration // of the present window
	got    int           // in it
}

func (w *watched) Read(p []byte) (int, error) {
	begin := time.Now()
	w.timer.Reset(max(w.left, 1))
	n, err := w.body.Read(p)
	w.timer.Stop()
	w.left -= time.Since(begin)
	if w.got += n; w.got >= minFlow {
		w.left, w.got = w.idle, 0
	}
	if err != nil && err != io.EOF {
		if cause := context.Cause(w.ctx); cause != nil {
			err = cause
		}
	}
	return n, err
}

func (w *watched) Close() error {
	w.timer.Stop()
	w.cancel(nil)
	return w.body.Close()
}

// exchange makes a request until it is answered with something else than "later", at most attempts times. Its errors
// are of the class Unavailable, or those of the context.
func (c *client) exchange(ctx context.Context, rq request) (*reply, error) {
	for attempt := 1; ; attempt++ {
		if !rq.cdn {
			if err := c.pause(ctx, rq.class); err != nil {
				return nil, err
			}
		}
		r, err := c.once(ctx, rq)
		if ctx.Err() != nil {
			if err == nil {
				r.drop()
			}
			return nil, context.Cause(ctx)
		}
		var wait time.Duration
		var why *Error
		if err == nil {
			if !rq.cdn {
				c.read(r, rq.class)
			}
			if !later(r.status) {
				return r, nil
			}
			wait = serverWait(r, rq.class)
			why = &Error{Class: ClassUnavailable, Status: r.status, RequestID: r.requestID(), Text: rq.url.Host + " answers " + statusText(r.status)}
			r.drop()
		} else {
			why = &Error{Class: ClassUnavailable, Text: "no connection to " + shown(rq.url), Err: err}
			if final(err) {
				return nil, why
			}
			why.Hint = tryNetwork(err)
		}
		if attempt == attempts {
			why.Text += fmt.Sprintf(", %d times in a row", attempts)
			why.Hint = cmp.Or(why.Hint, "again later")
			if why.Status == http.StatusTooManyRequests && c.token == "" {
				why.Hint = "again later, or set HF_TOKEN: the limits of an account are higher than those of an address"
			}
			return nil, why
		}
		asked := wait > 0
		if wait = min(wait, maxServerWait); !asked {
			wait = c.backoff(attempt)
		}
		if asked || wait >= 5*time.Second {
			c.notice("waiting %s for %s: %s%s", wait.Round(time.Second), rq.url.Host, reason(why), budgetText(why.Status, rq))
		}
		if err := durable.Sleep(ctx, wait); err != nil {
			return nil, err
		}
	}
}

// tryNetwork says what to do where there is no way to the hub, which may well be meant to be so.
func tryNetwork(err error) string {
	var name *net.DNSError
	for _, e := range noWay {
		if errors.Is(err, e) || errors.As(err, &name) {
			return "the network, or without it: HF_ENDPOINT=URL of a mirror, HF_HUB_OFFLINE=1 for what the cache has, or the path of a local copy"
		}
	}
	return ""
}

func reason(why *Error) string {
	if why.Status != 0 {
		return fmt.Sprintf("status %d", why.Status)
	}
	return scrub(why.Err.Error())
}

func budgetText(status int, rq request) string {
	if status != http.StatusTooManyRequests || rq.cdn {
		return ""
	}
	return ", the budget of " + rq.class + " calls is used up"
}

func statusText(status int) string {
	if text := http.StatusText(status); text != "" {
		return strings.ToLower(text)
	}
	return "with an unknown status"
}

// later reports whether a status asks for another attempt.
func later(status int) bool {
	switch status {
	case 408, 429, 500, 502, 503, 504:
		return true
	}
	return false
}

// final reports whether an error of a connection would come again: what is at the other end is not who it should be.
func final(err error) bool {
	var certificate *tls.CertificateVerificationError
	return errors.As(err, &certificate)
}

// backoff is how long to wait after so many failures in a row: a second, doubled each time up to a minute, of which a
// random share.
func (c *client) backoff(failures int) time.Duration {
	limit := min(time.Second<<min(failures-1, 10), time.Minute)
	return time.Duration(c.rand() * float64(limit))
}

// redirect reports whether a status names another address.
func redirect(status int) bool {
	switch status {
	case 301, 302, 303, 307, 308:
		return true
	}
	return false
}

// follow makes a request and follows redirects within the origin of the hub, at most hops. One that leads elsewhere ends
// it on resolve: away is where to, and r has the headers. On an api call it is an error, and the other origin is not asked.
func (c *client) follow(ctx context.Context, rq request, resolve bool) (r *reply, away *url.URL, err error) {
	for hop := 0; ; hop++ {
		if r, err = c.exchange(ctx, rq); err != nil || !redirect(r.status) {
			return r, nil, err
		}
		to, err := c.location(r)
		if err == nil && origin(to) != origin(c.endpoint) {
			if resolve {
				return r, to, nil
			}
			err = &Error{Class: ClassNotHub, Text: fmt.Sprintf("%s redirects to %s, which is not asked", origin(rq.url), origin(to)), Status: r.status, RequestID: r.requestID()}
		}
		if err == nil && !strings.HasPrefix(to.EscapedPath(), strings.TrimRight(c.endpoint.EscapedPath(), "/")+"/") {
			err = &Error{Class: ClassNotHub, Text: "a redirect to " + shown(to) + " leads out of " + shown(c.endpoint), Status: r.status, RequestID: r.requestID()}
		}
		if err == nil && hop == hops {
			err = &Error{Class: ClassNotHub, Text: fmt.Sprintf("more than %d redirects in a row, the last from %s", hops, shown(rq.url)), Status: r.status, RequestID: r.requestID()}
		}
		r.drop()
		if err != nil {
			return nil, nil, err
		}
		rq.url = to
	}
}

// location returns where a redirect leads.
func (c *client) location(r *reply) (*url.URL, error) {
	fail := func(text string) error {
		return &Error{Class: ClassNotHub, Text: "a redirect of " + shown(r.url) + " " + text, Status: r.status, RequestID: r.requestID(), Hint: tryProxy}
	}
	list := r.header[locationKey]
	if len(list) == 0 || list[0] == "" {
		return nil, fail("names no address")
	}
	to, err := r.url.Parse(list[0])
	switch {
	case err != nil:
		return nil, fail("names an address that cannot be read: " + strconv.Quote(printable(list[0], 200)))
	case to.Scheme != "https" && to.Scheme != "http" || to.Host == "":
		return nil, fail("leads to " + to.Scheme + ", which is not followed")
	case to.User != nil:
		return nil, fail("carries a password, which is not sent")
	case to.Scheme == "http" && c.endpoint.Scheme == "https":
		return nil, fail("leads from https to http, which is not followed")
	case slices.Contains(strings.Split(to.Path, "/"), ".."): // what is not encoded is resolved by now
		return nil, fail("leads to " + shown(to) + ", whose .. is not followed")
	}
	return c.rewrite(to), nil
}

// rewrite puts the end point in the place of the hub's own origin, for a mirror that hands out addresses as the hub does.
func (c *client) rewrite(u *url.URL) *url.URL {
	hub, _ := url.Parse(official) // a constant
	if origin(u) != origin(hub) || origin(c.endpoint) == origin(hub) {
		return u
	}
	to := c.address(u.EscapedPath())
	to.RawQuery = u.RawQuery
	return to
}

// read takes from the headers of a reply what concerns every reply: budgets, and words of the hub.
func (c *client) read(r *reply, class string) {
	c.limits.note(r.header, class, time.Now())
	for _, text := range r.header.Values("X-HF-Warning") {
		text = printable(text, 500)
		c.mu.Lock()
		first := !c.warned[text] && len(c.warned) < 20
		if first {
			c.warned[text] = true
		}
		c.mu.Unlock()
		if first {
			c.notice("the hub says: %s", text)
		}
	}
}

// pause waits before a call of a class whose budget is running out.
func (c *client) pause(ctx context.Context, class string) error {
	wait := c.limits.wait(class, time.Now())
	if wait <= 0 {
		return nil
	}
	if wait >= 5*time.Second {
		c.notice("waiting %s: the hub has few %s calls left for this address", wait.Round(time.Second), class)
	}
	return durable.Sleep(ctx, wait)
}

// close gives connections back.
func (c *client) close() {
	c.hub.GetClient().CloseIdleConnections()
	c.cdn.GetClient().CloseIdleConnections()
}
