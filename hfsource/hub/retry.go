package hub

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/agentx/agentx/internal/durable"
)

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
