package engine

import "slices"

// never is later than every instant.
const never = 1<<63 - 1

// load brings the blocks of the waiting head from tiers where they follow its hits: doc/spec/simulate.md 5.9. The head leaves the queue with
// all blocks of its known tokens, and comes back when the load has ended. It returns false where there is nothing to load.
func (w *Worker) load(r *Request, now int64) bool {
	b := w.used.below
	if b == nil || w.pass.budget == 0 || !w.rules.caching {
		return false
	}
	r.held = w.hits.blocks
	r.loading = b.find(r.Chain, r.held, min((r.length()-1)/w.rules.blockSize, r.shared)-r.held)
	if r.loading == 0 {
		return false
	}
	r.lands = b.load(now, r.Admissions == 0)
	r.Loaded += r.loading * w.rules.blockSize
	r.LoadWait += r.lands - now
	w.waiting.pop()
	w.newList(r)
	w.pool.lease(&r.leases, &w.hits)
	w.pool.take(&r.leases, w.known(r)-r.leases.blocks)
	w.pass.progress = true
	i := len(w.loads)
	for ; i > 0 && w.loads[i-1].lands > r.lands; i-- {
	}
	w.loads = slices.Insert(w.loads, i, r)
	w.land(now)
	return true
}

// land ends the loads that have ended by now: their blocks become visible, and their requests wait behind those that were loaded before, or
// in front.
func (w *Worker) land(now int64) {
	for w.nextLoad() <= now {
		r := w.loads[0]
		w.loads = slices.Delete(w.loads, 0, 1)
		w.publish(r, r.held, r.held+r.loading)
		r.computed = (r.held + r.loading) * w.rules.blockSize
		at := w.waiting.head
		for others := w.landed; others > 0; at++ {
			if handed(w.waiting.list[at]) {
				others--
			}
		}
		w.waiting.list = slices.Insert(w.waiting.list, at, r)
		w.landed++
		w.blocked = false
	}
}

// nextLoad returns when the next load ends; never without one.
func (w *Worker) nextLoad() int64 {
	if len(w.loads) == 0 {
		return never
	}
	return w.loads[0].lands
}

// Wake returns when an idle worker that is not Ready will be without being told anything; math.MaxInt64: never.
func (w *Worker) Wake() int64 { return w.nextLoad() }
