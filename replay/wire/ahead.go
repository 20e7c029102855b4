package wire

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Ahead is a request that is to come: it has the route and the session of a Request.
type Ahead struct {
	Route   *Route
	Session string
}

// openAtOnce is how many connections are made at a time: enough to hide the way to the server and back, and fewer than servers let wait
// to be accepted.
const openAtOnce = 64

// Open makes connections for requests that are about to be sent at once, so that none of them has to: as many as they need beside those
// that are kept. It returns how many it made. It gives up when ctx ends and when one cannot be made: the requests make what is missing,
// and say why they cannot. With NoReuse it makes none.
func (c *Client) Open(ctx context.Context, requests []Ahead) (opened int) {
	if c.idle.keep <= 0 {
		return 0
	}
	if _, err := c.resolver.addresses(ctx); err != nil { // of which routes take theirs
		return 0
	}
	missing := c.missing(requests)
	ctx, giveUp := context.WithCancel(ctx)
	defer giveUp()
	var next, made atomic.Int64
	var all sync.WaitGroup
	for range min(openAtOnce, len(missing)) {
		all.Go(func() {
			for n := next.Add(1); int(n) <= len(missing); n = next.Add(1) {
				if !c.openFor(ctx, missing[n-1]) {
					giveUp()
					return
				}
				made.Add(1)
			}
		})
	}
	all.Wait()
	return int(made.Load())
}

// missing returns those of the requests for which no connection is kept.
func (c *Client) missing(requests []Ahead) (list []Ahead) {
	kept := map[string]int{} // by who may use them: connections that are left
	for _, r := range requests {
		key, ok := c.keptFor(r)
		if !ok {
			continue
		}
		n, known := kept[key]
		if !known {
			n = c.idle.count(key, c.now())
		}
		if kept[key] = n - 1; n <= 0 {
			list = append(list, r)
		}
	}
	return list
}

// openFor makes a connection for a request.
func (c *Client) openFor(ctx context.Context, r Ahead) bool {
	cn, err := c.dial(ctx, time.Time{}, r.Route)
	if err != nil {
		return false
	}
	key := cn.address
	if c.reuse == StickySessions {
		key = r.Session
	}
	c.idle.put(key, cn, c.now())
	return true
}

// keptFor returns the key under which connections for a request are kept. ok is false where none are.
func (c *Client) keptFor(r Ahead) (key string, ok bool) {
	if c.reuse == StickySessions {
		return r.Session, r.Session != ""
	}
	return r.Route.address(c.resolver.known), true
}
