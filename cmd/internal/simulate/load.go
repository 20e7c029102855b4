package simulate

import "github.com/agentx/agentx/cmd/internal/simulate/workload"

// load returns the load of a run, within its bounds.
func (c *Config) load() (load workload.Load, err error) {
	if c.LoadOf() == LoadLanes {
		return c.lanes()
	}
	sessions, err := c.sessions()
	if err != nil {
		return nil, err
	}
	if c.LoadOf() == LoadConcurrency {
		load, err = sessions.Concurrency(c.Concurrency, c.Switches.ConcurrencyUnit)
	} else {
		load, err = sessions.Trace(c.Speedup)
	}
	if err != nil {
		return nil, err
	}
	return bound(load, c.LimitRequests, int64(c.MaxTime)), nil
}

// sessions returns the sessions of the input, or of the synthetic load.
func (c *Config) sessions() (s *workload.Sessions, err error) {
	if c.Synthetic != nil {
		o := *c.Synthetic
		o.BlockSize, o.Seed = c.BlockSize(), c.Seed
		s, err = workload.Synthetic(o)
	} else {
		s, err = c.Input.sessionsOf(c.BlockSize(), c.Switches.IDWidth)
	}
	if err == nil && c.LimitTraces > 0 {
		s = s.First(c.LimitTraces)
	}
	return s, err
}

// bounded is a load of which nothing leaves after a number of requests, or after a time.
type bounded struct {
	workload.Load
	requests int64 // that may still leave
	until    int64 // nanoseconds
}

// bound returns a load within bounds; 0: none.
func bound(l workload.Load, requests int, until int64) workload.Load {
	if requests == 0 && until == 0 {
		return l
	}
	b := &bounded{l, int64(requests), until}
	if requests == 0 {
		b.requests = never
	}
	if until == 0 {
		b.until = never
	}
	return b
}

const never = 1<<63 - 1

func (b *bounded) Next() (int64, bool) {
	at, ok := b.Load.Next()
	if b.requests == 0 || at > b.until {
		return 0, false
	}
	return at, ok
}

func (b *bounded) Release(now int64) (t workload.Turn, ok bool) {
	if b.requests == 0 || now > b.until {
		return t, false
	}
	if t, ok = b.Load.Release(now); ok {
		b.requests--
	}
	return t, ok
}

// Left returns 0: turns beyond the bounds are not missed.
func (b *bounded) Left() int { return 0 }
