package fleet

import (
	"fmt"
	"math"
	"slices"
)

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
		if !w.draining || w.Busy() || w.HasWork() || w.expected > 0 {
			return false
		}
		p.results[w.id].Counts, p.results[w.id].Gone = w.Counts(), now
		p.draining--
		return true
	})
}

func (p *pool) state() (s PoolState) {
	for _, w := range p.workers {
		if w.draining {
			s.Draining = append(s.Draining, w.id)
		} else {
			s.Active = append(s.Active, w.id)
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
	s := State{LastEvent: r.lastEvent}
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
		return false, fmt.Errorf("planner: targets %v for %d pools", targets, len(r.pools))
	}
	for k, p := range r.pools {
		p.scale(r.now, targets[k])
	}
	return true, nil
}
