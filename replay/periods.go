package replay

import (
	"math"
	"time"

	"github.com/agentx/agentx/replay/conductor"
	"github.com/agentx/agentx/replay/measure"
)

// periods tell the rates and latencies of a phase every Options.StatsInterval; nil: never. doc/spec/replay.md 8.10.
type periods struct {
	live  *measure.Live
	every time.Duration
	next  time.Duration
	tell  func(measure.Period) // must not wait

	arrivals bool // trees arrive on their own
}

func newPeriods(o Options, p phase) *periods {
	if o.StatsInterval <= 0 {
		return nil
	}
	return &periods{measure.NewLive(p.name, 0, measure.RulesOf(o.Switches)), o.StatsInterval, o.StatsInterval, o.Period, p.arrivals != nil}
}

// add adds a request that is over.
func (p *periods) add(r *measure.Record) {
	if p != nil {
		p.live.Add(r)
	}
}

// due returns when the period ends.
func (p *periods) due() time.Duration {
	if p == nil {
		return math.MaxInt64
	}
	return p.next
}

// end tells of a period that is over.
func (p *periods) end(now time.Duration, n conductor.Counts) {
	if now < p.due() {
		return
	}
	period := p.live.End(now, n.Sent, n.InFlight)
	if p.arrivals {
		period.Arrivals, period.OpenTrees, period.QueuedTrees = true, n.TreesOpen, n.TreesWaiting
	}
	p.tell(period)
	for p.next <= now {
		p.next += p.every
	}
}
