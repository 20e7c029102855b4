// Package fleet runs simulated engines on one virtual clock: doc/spec/simulate.md 7. It takes turns from a load, gives each to a
// worker, and moves the clock to the next event until all turns have ended.
//
//	pool := fleet.Pool{Workers: 8, Engine: config, Timing: engine.NewTiming(config, nil)}
//	result, err := fleet.Run(ctx, fleet.Options{Pools: []fleet.Pool{pool}, Switches: switches, Load: load})
//
// One pool is an aggregated fleet; two are one in which the first computes prompts and the second generates. A [Router] chooses the
// workers of a pool, without one it goes round robin. A [Planner] changes how many there are. Everything is decided in one
// goroutine: the same options give the same result.
package fleet

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/agentx/agentx/cmd/internal/simulate/engine"
	"github.com/agentx/agentx/cmd/internal/simulate/preset"
	"github.com/agentx/agentx/cmd/internal/simulate/workload"
)

// never is later than every event.
const never = math.MaxInt64

// run is a fleet at work.
type run struct {
	Options
	pools     []*pool
	transfers []transfer // a heap
	steps     []step     // of hand-offs, that are taken now
	now       int64
	lastEvent int64           // before a tick
	begun     bool            // passes that could start now have started
	idle      int             // rounds now in which no pass computed or emitted anything
	early     bool            // ticks come before releases of their instant
	due       []workload.Turn // that a tick has counted, and that are released after it
	slab      []Request
	open      map[int]*Request // in flight, by turn
	released  int              // requests
	taken     int              // of result.Requests, by Options.Ended
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

// newRun returns a run before its first instant.
func newRun(o Options) *run {
	r := &run{Options: o, open: map[int]*Request{}, result: &Result{Gaps: o.Gaps}}
	if r.result.Gaps == nil {
		r.result.Gaps = &engine.Gaps{}
	}
	r.early = o.Switches.Planning == preset.PlanningPipeline && len(o.Pools) == 2
	r.Load = workload.Delay(o.Load, o.Pools[0].Timing.Frontend())
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
	return max(min(at, r.nextTransfer()), r.now)
}

// instant plays all that happens now, in rounds: doc/spec/simulate.md 7.1.
func (r *run) instant() error {
	r.begun, r.idle = false, 0
	for {
		changed := r.endPasses()
		for _, p := range r.pools {
			changed = p.begin(r.now) || changed
		}
		changed = r.handOff() || changed
		if r.early && r.nextTick() <= r.now {
			for t, ok := r.Load.Release(r.now); ok; t, ok = r.Load.Release(r.now) {
				r.due = append(r.due, t)
			}
			ticked, err := r.tick()
			if err != nil {
				return err
			}
			changed = ticked || changed
		}
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

// endPass ends the pass of a worker: it tells the router, completes requests, and sends those of a prefill pool on.
func (r *run) endPass(p *pool, w *worker) {
	w.Finish()
	r.steps, w.deferred = append(r.steps, w.deferred...), w.deferred[:0]
	r.reserve(w)
	p.tell(w)
	for _, q := range w.Signals() {
		one := r.part(p, q)
		switch {
		case !q.Status.Ended():
			p.router.FirstToken(r.now, one)
		case p.index == len(r.pools)-1 || q.Status != engine.Done:
			p.router.Completed(r.now, one)
			if p.index == 0 && r.reservesFirst() {
				r.pools[1].router.Completed(r.now, r.open[q.ID])
				r.steps = append(r.steps, step{toCancel, r.open[q.ID]})
			}
			r.completed(r.open[q.ID])
		default: // it is computed, and held for its hand-off
			p.router.FirstToken(r.now, one)
			w.handing++
			next := toReserve
			if r.reservesFirst() {
				next = toSend
			}
			r.steps = append(r.steps, step{next, r.open[q.ID]})
		}
		r.dispatchQueued(p)
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
	one.ended = true
	if copied := one.Prefill; copied != nil {
		if copied.Status > engine.Done {
			one.Status = copied.Status
		}
		one.Reused, one.ReusedMax = copied.Reused, max(one.ReusedMax, copied.ReusedMax)
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
	if r.Ended != nil {
		r.passOn()
	}
}

// passOn gives away the requests that have ended and before which none is open.
func (r *run) passOn() {
	list := r.result.Requests
	for r.taken < len(list) && list[r.taken].ended {
		r.Ended(list[r.taken])
		list[r.taken] = nil
		r.taken++
	}
	if 2*r.taken >= len(list) {
		r.result.Requests, r.taken = append(list[:0], list[r.taken:]...), 0
	}
}

// release takes the turns that are ready and routes each at once.
func (r *run) release() (changed bool) {
	first := r.pools[0]
	first.settleEvents(r.now)
	for {
		changed = r.dispatchKept(first) || changed
		t, ok := r.nextTurn()
		if !ok {
			return changed
		}
		changed = true
		one := r.newRequest()
		one.ID, one.Prompt, one.Output, one.Chain = t.ID, t.Prompt, t.Output, t.Chain
		one.Session, one.Number, one.Arrival, one.Worker = t.Session, t.Number, r.now-t.Delay, -1
		r.open[t.ID], one.released = one, r.released
		r.released++
		r.result.Requests = append(r.result.Requests, one)
		if begun := r.begin(one); r.reservesFirst() {
			r.steps = append(r.steps, step{toReserve, one})
		} else {
			r.route(first, begun)
		}
		if r.Observer != nil {
			r.Observer.Released(r.now, one)
		}
	}
}

// nextTurn returns the next turn that is ready.
func (r *run) nextTurn() (t workload.Turn, ok bool) {
	if len(r.due) == 0 {
		return r.Load.Release(r.now)
	}
	t, r.due = r.due[0], r.due[1:]
	return t, true
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

// dispatchKept routes the requests that waited for a worker to be active, and sends those that the router kept until now.
func (r *run) dispatchKept(p *pool) (changed bool) {
	if len(p.unrouted) > 0 && p.draining < len(p.workers) {
		list := p.unrouted
		p.unrouted = nil
		for _, one := range list {
			r.route(p, one)
		}
		changed = true
	}
	return r.dispatchQueued(p) || changed
}

// dispatchQueued sends the requests that the router kept until now.
func (r *run) dispatchQueued(p *pool) (changed bool) {
	for {
		one, worker := p.router.Next(r.now)
		if one == nil {
			return changed
		}
		r.arrive(p, one, worker)
		changed = true
	}
}

// route lets the router of a pool choose a worker for a request, or keeps the request while no worker is active.
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

// startPasses starts a pass on every idle worker that has work, the lowest first. One of no length ends at once, and the next one starts.
func (r *run) startPasses() (started bool, err error) {
	r.begun = true
	for _, p := range r.pools {
		drained := false
		for _, w := range p.workers {
			for !w.Busy() && w.Ready(r.now) {
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
				if w.End() == r.now {
					r.endPass(p, w)
					drained = drained || w.draining && !w.HasWork()
				}
			}
		}
		if drained {
			p.retire(r.now)
		}
	}
	return started, nil
}

// finish returns the result, with what each worker did and when it was there.
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

// arrive hands a routed request to its worker.
func (r *run) arrive(p *pool, one *Request, id int) {
	one.Worker = id
	w := p.worker(id)
	if p.index == 1 {
		r.expect(p, w, one)
		return
	}
	w.Submit(r.now, &one.Request, r.begun)
}

// Sampler looks at the workers of a fleet between its events. What it sees changes nothing.
type Sampler interface {
	// Next returns when it looks next, later than the last time; math.MaxInt64 for never. Looks end with the work.
	Next() int64
	// Sample gets the workers of each pool, by ascending id, as they are after everything that happens at an instant. The lists are
	// valid during the call.
	Sample(at int64, pools [][]WorkerState)
}

// WorkerState is a worker at an instant. A pass in flight counts as the scheduler has left it: its requests run until it ends, the
// blocks of those that it completes are released.
type WorkerState struct {
	ID       int `json:"worker"`
	Running  int `json:"running"` // requests
	Waiting  int `json:"waiting"`
	KVBlocks int `json:"kv_blocks"` // leased
	engine.Counts
}

// sample lets the sampler look at all its instants before the next event.
func (r *run) sample(before int64) {
	if r.Sampler == nil {
		return
	}
	for at := r.Sampler.Next(); at < before; at = r.Sampler.Next() {
		list := make([][]WorkerState, len(r.pools))
		for k, p := range r.pools {
			p.settle(at)
			for _, w := range p.workers {
				list[k] = append(list[k], w.state())
			}
		}
		r.Sampler.Sample(at, list)
	}
}

// state describes the worker for a sampler.
func (w *worker) state() WorkerState {
	s := WorkerState{ID: w.id, Running: len(w.Batch()), Waiting: len(w.Queued()), KVBlocks: w.ActiveBlocks(), Counts: w.Counts()}
	if !w.Busy() {
		return s
	}
	for _, q := range w.Signals() {
		if q.Status == engine.Done {
			s.Running++
		}
	}
	return s
}

// DeadEnd is the error of a run that has unfinished requests, and nothing that could happen next.
type DeadEnd struct {
	Now   int64 // nanoseconds
	stuck []stuck
	left  int // turns that were never released
	whole int // max_num_batched_tokens of an engine without chunked prefill that a stuck prompt exceeds; 0: none
}

// stuck is a request that a dead end leaves.
type stuck struct {
	session, number int
	worker          int    // -1: none
	pool            string // of the worker: "prefill" or "decode"; "" in an aggregated fleet
	prompt          int
	status          engine.Status
}

// maxNamed is how many requests an error names.
const maxNamed = 8

// Error names the stuck requests.
func (e *DeadEnd) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "dead end at %.6f s: %d requests cannot end", float64(e.Now)/1e9, len(e.stuck))
	if e.left > 0 {
		fmt.Fprintf(&b, ", %d turns are not released", e.left)
	}
	for k, s := range e.stuck {
		if k == maxNamed {
			fmt.Fprintf(&b, "; and %d more", len(e.stuck)-k)
			break
		}
		fmt.Fprintf(&b, "; session %d turn %d %s: prompt of %d tokens, %s", s.session, s.number, s.place(), s.prompt, s.status)
	}
	if e.whole > 0 {
		fmt.Fprintf(&b, "; without chunked prefill no pass computes a prompt of more than max_num_batched_tokens %d", e.whole)
	}
	return b.String()
}

// place says where a stuck request is.
func (s stuck) place() string {
	switch {
	case s.worker < 0:
		return "on no worker"
	case s.pool == "":
		return fmt.Sprintf("on worker %d", s.worker)
	default:
		return fmt.Sprintf("on %s worker %d", s.pool, s.worker)
	}
}

// deadEnd returns the error about the requests in flight, in the order of their release.
func (r *run) deadEnd() error {
	for _, p := range r.pools {
		p.settle(r.now)
	}
	e := &DeadEnd{Now: r.now, left: r.Load.Left()}
	for _, one := range r.result.Requests[r.taken:] {
		if r.open[one.ID] == one {
			e.stuck = append(e.stuck, stuckOf(one, r.now))
			e.whole = max(e.whole, r.tooLongInWhole(one.Prompt))
		}
	}
	return e
}

// tooLongInWhole returns max_num_batched_tokens of an engine that computes prompts whole and can never compute this one; 0 without one.
func (r *run) tooLongInWhole(prompt int) int {
	for _, p := range r.Pools {
		if c := p.Engine; !c.ChunkedPrefill && c.Type != engine.SGLang && prompt > c.MaxBatchedTokens {
			return c.MaxBatchedTokens
		}
	}
	return 0
}

// stuckOf describes a request of a dead end: in which pool it is, on which worker, and in which state.
func stuckOf(one *Request, now int64) stuck {
	s := stuck{session: one.Session, number: one.Number, worker: one.Worker, prompt: one.Prompt, status: one.Status}
	switch copied := one.Prefill; {
	case copied == nil:
	case one.Worker < 0 && copied.Last > 0 && copied.Last <= now: // handed off, and no worker is active
	case one.Worker < 0 || copied.Worker >= 0 && (copied.Last == 0 || copied.Last > now):
		s.pool, s.worker, s.status = "prefill", copied.Worker, copied.Status
	default:
		s.pool = "decode"
	}
	if s.status.Ended() { // by the pass in flight
		s.status = engine.Running
	}
	return s
}
