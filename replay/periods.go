package replay

import (
	"math"
	"time"
)

// periods tell when a time of Options.StatsInterval is over in a phase; nil: never. doc/spec/replay.md 8.10.
type periods struct {
	every time.Duration
	next  time.Duration
	tell  func(Progress) // must not wait
}

func newPeriods(o Options) *periods {
	if o.StatsInterval <= 0 {
		return nil
	}
	return &periods{o.StatsInterval, o.StatsInterval, o.Period}
}

// due returns when the period ends.
func (p *periods) due() time.Duration {
	if p == nil {
		return math.MaxInt64
	}
	return p.next
}

// end tells of a period that is over.
func (p *periods) end(now Progress) {
	if now.Elapsed < p.due() {
		return
	}
	p.tell(now)
	for p.next <= now.Elapsed {
		p.next += p.every
	}
}
