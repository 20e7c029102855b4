package fleet

import (
	"fmt"
	"math"
	"slices"

	"github.com/agentx/agentx/cmd/internal/simulate/engine"
	"github.com/agentx/agentx/cmd/internal/simulate/preset"
)

// pool is the workers of one kind, at work.
type pool struct {
	Pool
	index    int // in Options.Pools
	router   Router
	events   bool      // the router learns of blocks
	early    bool      // when passes start
	workers  []*worker // active or draining, by ascending id
	draining int
	starting []start // by ascending id
	results  []WorkerResult
	unrouted []*Request // that came while no worker was active
	engine   engine.Options
	observer Observer
}

// worker is a worker of a pool that is active or drains.
type worker struct {
	*engine.Worker
	id       int
	draining bool
	handing  int    // requests whose prompts it holds until they are handed over, or that are handed to it and have not come
	deferred []step // of hand-offs, to the end of its pass
}

// start is a worker that starts.
type start struct {
	id    int
	ready int64
}

// newPool returns the pool of an index of Options.Pools, whose first workers are active at once.
func (r *run) newPool(index int) *pool {
	p := &pool{Pool: r.Pools[index], index: index, observer: r.Observer, early: r.Switches.KVEvents == preset.EventsPassStart}
	p.router, p.events = p.Router, p.Router != nil
	if !p.events {
		p.router = &roundRobin{}
	}
	p.engine = engine.Options{
		Config: p.Engine, Timing: p.Timing, Switches: r.Switches, Gaps: r.result.Gaps, Events: p.events, Plain: r.Plain || p.events && p.early,
	}
	if len(r.Pools) == 2 {
		p.engine.Role = [...]engine.Role{engine.Prefill, engine.Decode}[index]
	}
	for range p.Pool.Workers {
		p.order(0, 0)
	}
	p.begin(0)
	return p
}

// order begins the start-up of a worker, which ends at ready.
func (p *pool) order(now, ready int64) {
	id := len(p.results) // ids rise and are never used again
	p.results = append(p.results, WorkerResult{ID: id, Ordered: now, Ready: ready, Drained: never, Gone: never})
	p.starting = append(p.starting, start{id, ready})
}

// begin makes workers active whose start-up ends now.
func (p *pool) begin(now int64) (changed bool) {
	p.starting = slices.DeleteFunc(p.starting, func(s start) bool {
		if s.ready > now {
			return false
		}
		p.workers = append(p.workers, p.newWorker(s.id))
		changed = true
		return true
	})
	if changed {
		slices.SortFunc(p.workers, func(a, b *worker) int { return a.id - b.id })
		p.router.Workers(now, p.active())
	}
	return changed
}

// newWorker returns an idle worker whose passes the observer hears of.
func (p *pool) newWorker(id int) *worker {
	o := p.engine
	if p.observer != nil {
		o.Observe = func(pass *engine.Pass) { p.observer.Pass(p.index, id, pass) }
	}
	return &worker{Worker: engine.New(o), id: id}
}

// active lists the workers that the router may choose.
func (p *pool) active() (ids []int) {
	for _, w := range p.workers {
		if !w.draining {
			ids = append(ids, w.id)
		}
	}
	return ids
}

// worker returns the worker of an id, which is active or drains.
func (p *pool) worker(id int) *worker {
	if id < len(p.workers) && p.workers[id].id == id { // as long as none has disappeared
		return p.workers[id]
	}
	i, _ := slices.BinarySearchFunc(p.workers, id, func(w *worker, id int) int { return w.id - id })
	return p.workers[i]
}

// nextEvent returns when something happens next in the pool; never when nothing does.
func (p *pool) nextEvent() int64 {
	at := int64(never)
	for _, w := range p.workers {
		if w.Busy() {
			at = min(at, w.End())
		} else {
			at = min(at, w.Wake())
		}
	}
	for _, s := range p.starting {
		at = min(at, s.ready)
	}
	return at
}

// lastEnd returns when the last pass of the pool ended, as far as they are visible.
func (p *pool) lastEnd() (at int64) {
	for _, w := range p.workers {
		at = max(at, w.LastEnd())
	}
	return at
}

// settleEvents gives the router the events of passes that were played at once and have ended.
func (p *pool) settleEvents(now int64) {
	if !p.events || p.early {
		return
	}
	for _, w := range p.workers {
		if list := w.SettleEvents(now); len(list) > 0 {
			p.router.Events(w.id, list)
		}
	}
}

// tell gives the router the events of a worker between its passes.
func (p *pool) tell(w *worker) {
	if !p.events || p.early {
		return
	}
	if list := w.TakeEvents(); len(list) > 0 {
		p.router.Events(w.id, list)
	}
}

// settle makes the passes visible that the workers have ended at now.
func (p *pool) settle(now int64) {
	for _, w := range p.workers {
		w.Settle(now)
	}
}

// scale changes how many workers a pool has: doc/spec/simulate.md 7.4. The target counts active and starting ones.
func (p *pool) scale(now int64, target int) {
	more := target - (len(p.workers) - p.draining) - len(p.starting)
	for ; more > 0; more-- {
		p.order(now, now+int64(math.RoundToEven(p.Engine.StartupTime*1e9)))
	}
	for ; more < 0 && len(p.starting) > 0; more++ { // the highest first
		last := len(p.starting) - 1
		p.results[p.starting[last].id].Gone = now
		p.starting = p.starting[:last]
	}
	if more == 0 {
		return
	}
	for k := len(p.workers) - 1; k >= 0 && more < 0; k-- {
		if w := p.workers[k]; !w.draining {
			w.draining = true
			p.results[w.id].Drained = now
			p.draining++
			more++
		}
	}
	p.router.Workers(now, p.active())
	p.retire(now)
}

// retire lets the draining workers disappear that have nothing left to do.
func (p *pool) retire(now int64) {
	p.workers = slices.DeleteFunc(p.workers, func(w *worker) bool {
		if !w.draining || w.Busy() || w.HasWork() || w.handing > 0 {
			return false
		}
		p.results[w.id].Counts, p.results[w.id].Gone = w.Counts(), now
		p.draining--
		return true
	})
}

// state lists the workers by what they do, for a planner.
func (p *pool) state() (s PoolState) {
	for _, w := range p.workers {
		if w.draining {
			s.Draining = append(s.Draining, w.id)
		} else {
			s.Active, s.Ready = append(s.Active, w.id), append(s.Ready, p.results[w.id].Ready)
		}
	}
	for _, one := range p.starting {
		s.Starting = append(s.Starting, one.id)
	}
	return s
}

// nextTick returns when the planner is asked next; never without one.
func (r *run) nextTick() int64 {
	if r.Planner == nil {
		return never
	}
	return r.Planner.Next()
}

// tick asks the planner, if its tick is due now.
func (r *run) tick() (changed bool, err error) {
	if r.nextTick() > r.now {
		return false, nil
	}
	s := State{LastEvent: r.lastEvent, Arriving: len(r.due)}
	for _, p := range r.pools {
		p.settle(r.now)
		s.LastEvent = max(s.LastEvent, p.lastEnd())
		s.Pools = append(s.Pools, p.state())
	}
	targets, err := r.Planner.Tick(r.now, s)
	if err != nil {
		return false, err
	}
	if next := r.Planner.Next(); next <= r.now {
		return false, fmt.Errorf("planner: the next tick is at %d ns, not after the one at %d ns", next, r.now)
	}
	if targets == nil {
		return false, nil
	}
	if len(targets) != len(r.pools) || slices.Min(targets) < 0 {
		return false, fmt.Errorf("planner: targets %v: want a number of workers, 0 or more, for each of %d pools", targets, len(r.pools))
	}
	for k, p := range r.pools {
		p.scale(r.now, targets[k])
		p.begin(r.now) // those that take no time to start
	}
	return true, nil
}

// roundRobin gives requests to the active workers in turn: doc/spec/simulate.md 7.2.
type roundRobin struct {
	active []int
	next   int // place of the next worker; behind the last: the first
}

func (r *roundRobin) Workers(_ int64, active []int) { r.active = active }

// Route returns the next active worker in turn.
func (r *roundRobin) Route(int64, *Request) (worker int, ok bool) {
	at := r.next % len(r.active)
	r.next = at + 1
	return r.active[at], true
}

func (r *roundRobin) Next(int64) (*Request, int)   { return nil, 0 }
func (r *roundRobin) Events(int, []engine.KVEvent) {}
func (r *roundRobin) FirstToken(int64, *Request)   {}
func (r *roundRobin) Completed(int64, *Request)    {}
