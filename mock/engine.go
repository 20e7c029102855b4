package mock

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
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

// leave takes a request away, whose client left or has its answer.
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

// counts returns how many requests are read or answered, and how many wait for a slot.
func (e *engine) counts() (running, waiting int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.capacity.counts()
}

// look wakes the goroutine that drives the capacity, or starts it. The lock is held.
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

// newAnswerLog returns a log that writes JSON lines; nil for no writer.
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

// capacity is a server whose slots are limited. It is a function of what arrives and leaves, and when: no clock, no chance.
// Instants are times since New.
//
// A prompt is read in a prefill slot, first come first served; with its end the first token of the answer is there. The other
// tokens come from the batch: a step gives each of its answers a token, and takes longer the more they are. An answer joins
// the batch between two steps, and leaves after its last token.
type capacity struct {
	prefillSlots, decodeSlots int // 0: no limit
	itl, growth               time.Duration

	waiting []*job // for a prefill slot, first come first
	reading []*job // in prefill slots
	queued  []*job // for the batch, first come first
	batch   []*job
	step    time.Duration // end of the step of the batch
}

// job is a request as a capacity sees it.
type job struct {
	prefill time.Duration // in a slot
	tokens  int           // of the answer
	read    time.Duration // end of its prefill, once it has a slot
	out     int           // tokens that are there
	more    chan struct{} // gets a value when out has grown; one is kept
}

// arrive adds a request.
func (c *capacity) arrive(j *job, now time.Duration) {
	c.advance(now)
	c.waiting = append(c.waiting, j)
	c.fill(now)
	c.advance(now) // a prompt that takes no time
}

// leave takes a request away, wherever it is. One that is over is nowhere.
func (c *capacity) leave(j *job, now time.Duration) {
	c.advance(now)
	for _, place := range []*[]*job{&c.waiting, &c.reading, &c.queued, &c.batch} {
		if k := slices.Index(*place, j); k >= 0 {
			*place = slices.Delete(*place, k, k+1)
		}
	}
	c.fill(now)
	c.advance(now) // a prompt that takes no time has a slot now
}

// next returns the instant of the next event. There is none where nothing is read and the batch is empty.
func (c *capacity) next() (at time.Duration, ok bool) {
	if len(c.batch) > 0 {
		at, ok = c.step, true
	}
	for _, j := range c.reading {
		if !ok || j.read < at {
			at, ok = j.read, true
		}
	}
	return at, ok
}

// advance plays the events up to an instant, in their order.
func (c *capacity) advance(now time.Duration) {
	for at, ok := c.next(); ok && at <= now; at, ok = c.next() {
		c.endPrefills(at)
		if len(c.batch) > 0 && c.step == at {
			c.endStep()
		}
		c.fill(at)
	}
}

// endPrefills gives the prompts that are read at an instant their first tokens.
func (c *capacity) endPrefills(at time.Duration) {
	for _, j := range c.reading {
		if j.read == at {
			j.produce(1)
			if j.out < j.tokens {
				c.queued = append(c.queued, j)
			}
		}
	}
	c.reading = slices.DeleteFunc(c.reading, func(j *job) bool { return j.read == at })
}

// endStep gives every answer of the batch a token: all that it has left where tokens take no time.
func (c *capacity) endStep() {
	for _, j := range c.batch {
		if c.itl == 0 && c.growth == 0 {
			j.produce(j.tokens - j.out)
		} else {
			j.produce(1)
		}
	}
	c.batch = slices.DeleteFunc(c.batch, func(j *job) bool { return j.out == j.tokens })
	c.step = -1 // between two steps
}

// fill gives free slots to those that wait. The batch takes answers between two steps.
func (c *capacity) fill(at time.Duration) {
	for len(c.waiting) > 0 && (c.prefillSlots == 0 || len(c.reading) < c.prefillSlots) {
		j := c.waiting[0]
		c.waiting = c.waiting[1:]
		j.read = at + j.prefill
		c.reading = append(c.reading, j)
	}
	if len(c.batch) > 0 && c.step >= 0 {
		return
	}
	for len(c.queued) > 0 && (c.decodeSlots == 0 || len(c.batch) < c.decodeSlots) {
		c.batch = append(c.batch, c.queued[0])
		c.queued = c.queued[1:]
	}
	if len(c.batch) > 0 {
		c.step = at + c.itl + c.growth*time.Duration(len(c.batch)-1)
	}
}

// counts returns how many requests are read or answered, and how many wait for a slot.
func (c *capacity) counts() (running, waiting int) {
	return len(c.reading) + len(c.batch), len(c.waiting) + len(c.queued)
}

// produce makes n more tokens available, and wakes the request that waits for them.
func (j *job) produce(n int) {
	j.out += n
	select {
	case j.more <- struct{}{}:
	default:
	}
}
