package carry

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

// Options are what a proxy needs to know. Zero values of Timeouts and Limits stand for the defaults.
type Options struct {
	Upstreams []Upstream
	Observer  Observer // nil: none observes
	Detach    bool     // a reply is read to its end when its client left; without it, the request upstream ends
	Timeouts  Timeouts
	Limits    Limits
	// Dial opens connections to upstreams; nil for TCP.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Now returns nanoseconds of a monotonic clock; nil for the time since New.
	Now func() int64
	// Added is told how long a step took that a client without the proxy would not wait for. It must not block; nil: no one is told.
	Added func(stage Stage, nanoseconds int64)
}

// Timeouts bound what upstreams may take. Nothing bounds a whole exchange.
type Timeouts struct {
	Header time.Duration // 600 s: from the whole request to the head of the reply
	Stall  time.Duration // silence in mid-reply; 0: none is too long
}

// Timeouts that are the same for all proxies.
const (
	connectTime  = 10 * time.Second
	tlsTime      = 10 * time.Second
	continueTime = time.Second     // what a request with Expect waits for 100 Continue before its body goes up
	idleTime     = 4 * time.Second // of kept connections; servers with uvicorn close theirs after 5 s
)

// Limits bound copies and held bodies, in bytes.
type Limits struct {
	RequestCopy int64 // 64 MiB: of one request's body
	ReplyCopy   int64 // 16 MiB: of one reply's body that is no event stream
	Copies      int64 // 1 GiB: of all copies that are alive
	Held        int64 // 64 MiB: of a body that is read before dispatch
}

// Stage is a step of which Options.Added is told.
type Stage int

// The stages.
const (
	Dispatch  Stage = iota // from the head of the request, or a held body's end, to its head on the upstream's connection
	FirstByte              // from the first byte of the reply to its head on the client's connection
	Flush                  // from the read of bytes of a reply to their write
)

// Validate names everything that is wrong.
func (o *Options) Validate() error {
	var list []error
	if len(o.Upstreams) == 0 {
		list = append(list, errors.New("no upstream: give at least one"))
	}
	seen := map[Kind]bool{}
	for _, u := range o.Upstreams {
		if err := u.check(); err != nil {
			list = append(list, fmt.Errorf("upstream %s://%s: %w", u.Scheme, u.Host, err))
		}
		if seen[u.Kind] {
			list = append(list, fmt.Errorf("two upstreams of kind %q: give one of each kind, and one without", string(u.Kind)))
		}
		seen[u.Kind] = true
	}
	t, l := o.Timeouts, o.Limits
	for i, d := range []time.Duration{t.Header, t.Stall} {
		if d < 0 {
			name := [...]string{"header", "stall"}[i]
			list = append(list, fmt.Errorf("timeout %s is %v: it must not be negative", name, d))
		}
	}
	for i, n := range []int64{l.RequestCopy, l.ReplyCopy, l.Copies, l.Held} {
		if n < 0 {
			name := [...]string{"request_copy", "reply_copy", "copies", "held"}[i]
			list = append(list, fmt.Errorf("limit %s is %d: it must not be negative", name, n))
		}
	}
	return errors.Join(list...)
}
