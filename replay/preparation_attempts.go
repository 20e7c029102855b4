package replay

import (
	"context"
	"time"

	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/replay/wire"
)

// pauseClock tells the time of a preparation and waits.
type pauseClock interface {
	now() time.Duration
	// pause returns after d, or at once with an error when ctx ends.
	pause(ctx context.Context, d time.Duration) error
}

// machineClock is the pauseClock of a run. It counts from an instant.
type machineClock struct{ epoch time.Time }

func (c machineClock) now() time.Duration { return time.Since(c.epoch) }

func (c machineClock) pause(ctx context.Context, d time.Duration) error { return durable.Sleep(ctx, d) }

// patience says which failures of a step are tried again, and when: doc/spec/replay.md 2.8.
type patience struct {
	statuses func(status int) bool            // of answers that may get better
	until    time.Duration                    // no attempt starts later
	after    func(attempts int) time.Duration // how long to wait after so many attempts
}

// waitPatience is that of the wait for the model, whose attempts begin until the given instant.
func waitPatience(interval, until time.Duration) patience {
	return patience{
		statuses: func(s int) bool { return s == 404 || s == 408 || s == 425 || s == 429 || s/100 == 5 },
		until:    until, after: func(int) time.Duration { return interval },
	}
}

// What is tried when a server does not reset its cache.
const (
	resetFor      = 60 * time.Second // from the first attempt to the start of the last
	maxResetPause = 8 * time.Second
)

// resetPatience is that of the reset of one server, whose first attempt begins at an instant.
func resetPatience(begin time.Duration) patience {
	return patience{
		statuses: func(s int) bool { return s == 409 || s == 423 || s == 429 || s == 503 },
		until:    begin + resetFor, after: func(attempts int) time.Duration { return min(time.Second<<(attempts-1), maxResetPause) },
	}
}

// again reports whether a failure may get better: there was no answer, or one with such a status.
func (p patience) again(f *wire.Failure) bool {
	if f.Code == 0 {
		return f.Category == wire.Connection || f.Category == wire.Timeout
	}
	return p.statuses(f.Code)
}

// attempts tries until a step is done, its failure cannot get better, or the patience is over. It returns how many attempts
// were made, and the last failure; nil: the step is done. It calls failing after the first failure that is tried again. The
// error is that of a context that has ended.
func (p patience) attempts(ctx context.Context, c pauseClock, try func(context.Context) *wire.Failure, failing func(*wire.Failure)) (n int, f *wire.Failure, err error) {
	f = &wire.Failure{Category: wire.Connection, Message: "no time was left for an attempt"}
	for c.now() <= p.until {
		f = try(ctx)
		n++
		if ctx.Err() != nil {
			return n, f, context.Cause(ctx)
		}
		pause := p.after(n)
		if f == nil || !p.again(f) || c.now()+pause > p.until {
			return n, f, nil
		}
		if n == 1 {
			failing(f)
		}
		if err := c.pause(ctx, pause); err != nil {
			return n, f, err
		}
	}
	return n, f, nil
}
