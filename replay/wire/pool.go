package wire

import (
	"slices"
	"sync"
	"time"
)

// pool keeps idle connections. It gives out the newest first, so that surplus connections age and are closed.
type pool struct {
	mu     sync.Mutex
	idle   []*conn       // oldest first
	keep   time.Duration // how long a connection is kept; not positive: not at all
	closed bool
}

// get returns an idle connection that is open as far as can be seen, nil when there is none.
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

// put adds a connection and closes those that were idle for too long.
func (p *pool) put(cn *conn, now time.Duration) {
	cn.idle = now
	p.mu.Lock()
	old := 0
	for old < len(p.idle) && now-p.idle[old].idle >= p.keep {
		p.idle[old].Close()
		old++
	}
	p.idle = slices.Delete(p.idle, 0, old)
	keep := !p.closed && p.keep > 0
	if keep {
		p.idle = append(p.idle, cn)
	}
	p.mu.Unlock()
	if !keep {
		cn.Close()
	}
}

// close closes all idle connections. Later ones are closed by put.
func (p *pool) close() {
	p.mu.Lock()
	idle := p.idle
	p.idle, p.closed = nil, true
	p.mu.Unlock()
	for _, cn := range idle {
		cn.Close()
	}
}
