package fleet

import (
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
	expected int // requests that are handed to it and have not come
}

// start is a worker that starts.
type start struct {
	id    int
	ready int64
}

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
		p.engine.Lookups = index == 1 && r.Pools[0].Engine.KVTransferTiming == engine.DestinationMissing
	}
	for range p.Pool.Workers {
		p.order(0, 0)
	}
	p.begin(0)
	return p
}

// order begins the start-up of a worker.
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

// settle makes the passes visible that have ended.
func (p *pool) settle(now int64) {
	for _, w := range p.workers {
		w.Settle(now)
	}
}
