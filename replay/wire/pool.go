package wire

import (
	"sync"
	"time"
)

const keepAlive = 300 * time.Second // a connection that was idle for longer is not used again

// pool keeps idle connections. The newest is taken first, so that as few as possible stay in use.
type pool struct {
	mu     sync.Mutex
	idle   []*conn // by the time they were put back
	max    int     // 0: no limit
	closed bool
}

// get returns a connection that seems to be alive, or nil.
func (p *pool) get(now time.Duration) *conn {
	for {
		cn := p.pop()
		if cn == nil {
			return nil
		}
		if now-cn.idle < keepAlive && cn.alive() {
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

func (p *pool) put(cn *conn, now time.Duration) {
	cn.idle = now
	p.mu.Lock()
	keep := !p.closed && (p.max <= 0 || len(p.idle) < p.max)
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
