package hub

import (
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// maxServerWait is the longest wait that a server is granted.
const maxServerWait = 10 * time.Minute

// limit is one item of a RateLimit header: calls left in a class, and when that is set back.
type limit struct {
	class string
	left  int           // r
	reset time.Duration // t
}

var (
	limitItem  = regexp.MustCompile(`^\s*"?([A-Za-z0-9 _.-]+?)"?\s*;(.*)$`)
	policyItem = regexp.MustCompile(`"([A-Za-z0-9_.-]+)"\s*;\s*q=(\d+)`)
)

// parseLimits reads RateLimit: "api";r=0;t=55.
func parseLimits(h http.Header) (list []limit) {
	for item := range strings.SplitSeq(strings.Join(h.Values("RateLimit"), ","), ",") {
		m := limitItem.FindStringSubmatch(item)
		if m == nil {
			continue
		}
		l, has := limit{class: m[1]}, 0
		for p := range strings.SplitSeq(m[2], ";") {
			name, value, _ := strings.Cut(strings.TrimSpace(p), "=")
			v, err := strconv.Atoi(value)
			if err != nil || v < 0 {
				continue
			}
			switch name {
			case "r":
				l.left, has = v, has|1
			case "t":
				l.reset, has = time.Duration(min(v, 1e6))*time.Second, has|2
			}
		}
		if has == 3 {
			list = append(list, l)
		}
	}
	return list
}

// limitOf finds the item of a class, or the only one.
func limitOf(h http.Header, class string) (limit, bool) {
	list := parseLimits(h)
	for _, l := range list {
		if l.class == class {
			return l, true
		}
	}
	if len(list) == 1 {
		return list[0], true
	}
	return limit{}, false
}

// quota reads RateLimit-Policy: "fixed window";"api";q=500;w=300; 0 where it does not say.
func quota(h http.Header, class string) int {
	list := policyItem.FindAllStringSubmatch(strings.Join(h.Values("RateLimit-Policy"), ","), -1)
	for _, m := range list {
		if m[1] == class || len(list) == 1 {
			if q, err := strconv.Atoi(m[2]); err == nil {
				return q
			}
		}
	}
	return 0
}

// serverWait is how long a reply that says "later" asks to wait; 0 where it does not say, or names what is past.
func serverWait(r *reply, class string) time.Duration {
	if r.status != http.StatusTooManyRequests && r.status != http.StatusServiceUnavailable {
		return 0
	}
	if l, ok := limitOf(r.header, class); ok && l.left == 0 && r.status == http.StatusTooManyRequests {
		return l.reset + time.Second
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

// pacer spreads calls over the time until a budget is set back, before the hub has to say no.
type pacer struct {
	mu      sync.Mutex
	classes map[string]*pace
}

type pace struct {
	next  time.Time     // of the next call
	gap   time.Duration // between two calls
	until time.Time     // the gap holds
}

// note reads the budget that is left. Below a twentieth of it, what is left is spread over the time that is left.
func (p *pacer) note(h http.Header, class string, now time.Time) {
	l, ok := limitOf(h, class)
	if !ok {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.classes == nil {
		p.classes = map[string]*pace{}
	}
	c := p.classes[class]
	if c == nil {
		c = &pace{}
		p.classes[class] = c
	}
	l.reset = min(l.reset, maxServerWait)
	switch {
	case l.left == 0:
		c.gap = l.reset + time.Second
	case l.left*20 < quota(h, class):
		c.gap = l.reset / time.Duration(l.left)
	default:
		*c = pace{}
		return
	}
	c.until = now.Add(l.reset)
	if next := now.Add(c.gap); c.next.Before(next) {
		c.next = next
	}
}

// reserve takes the place of one call and returns how long to wait for it.
func (p *pacer) reserve(class string, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.classes[class]
	if c == nil || !c.next.After(now) && !c.until.After(now) {
		return 0
	}
	at := c.next
	if at.Before(now) {
		at = now
	}
	if c.next = at.Add(c.gap); !c.until.After(at) {
		c.next = at // the budget is set back by then
	}
	return at.Sub(now)
}
