package wire

import (
	"fmt"
	"sync"
	"time"
)

// A server may stop in the middle of an answer and keep its connection open. A timer would have to be set for every read; instead
// the caller of EndStalled looks at all requests in flight from time to time, and every read leaves its instant for that.

// flights are the requests of a client that are on a connection.
type flights struct {
	mu    sync.Mutex
	conns []*conn
	heard time.Duration // when the newest bytes came of those that are over
}

// enter adds the connection of a request that is about to be sent.
func (f *flights) enter(cn *conn, now time.Duration) {
	cn.in.heard.Store(int64(^now))
	cn.stalled.Store(false)
	f.mu.Lock()
	defer f.mu.Unlock()
	cn.flight = len(f.conns)
	f.conns = append(f.conns, cn)
}

// leave removes the connection of a request that is over. It reports whether EndStalled has ended the request.
func (f *flights) leave(cn *conn) (stalled bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	last := len(f.conns) - 1
	f.conns[cn.flight], f.conns[last].flight = f.conns[last], cn.flight
	f.conns[last] = nil
	f.conns = f.conns[:last]
	f.heard = max(f.heard, time.Duration(cn.in.heard.Load()))
	return cn.stalled.Load()
}

// EndStalled ends the requests from whose servers nothing has come for too long at an instant since Options.Epoch: they fail as
// [Stalled]. One that it has not found so before has time until the next call: this process may have stood still, with bytes that it has not
// read yet. EndStalled returns when the newest bytes of any answer came, 0 before the first.
func (c *Client) EndStalled(now time.Duration) (heard time.Duration) {
	f := &c.flights
	f.mu.Lock()
	defer f.mu.Unlock()
	heard = f.heard
	for _, cn := range f.conns {
		since, begun := cn.silentSince()
		limit := c.firstByteTimeout
		if begun {
			heard, limit = max(heard, since), c.stallTimeout
		}
		if limit <= 0 || now-since < limit {
			continue
		}
		if cn.suspected != since+1 {
			cn.suspected = since + 1
			continue
		}
		cn.stalled.Store(true)
		cn.abort()
	}
	return heard
}

// silentSince returns when the newest bytes of an answer came; if it has not begun, when the request was about to be sent.
func (cn *conn) silentSince() (at time.Duration, begun bool) {
	at = time.Duration(cn.in.heard.Load())
	if at < 0 {
		return ^at, false
	}
	return at, true
}

// stalledFailure returns the failure of a request that EndStalled has ended.
func (x *call) stalledFailure(cn *conn) *Failure {
	text := fmt.Sprintf("the server sent no byte of an answer within %v", x.firstByteTimeout)
	if _, begun := cn.silentSince(); begun {
		text = fmt.Sprintf("the server sent nothing for %v in the middle of its answer", x.stallTimeout)
	}
	return x.newFailure(Stalled, x.res.Status, text)
}
