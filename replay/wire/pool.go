package wire

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// Reuse says which requests may use a connection that has served another request.
type Reuse uint8

// The kinds of reuse.
const (
	Pooled         Reuse = iota // every request: it gets the connection that was used last
	StickySessions              // a request of the same session, which has the connection to itself: see Request.Session
	NoReuse                     // none: every request has a connection of its own
)

// Validate refuses a value that is no kind of reuse.
func (r Reuse) Validate() error {
	if r > NoReuse {
		return fmt.Errorf("reuse of connections %d: want %d to %d", r, Pooled, NoReuse)
	}
	return nil
}

// pool keeps idle connections by session; those that any request may use are of the session "", or of the address that they lead to where a
// server has several. It gives out the newest first,
// so that surplus connections age and are closed.
type pool struct {
	mu     sync.Mutex
	idle   map[string][]*conn // oldest first
	keep   time.Duration      // how long a connection is kept; not positive: not at all
	swept  time.Duration      // when all sessions were last looked through for old connections
	closed bool
}

// get returns an idle connection that is open as far as can be seen, nil when there is none.
func (p *pool) get(session string, now time.Duration) *conn {
	for {
		cn := p.pop(session)
		if cn == nil {
			return nil
		}
		if now-cn.idle < p.keep && cn.alive() {
			return cn
		}
		cn.Close()
	}
}

func (p *pool) pop(session string) *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	idle := p.idle[session]
	n := len(idle)
	if n == 0 {
		return nil
	}
	cn := idle[n-1]
	idle[n-1] = nil
	p.set(session, idle[:n-1])
	return cn
}

// set replaces the connections of a session. A session without any is forgotten.
func (p *pool) set(session string, idle []*conn) {
	if len(idle) == 0 && session != "" {
		delete(p.idle, session)
		return
	}
	p.idle[session] = idle
}

// put adds a connection and closes those that were idle for too long.
func (p *pool) put(session string, cn *conn, now time.Duration) {
	cn.idle = now
	p.mu.Lock()
	p.closeOld(session, now)
	if now-p.swept >= p.keep {
		p.swept = now
		for other := range p.idle {
			p.closeOld(other, now)
		}
	}
	keep := !p.closed && p.keep > 0
	if keep {
		if p.idle == nil {
			p.idle = map[string][]*conn{}
		}
		p.idle[session] = append(p.idle[session], cn)
	}
	p.mu.Unlock()
	if !keep {
		cn.Close()
	}
}

// closeOld closes the connections of a session that were idle for too long.
func (p *pool) closeOld(session string, now time.Duration) {
	idle := p.idle[session]
	old := 0
	for old < len(idle) && now-idle[old].idle >= p.keep {
		idle[old].Close()
		old++
	}
	if old > 0 {
		p.set(session, slices.Delete(idle, 0, old))
	}
}

// close closes all idle connections. Later ones are closed by put.
func (p *pool) close() {
	p.mu.Lock()
	idle := p.idle
	p.idle, p.closed = nil, true
	p.mu.Unlock()
	for _, list := range idle {
		for _, cn := range list {
			cn.Close()
		}
	}
}
