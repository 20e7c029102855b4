package replay

import (
	"cmp"
	"fmt"
	"time"

	"github.com/agentx/agentx/internal/heap"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/replay/conductor"
	"github.com/agentx/agentx/timeline"
)

// EstimateDuration estimates how long it takes to play every trace once, from its first turn: gaps, order and idle times as
// they are played, and answers that take as long as in the recording. Lanes that begin in the middle of a trace need less.
// Traces that only the marker or the chat template keeps out of MaxContext are counted.
func EstimateDuration(o Options) (time.Duration, error) {
	if err := o.Validate(); err != nil {
		return 0, fmt.Errorf("replay: %w", err)
	}
	o = o.WithDefaults()
	traces, err := selectTraces(o, 0)
	if err != nil || len(traces) == 0 {
		return 0, err
	}
	plan, err := planArrivals(&o, traces)
	if err != nil {
		return 0, fmt.Errorf("replay: %w", err)
	}
	e := &estimate{
		cache: o.Cache, view: o.view(),
		dealer: dealer{traces: plan.traces, order: o.Order, seed: o.Seed, once: true},
		plans:  make([]*mmapcache.Plan, min(o.maxOpen(), len(plan.traces))),
	}
	limits := conductor.Limits{TreeIdle: o.treeIdle(), SystemIdle: o.Limits.SystemIdle}
	c := conductor.New(len(e.plans), e, limits, e.send, nil)
	if plan.schedule != nil {
		c.OpenBy(plan.schedule)
	} else {
		c.Ramp(o.Arrivals.Ramp)
	}
	return e.play(c)
}

// estimate plays traces in virtual time. It is the source of their trees, and the server.
type estimate struct {
	cache  *mmapcache.Cache
	view   view
	dealer dealer
	plans  []*mmapcache.Plan // by lane: the one that it plays
	flying []flight
	err    error // the cache cannot be read
}

// Next opens the next trace that can be played.
func (e *estimate) Next(lane int) (conductor.Assignment, bool) {
	for {
		trace, ok := e.dealer.deal()
		if !ok {
			return conductor.Assignment{}, false
		}
		p, err := e.cache.Plan(trace)
		if err != nil {
			e.err = fmt.Errorf("replay: trace %d of the cache cannot be read: %w", trace, err)
			return conductor.Assignment{}, false
		}
		if s, err := newSchedule(p, e.view, e.cache.Facts.Rules); err == nil {
			e.plans[lane] = p
			return conductor.Assignment{Tree: s.Tree}, true
		}
	}
}

// send answers a request after its recorded duration.
func (e *estimate) send(d conductor.Dispatch) error {
	p := e.plans[d.Lane]
	ms := timeline.Duration(p.Turns[int(p.Sessions[d.Session].FirstTurn)+d.Turn].APITime)
	heap.Push(&e.flying, flight{d.ID, d.Issued + lengthOf(ms)}, flight.before)
	return nil
}

// play returns when the last answer has come. Of a run of centuries it returns a part.
func (e *estimate) play(c *conductor.Conductor) (now time.Duration, err error) {
	for err = c.Start(0); cmp.Or(err, e.err) == nil && !c.Done() && now < 1<<62; {
		at, ok := c.NextWake()
		if len(e.flying) > 0 && (!ok || e.flying[0].end <= at) {
			f := heap.Pop(&e.flying, flight.before)
			now = f.end
			err = c.Returned(f.id, now, now, conductor.OK)
			continue
		}
		now = at
		c.Wake(now)
	}
	return now, cmp.Or(err, e.err)
}

// flight is a request that is answered at an instant.
type flight struct {
	id  int
	end time.Duration
}

func (f flight) before(other flight) bool { return f.end < other.end }
