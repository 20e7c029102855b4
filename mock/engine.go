package mock

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
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

// clock tells the time and sleeps. It is safe for concurrent use.
type clock interface {
	Now() time.Time
	// Sleep returns nil after d, or the cause of ctx as soon as ctx ends.
	Sleep(ctx context.Context, d time.Duration) error
}

type machineClock struct{}

func (machineClock) Now() time.Time { return time.Now() }

func (machineClock) Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Answer is a line of Config.Log: a request and its answer, which was written to its end. Instants are nanoseconds since 1970.
type Answer struct {
	RequestID    string `json:"request_id"` // of the header X-Request-ID
	Arrived      int64  `json:"arrived_ns"` // its headers had arrived
	First        int64  `json:"first_ns"`   // its first token was there; of an answer in one body, all of them
	Last         int64  `json:"last_ns"`    // its last token was there
	PromptTokens int    `json:"prompt_tokens"`
	CachedTokens int    `json:"cached_tokens"`
	OutputTokens int    `json:"output_tokens"`
}

// answerLog writes a line for each answer. A nil log writes none.
type answerLog struct {
	mu sync.Mutex
	to *json.Encoder
}

func newAnswerLog(to io.Writer) *answerLog {
	if to == nil {
		return nil
	}
	return &answerLog{to: json.NewEncoder(to)}
}

// add writes the line of an answer that is over, unless it was broken off. A line that cannot be written is lost, as one of any log.
func (l *answerLog) add(x *exchange, r *http.Request, arrived time.Time) {
	if l == nil || x.last.IsZero() {
		return
	}
	a := Answer{
		RequestID: r.Header.Get("X-Request-Id"), Arrived: arrived.UnixNano(), First: x.first.UnixNano(), Last: x.last.UnixNano(),
		PromptTokens: x.promptTokens, CachedTokens: x.cachedTokens, OutputTokens: x.outputTokens,
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.to.Encode(a)
}
