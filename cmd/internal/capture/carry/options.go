package carry

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

// Options are what a proxy needs to know. Zero values of what is bounded stand for the defaults. Nothing bounds a whole exchange.
type Options struct {
	Upstreams []Upstream
	Observer  Observer // nil: none observes
	Detach    bool     // a reply is read to its end when its client left; without it, the request upstream ends

	HeaderTimeout time.Duration // 600 s: from the whole request to the head of the reply
	Stall         time.Duration // silence in mid-reply; 0: none is too long

	RequestCopy int64 // bytes, 64 MiB: of one request's body
	ReplyCopy   int64 // 16 MiB: of one reply's body that is no event stream
	Copies      int64 // 1 GiB: of all copies that are alive
	held        int64 // 64 MiB: of a body that is read before dispatch

	// Dial opens connections to upstreams; nil for TCP.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Now returns nanoseconds of a monotonic clock; nil for the time since New.
	Now func() int64
	// Added is told how long a step took that a client without the proxy would not wait for. It must not block; nil: no one is told.
	Added func(stage Stage, nanoseconds int64)
}

// Timeouts that are the same for all proxies.
const (
	connectTime  = 10 * time.Second
	tlsTime      = 10 * time.Second
	continueTime = time.Second     // what a request with Expect waits for 100 Continue before its body goes up
	idleTime     = 4 * time.Second // of kept connections; servers with uvicorn close theirs after 5 s
)

// Stage is a step whose duration is passed to Options.Added.
type Stage int

// The stages.
const (
	Dispatch  Stage = iota // from the head of the request, or a held body's end, to its head on the upstream's connection
	FirstByte              // from the first byte of the reply to its head on the client's connection
	Flush                  // from the read of bytes of a reply to their write
)

// ValidateUpstreams names everything that is wrong with a list of upstreams.
func ValidateUpstreams(upstreams []Upstream) error {
	var list []error
	if len(upstreams) == 0 {
		list = append(list, errors.New("no upstream: give at least one"))
	}
	seen := map[Kind]bool{}
	for _, u := range upstreams {
		if err := u.check(); err != nil {
			list = append(list, fmt.Errorf("upstream %s://%s: %w", u.Scheme, u.Host, err))
		}
		if seen[u.Kind] {
			list = append(list, fmt.Errorf("two upstreams of kind %q: give one of each kind, and one without", string(u.Kind)))
		}
		seen[u.Kind] = true
	}
	return errors.Join(list...)
}
