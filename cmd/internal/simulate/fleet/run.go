package fleet

import (
	"context"
	"fmt"
	"math"

	"github.com/agentx/agentx/cmd/internal/simulate/engine"
	"github.com/agentx/agentx/cmd/internal/simulate/workload"
)

// never is later than every event.
const never = math.MaxInt64

// run is a fleet at work.
type run struct {
	Options
	pools     []*pool
	handoffs  []handoff // a heap
	now       int64
	lastEvent int64 // before a tick
	begun     bool  // passes that could start now have started
	idle      int   // rounds now in which no pass computed or emitted anything
	slab      []Request
	open      map[int]*Request // in flight, by turn
	result    *Result
}

// lastInstant is how far a run may go, about 73 years: what is added to an instant until the next then still fits an int64.
const lastInstant = 1 << 61

// ErrTooLong is the error of a run that goes on for too long, in virtual time.
var ErrTooLong = fmt.Errorf("the run lasts longer than %.3g simulated seconds, which are 73 years: want shorter gaps between arrivals, or faster engines", float64(lastInstant)/1e9)

// Run plays a load to its end. The error is that of a dead end, ErrTooLong, of a planner, or of the context.
func Run(ctx context.Context, o Options) (*Result, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	r := newRun(o)
	for steps := 0; r.unfinished(); steps++ {
		at := r.nextEvent()
		if at == never {
			return nil, r.deadEnd()
		}
		if at > lastInstant {
			return nil, ErrTooLong
		}
		if steps%1024 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		next := min(at, max(r.nextTick(), r.now))
		r.sample(next)
		if r.now = next; r.now == at {
			r.lastEvent = at
		}
		if err := r.instant(); err != nil {
			return nil, err
		}
	}
	return r.finish(), nil
}

func newRun(o Options) *run {
	r := &run{Options: o, open: map[int]*Request{}, result: &Result{Gaps: o.Gaps}}
	if r.result.Gaps == nil {
		r.result.Gaps = &engine.Gaps{}
	}
	for k := range o.Pools {
		r.pools = append(r.pools, r.newPool(k))
	}
	return r
}

// unfinished reports whether there is work that has not ended.
func (r *run) unfinished() bool {
	if len(r.open) > 0 || r.Load.Left() > 0 {
		return true
	}
	_, more := r.Load.Next()
	return more
}

// nextEvent returns when something happens next besides a tick; never when nothing does.
func (r *run) nextEvent() int64 {
	at, ok := r.Load.Next()
	if !ok {
		at = never
	}
	for _, p := range r.pools {
		at = min(at, p.nextEvent())
	}
	return max(min(at, r.nextHandOff()), r.now)
}

// instant plays all that happens now, in rounds: doc/spec/simulate.md 7.1.
func (r *run) instant() error {
	r.begun, r.idle = false, 0
	for {
		changed := r.endPasses()
		for _, p := range r.pools {
			changed = p.begin(r.now) || changed
		}
		changed = r.endHandOffs() || changed
		changed = r.release() || changed
		started, err := r.startPasses()
		if err != nil {
			return err
		}
		if !changed && !started {
			if changed, err = r.tick(); err != nil || !changed {
				return err
			}
		}
		if r.idle++; r.idle > 4*(len(r.open)+1)+1 {
			return r.deadEnd()
		}
	}
}

// endPasses ends the passes that end now, the lowest worker first.
func (r *run) endPasses() (changed bool) {
	for _, p := range r.pools {
		drained := false
		for _, w := range p.workers {
			if !w.Busy() || w.End() != r.now {
				continue
			}
			changed = true
			r.endPass(p, w)
			drained = drained || w.draining && !w.HasWork()
		}
		if drained {
			p.retire(r.now)
		}
	}
	return changed
}

func (r *run) endPass(p *pool, w *worker) {
	w.Finish()
	if p.events && !p.early {
		p.router.Events(w.id, w.TakeEvents())
	}
	for _, q := range w.Firsts() {
		p.router.FirstToken(r.now, r.part(p, q))
	}
	for _, q := range w.Completed() {
		one := r.part(p, q)
		p.router.Completed(r.now, one)
		if p.index == len(r.pools)-1 || q.Status != engine.Done {
			r.completed(r.open[q.ID])
		} else {
			r.handOff(r.open[q.ID])
		}
	}
}

// part returns the request that a pool knows: in a prefill pool, the copy.
func (r *run) part(p *pool, q *engine.Request) *Request {
	one := r.open[q.ID]
	if p.index < len(r.pools)-1 {
		return one.Prefill
	}
	return one
}

// completed ends a request, in the decode pool or refused by the prefill pool.
func (r *run) completed(one *Request) {
	delete(r.open, one.ID)
	if copied := one.Prefill; copied != nil {
		if copied.Status != engine.Done {
			one.Status = copied.Status
		}
		one.ReusedMax = max(one.ReusedMax, copied.ReusedMax)
	}
	if r.Observer != nil {
		r.Observer.Completed(r.now, one)
	}
	r.result.Duration = max(r.result.Duration, one.Last)
	if l, ok := r.Load.(workload.Refuser); ok && one.Status == engine.Rejected {
		l.Refused(one.ID, r.now)
	} else {
		r.Load.Completed(one.ID, r.now)
	}
}

// release takes the turns that are ready and routes each at once.
func (r *run) release() (changed bool) {
	first := r.pools[0]
	first.settleEvents(r.now)
	for {
		changed = r.dispatchKept(first) || changed
		t, ok := r.Load.Release(r.now)
		if !ok {
			return changed
		}
		changed = true
		one := r.newRequest()
		one.ID, one.Prompt, one.Output, one.Chain = t.ID, t.Prompt, t.Output, t.Chain
		one.Session, one.Number, one.Arrival, one.Worker = t.Session, t.Number, r.now, -1
		r.open[t.ID], one.released = one, len(r.result.Requests)
		r.result.Requests = append(r.result.Requests, one)
		r.route(first, r.begin(one))
		if r.Observer != nil {
			r.Observer.Released(r.now, one)
		}
	}
}

// begin returns what the first pool computes of a request: in a disaggregated fleet, a copy with one token.
func (r *run) begin(one *Request) *Request {
	if len(r.pools) == 1 {
		return one
	}
	copied := r.newRequest()
	*copied = *one
	copied.Output = 1
	one.Prefill = copied
	return copied
}

// dispatchKept sends the requests away that waited for a worker to be active, or for their router.
func (r *run) dispatchKept(p *pool) (changed bool) {
	if len(p.unrouted) > 0 && p.draining < len(p.workers) {
		list := p.unrouted
		p.unrouted = nil
		for _, one := range list {
			r.route(p, one)
		}
		changed = true
	}
	for {
		one, worker := p.router.Next(r.now)
		if one == nil {
			return changed
		}
		r.arrive(p, one, worker)
		changed = true
	}
}

// route sends a request to a worker of a pool.
func (r *run) route(p *pool, one *Request) {
	if p.draining == len(p.workers) {
		p.unrouted = append(p.unrouted, one)
		return
	}
	if worker, ok := p.router.Route(r.now, one); ok {
		r.arrive(p, one, worker)
	}
}

// newRequest returns a place for a request, whose address does not change.
func (r *run) newRequest() *Request {
	if len(r.slab) == 0 {
		r.slab = make([]Request, 256)
	}
	one := &r.slab[0]
	r.slab = r.slab[1:]
	return one
}

// startPasses starts a pass on every idle worker that has work, the lowest first.
func (r *run) startPasses() (started bool, err error) {
	r.begun = true
	for _, p := range r.pools {
		for _, w := range p.workers {
			if w.Busy() || !w.HasWork() {
				continue
			}
			w.Start(r.now)
			if started = true; w.Progressed() {
				r.idle = 0
			}
			if w.Stuck() != nil {
				return true, r.deadEnd()
			}
			if p.events && p.early {
				p.router.Events(w.id, w.TakeEvents())
			}
		}
	}
	return started, nil
}

func (r *run) finish() *Result {
	for _, p := range r.pools {
		for _, w := range p.workers {
			p.results[w.id].Counts = w.Counts()
		}
		for k := range p.results {
			one := &p.results[k]
			one.Gone = min(one.Gone, r.now)
			one.Drained = min(one.Drained, one.Gone)
		}
		r.result.Workers = append(r.result.Workers, p.results)
	}
	return r.result
}
