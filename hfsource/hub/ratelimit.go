package hub

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

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
