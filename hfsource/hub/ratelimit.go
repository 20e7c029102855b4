package hub

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// maxServerWait is the longest wait that a server is granted.
const maxServerWait = 10 * time.Minute

// itemOf finds the item of a class in a header like "api";r=0;t=55 or "fixed window";"api";q=500;w=300, or the only one.
func itemOf(h http.Header, name, class string) string {
	items := strings.Split(strings.Join(h.Values(name), ","), ",")
	for _, item := range items {
		for part := range strings.SplitSeq(item, ";") {
			if strings.Trim(part, ` "`) == class {
				return item
			}
		}
	}
	if len(items) == 1 {
		return items[0]
	}
	return ""
}

// number reads a parameter of an item.
func number(item, name string) (n int, ok bool) {
	for part := range strings.SplitSeq(item, ";") {
		if text, found := strings.CutPrefix(strings.TrimSpace(part), name+"="); found {
			n, err := strconv.Atoi(text)
			return min(n, 1e6), err == nil && n >= 0
		}
	}
	return 0, false
}

// limitOf reads how many calls of a class are left, and when that is set back.
func limitOf(h http.Header, class string) (left int, reset time.Duration, ok bool) {
	item := itemOf(h, "RateLimit", class)
	left, ok = number(item, "r")
	seconds, also := number(item, "t")
	return left, time.Duration(seconds) * time.Second, ok && also
}

// serverWait is how long a reply that says "later" asks to wait; 0 where it does not say, or names what is past.
func serverWait(r *reply, class string) time.Duration {
	if r.status != http.StatusTooManyRequests && r.status != http.StatusServiceUnavailable {
		return 0
	}
	if left, reset, ok := limitOf(r.header, class); ok && left == 0 && r.status == http.StatusTooManyRequests {
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

// rateLimiter spreads calls over the time until a budget is set back, before the hub has to say no.
type rateLimiter struct {
	mu   sync.Mutex
	next map[string]time.Time // by class: when the next call is due
}

// note reads the budget that is left. Below a twentieth of it, what is left is spread over the time that is left.
func (p *rateLimiter) note(h http.Header, class string, now time.Time) {
	left, reset, ok := limitOf(h, class)
	if !ok {
		return
	}
	quota, _ := number(itemOf(h, "RateLimit-Policy", class), "q")
	reset = min(reset, maxServerWait)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case left == 0:
		p.next[class] = now.Add(reset + time.Second)
	case left*20 < quota:
		p.next[class] = now.Add(reset / time.Duration(left))
	default:
		delete(p.next, class)
	}
}

// wait is how long to wait before a call.
func (p *rateLimiter) wait(class string, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.next[class].Sub(now)
}
