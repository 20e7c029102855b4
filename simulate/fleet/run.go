package fleet

import (
	"context"
	"math"

	"github.com/agentx/agentx/simulate/engine"
	"github.com/agentx/agentx/simulate/preset"
	"github.com/agentx/agentx/simulate/workload"
)

// Result is what came of a run.
type Result struct {
	Requests []*Request // in the order of their release
	Gaps     *engine.Gaps
	Workers  []engine.Counts // by id
	Duration int64           // when the last token was emitted
}

// never is later than every event.
const never = math.MaxInt64

// run is a fleet at work.
type run struct {
	Options
	router  Router
	events  bool // the router learns of blocks
	early   bool // when passes start
	workers []*engine.Worker
	now     int64
	begun   bool // passes that could start now have started
	slab    []Request
	open    map[int]*Request // in flight, by turn
	result  *Result
}

// Run plays a load to its end. The error is that of a dead end, or of the context.
func Run(ctx context.Context, o Options) (*Result, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	r := newRun(o)
	for steps := 0; ; steps++ {
		at := r.nextEvent()
		if at == never {
			break
		}
		if steps%1024 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		r.now = at
		if err := r.instant(); err != nil {
			return nil, err
		}
	}
	if len(r.open) > 0 || r.Load.Left() > 0 {
		return nil, r.deadEnd()
	}
	return r.finish(), nil
}

func newRun(o Options) *run {
	r := &run{Options: o, router: o.Router, open: map[int]*Request{}, result: &Result{Gaps: o.Gaps}}
	if r.result.Gaps == nil {
		r.result.Gaps = &engine.Gaps{}
	}
	r.early = o.Switches.KVEvents == preset.EventsPassStart
	if r.events = r.router != nil; !r.events {
		r.router = &roundRobin{}
	}
	active := make([]int, o.Workers)
	for id := range o.Workers {
		active[id] = id
		r.workers = append(r.workers, engine.New(r.engineOptions(id)))
	}
	r.router.Workers(0, active)
	return r
}

func (r *run) engineOptions(id int) engine.Options {
	o := engine.Options{
		Config: r.Engine, Timing: r.Timing, Switches: r.Switches, Gaps: r.result.Gaps, Events: r.events, Plain: r.Plain || r.events && r.early,
	}
	if r.Observer != nil {
		o.Observe = func(p *engine.Pass) { r.Observer.Pass(id, p) }
	}
	return o
}

// nextEvent returns when something happens next; never when nothing does.
func (r *run) nextEvent() int64 {
	at, ok := r.Load.Next()
	if !ok {
		at = never
	}
	for _, w := range r.workers {
		if w.Busy() {
			at = min(at, w.End())
		}
	}
	return max(at, r.now)
}

// instant plays all that happens now, in rounds: doc/spec/simulate.md 7.1.
func (r *run) instant() error {
	r.begun = false
	for round := 0; ; round++ {
		changed := r.endPasses()
		changed = r.release() || changed
		started, err := r.startPasses()
		if err != nil || !changed && !started {
			return err
		}
		if round > 4*(len(r.open)+1) {
			return r.deadEnd()
		}
	}
}

// endPasses ends the passes that end now, the lowest worker first.
func (r *run) endPasses() (changed bool) {
	for id, w := range r.workers {
		if !w.Busy() || w.End() != r.now {
			continue
		}
		changed = true
		w.Finish()
		if r.events && !r.early {
			r.router.Events(id, w.TakeEvents())
		}
		for _, q := range w.Firsts() {
			r.router.FirstToken(r.now, r.open[q.ID])
		}
		for _, q := range w.Completed() {
			r.completed(q)
		}
	}
	return changed
}

func (r *run) completed(q *engine.Request) {
	one := r.open[q.ID]
	delete(r.open, q.ID)
	r.router.Completed(r.now, one)
	if r.Observer != nil {
		r.Observer.Completed(r.now, one)
	}
	r.result.Duration = max(r.result.Duration, one.Last)
	if l, ok := r.Load.(workload.Refuser); ok && q.Status == engine.Rejected {
		l.Refused(q.ID, r.now)
	} else {
		r.Load.Completed(q.ID, r.now)
	}
}

// settleEvents gives the router the events of passes that were played at once and have ended.
func (r *run) settleEvents() {
	if !r.events || r.early {
		return
	}
	for id, w := range r.workers {
		if list := w.SettleEvents(r.now); len(list) > 0 {
			r.router.Events(id, list)
		}
	}
}

// release takes the turns that are ready and routes each at once.
func (r *run) release() (changed bool) {
	r.settleEvents()
	for {
		if one, worker := r.router.Next(r.now); one != nil {
			r.submit(one, worker)
			changed = true
			continue
		}
		t, ok := r.Load.Release(r.now)
		if !ok {
			return changed
		}
		changed = true
		one := r.newRequest()
		one.ID, one.Prompt, one.Output, one.Chain = t.ID, t.Prompt, t.Output, t.Chain
		one.Session, one.Number, one.Arrival, one.Worker = t.Session, t.Number, r.now, -1
		r.open[t.ID] = one
		r.result.Requests = append(r.result.Requests, one)
		if worker, ok := r.router.Route(r.now, one); ok {
			r.submit(one, worker)
		}
		if r.Observer != nil {
			r.Observer.Released(r.now, one)
		}
	}
}

func (r *run) submit(one *Request, worker int) {
	one.Worker = worker
	r.workers[worker].Submit(r.now, &one.Request, r.begun)
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
	for id, w := range r.workers {
		if w.Busy() || !w.HasWork() {
			continue
		}
		w.Start(r.now)
		started = true
		if w.Stuck() != nil {
			return true, r.deadEnd()
		}
		if r.events && r.early {
			r.router.Events(id, w.TakeEvents())
		}
	}
	return started, nil
}

func (r *run) finish() *Result {
	for _, w := range r.workers {
		r.result.Workers = append(r.result.Workers, w.Counts())
	}
	return r.result
}
