package wire

import (
	"slices"
	"sync"
	"time"
)

// DefaultKeepAlive is how long an unused connection is kept. Servers close theirs without a word, many after 5 s.
const DefaultKeepAlive = 4 * time.Second

// pool keeps idle connections. The newest is taken first, so that as few as possible stay in use.
type pool struct {
	mu     sync.Mutex
	idle   []*conn // by the time they were put back
	max    int     // 0: no limit
	keep   time.Duration
	closed bool
}

// get returns a connection that seems to be alive, or nil.
func (p *pool) get(now time.Duration) *conn {
	for {
		cn := p.pop()
		if cn == nil {
			return nil
		}
		if now-cn.idle < p.keep && cn.alive() {
			return cn
		}
		cn.Close()
	}
}

func (p *pool) pop() *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.idle)
	if n == 0 {
		return nil
	}
	cn := p.idle[n-1]
	p.idle[n-1] = nil
	p.idle = p.idle[:n-1]
	return cn
}

// put keeps a connection, and closes those that were unused for too long.
func (p *pool) put(cn *conn, now time.Duration) {
	cn.idle = now
	p.mu.Lock()
	old := 0
	for old < len(p.idle) && now-p.idle[old].idle >= p.keep {
		p.idle[old].Close()
		old++
	}
	p.idle = slices.Delete(p.idle, 0, old)
	keep := !p.closed && p.keep > 0 && (p.max <= 0 || len(p.idle) < p.max)
	if keep {
		p.idle = append(p.idle, cn)
	}
	p.mu.Unlock()
	if !keep {
		cn.Close()
	}
}

func (p *pool) close() {
	p.mu.Lock()
	idle := p.idle
	p.idle, p.closed = nil, true
	p.mu.Unlock()
	for _, cn := range idle {
		cn.Close()
	}
}
