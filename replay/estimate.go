package replay

import (
	"errors"
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
	o.Once, o.Duration, o.Requests, o.Trees, o.Part, o.MaxContext = true, 0, 0, 0, Part{}, max(0, o.MaxContext)
	o.Start, o.Warmup, o.Limits.Prefill, o.StopOnDeadlock, o.Recycle, o.MaxLivePerTrace, o.Warn = Start{}, Warmup{}, 0, false, RecycleSampler, false, nil
	p, err := NewPlayer(o)
	if errors.Is(err, errUnplayable) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	lanes := p.source.(*sampler)
	return p.answered(func(lane int) *mmapcache.Plan { return lanes.lanes[lane].plan })
}

// answered plays to the end, with answers that take as long as recorded, and returns when the last has come. Of a run of centuries it
// plays a part.
func (p *Player) answered(plan func(lane int) *mmapcache.Plan) (now time.Duration, err error) {
	var flying []flight
	for now < 1<<62 && !p.Done() && err == nil {
		for t, ok := p.Take(now); ok; t, ok = p.Take(now) {
			of := plan(t.Lane)
			ms := timeline.Duration(of.Turns[int(of.Sessions[t.Session].FirstTurn)+t.Turn].APITime)
			heap.Push(&flying, flight{t.ID, t.Issued + lengthOf(ms)}, flight.before)
		}
		at, ok := p.Next()
		if len(flying) > 0 && (!ok || flying[0].end <= at) {
			f := heap.Pop(&flying, flight.before)
			now = f.end
			err = p.Returned(f.id, now, conductor.OK)
		} else {
			now = max(now, at)
		}
	}
	return now, errors.Join(err, p.Err())
}

// flight is a request that is answered at an instant.
type flight struct {
	id  int
	end time.Duration
}

func (f flight) before(other flight) bool { return f.end < other.end }
