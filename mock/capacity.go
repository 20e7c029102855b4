package mock

import (
	"slices"
	"time"
)

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

func (j *job) produce(n int) {
	j.out += n
	select {
	case j.more <- struct{}{}:
	default:
	}
}
