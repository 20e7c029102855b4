package mock

import (
	"context"
	"sync"
	"time"
)

// engine drives a capacity by a clock. While it has requests, one goroutine sleeps from event to event: an event that comes
// late moves no other one, because the capacity knows its instant.
type engine struct {
	clock   clock
	started time.Time

	mu       sync.Mutex
	capacity capacity
	driven   bool   // the goroutine runs
	wake     func() // ends its sleep
}

// newEngine returns the engine of a configuration that limits the server, else nil.
func newEngine(c Config, started time.Time) *engine {
	if !c.limited() {
		return nil
	}
	return &engine{clock: c.clock, started: started, capacity: capacity{
		prefillSlots: c.PrefillSlots, decodeSlots: c.DecodeSlots, itl: c.tokenInterval(), growth: c.ITLGrowth,
	}}
}

// arrive adds a request whose prompt takes a time in a slot, and whose answer has a number of tokens.
func (e *engine) arrive(prefill time.Duration, tokens int) *job {
	j := &job{prefill: prefill, tokens: max(1, tokens), more: make(chan struct{}, 1)}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.capacity.arrive(j, e.clock.Now().Sub(e.started))
	e.look()
	return j
}

// leave takes a request away.
func (e *engine) leave(j *job) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.capacity.leave(j, e.clock.Now().Sub(e.started))
	e.look()
}

// out returns how many tokens of an answer are there.
func (e *engine) out(j *job) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return j.out
}

func (e *engine) counts() (running, waiting int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.capacity.counts()
}

// look makes the goroutine see what has changed.
func (e *engine) look() {
	if !e.driven {
		e.driven = true
		e.wake = func() {}
		go e.drive()
		return
	}
	e.wake()
}

// drive plays the events when they are due, until there are none.
func (e *engine) drive() {
	for {
		e.mu.Lock()
		now := e.clock.Now().Sub(e.started)
		e.capacity.advance(now)
		at, ok := e.capacity.next()
		if !ok {
			e.driven = false
			e.mu.Unlock()
			return
		}
		ctx, wake := context.WithCancel(context.Background())
		e.wake = wake
		e.mu.Unlock()
		_ = e.clock.Sleep(ctx, at-now)
		wake()
	}
}
