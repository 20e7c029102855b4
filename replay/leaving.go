package replay

import (
	"context"
	"time"

	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/replay/conductor"
)

// A child that is spawned at the issue of a turn of its parent may be due at that instant. Both turns have goroutines and connections of
// their own, so either could be on the wire first. The child leaves when the request of its parent has been written, or maxBehind later.

// maxBehind is the longest that a turn waits for the request of its parent. What is longer in being written is so for its server.
const maxBehind = 10 * time.Millisecond

// leaving is a turn that was ordered.
type leaving struct {
	issued  time.Duration
	written chan struct{} // closed when its request has been written, or is over
}

// order notes that a turn was ordered, and returns the request that it leaves behind: that of the turn which spawned it at this instant;
// nil: it may leave. The loop calls it.
func (t *activeTree) order(d conductor.Dispatch) (own, ahead *leaving) {
	if len(t.plan.Sessions) == 1 {
		return nil, nil
	}
	if t.leaving == nil {
		t.leaving = make([]*leaving, len(t.plan.Sessions))
	}
	if parent := t.plan.Sessions[d.Session].Parent; parent != mmapcache.None && d.Turn == 0 {
		if p := t.leaving[parent]; p != nil && p.issued == d.Due {
			ahead = p
		}
	}
	own = &leaving{issued: d.Issued, written: make(chan struct{})}
	t.leaving[d.Session] = own
	return own, ahead
}

// wasWritten says that the request has been written, or is over. It may say so again. Nil is a turn that nothing waits for.
func (l *leaving) wasWritten() {
	if l == nil {
		return
	}
	select {
	case <-l.written:
	default:
		close(l.written)
	}
}

// await waits until the request has been written, the time is up, or ctx ends. Nil is waited for by nobody.
func (l *leaving) await(ctx context.Context, after func(time.Duration) <-chan time.Time) {
	if l == nil {
		return
	}
	select {
	case <-l.written: // mostly by now
		return
	default:
	}
	select {
	case <-l.written:
	case <-after(maxBehind):
	case <-ctx.Done():
	}
}
