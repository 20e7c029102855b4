package hub

import (
	"context"
	"sync"
	"time"
)

// flights lets one goroutine do what several want at the same time.
type flights[T any] struct {
	mu  sync.Mutex
	now map[string]*flight[T]
}

type flight[T any] struct {
	done  chan struct{}
	value T
	err   error
}

// do runs f, or waits for another one that runs it under the same key and takes what that gives. If the other one was
// called off, it is run again. Watch is called every second of waiting; it may be nil.
func (g *flights[T]) do(ctx context.Context, key string, watch func(), f func() (T, error)) (value T, err error) {
	for {
		g.mu.Lock()
		other := g.now[key]
		if other == nil {
			own := &flight[T]{done: make(chan struct{})}
			if g.now == nil {
				g.now = map[string]*flight[T]{}
			}
			g.now[key] = own
			g.mu.Unlock()
			defer func() {
				g.mu.Lock()
				delete(g.now, key)
				g.mu.Unlock()
				close(own.done)
			}()
			own.err = errAborted
			own.value, own.err = f()
			value, err = own.value, own.err
			if ctx.Err() != nil && err != nil {
				own.err = errAborted
			}
			return value, err
		}
		g.mu.Unlock()
		if err := other.wait(ctx, watch); err != nil {
			return value, err
		}
		if other.err != errAborted {
			return other.value, other.err
		}
	}
}

// wait returns when the flight has ended, or the context has.
func (f *flight[T]) wait(ctx context.Context, watch func()) error {
	t := time.NewTicker(time.Second)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-f.done:
			return nil
		case <-t.C:
			if watch != nil {
				watch()
			}
		}
	}
}
