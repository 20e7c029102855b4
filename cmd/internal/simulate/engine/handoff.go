package engine

import "slices"

// Expect hands a decode worker a request whose prompt another worker has computed: doc/spec/simulate.md 7.3. It waits for blocks,
// first come, first served, until Reserve finds them; a request that the pool can never hold ends as rejected at once, and ok is false.
func (w *Worker) Expect(r *Request) (ok bool) {
	w.prepare(r)
	if w.impossible(r) && !w.rules.deadEnd {
		r.Status = Rejected
		return false
	}
	w.orders++
	r.order = w.orders
	w.expected.push(r)
	w.blocked = false // one that has its prompt may enter now, before one that was preempted
	return true
}

// Reserve leases the blocks of the prompt of the request that was expected first, those that the pool has cached among them, and
// returns it with the tokens of the blocks that it lacks. It returns nil without room, where the batch is full, and where it did so before
// and no blocks were given back since. No pass may be in flight.
func (w *Worker) Reserve() (r *Request, lacks int) {
	if w.expected.len() == 0 || w.tried {
		return nil, 0
	}
	w.tried = true
	if w.sglang == nil && len(w.running) >= w.rules.maxSeqs {
		return nil, 0
	}
	r = w.expected.first()
	size := w.rules.blockSize
	found, ok := w.resident(r)
	if !ok {
		return nil, 0
	}
	r.Resident = found * size
	w.reserved.push(w.expected.pop())
	w.tried, w.blocked = false, false // the end of one more pass lets the next one look
	return r, w.pages(r.Prompt) - r.Resident
}

// resident leases the blocks of a prompt, and returns how many of them the pool had; false without room.
func (w *Worker) resident(r *Request) (found int, ok bool) {
	blocks, most := blocksOf(r.Prompt, w.rules.blockSize), 0
	if w.rules.caching {
		most = r.Prompt / w.rules.blockSize
	}
	if w.sglang != nil {
		ok = w.sglang.tree.enter(r, most, blocks)
		return r.branch.cached, ok
	}
	w.hits.reset()
	w.pool.find(&w.hits, r.Chain, most)
	found = w.hits.blocks
	if !w.has(blocks - found) {
		w.hits.reset()
		return 0, false
	}
	w.pool.lease(&r.leases, &w.hits)
	w.pool.take(&r.leases, blocks-found)
	return found, true
}

// Activate says that the prompt of a request has arrived for which Reserve took blocks. They become visible, and the request waits for a
// place in the batch before those that were expected after it. No pass may be in flight.
func (w *Worker) Activate(r *Request) {
	w.reserved.remove(slices.Index(w.reserved.all(), r))
	r.computed, r.reached, r.farthest = r.Prompt, r.Prompt, r.Prompt
	if w.sglang != nil {
		unused := w.used.unused()
		r.branch.tokens = r.Prompt
		w.cache(r)
		w.tried = w.tried && w.used.unused() == unused
		w.waiting.push(r)
		w.blocked = false
		return
	}
	if size := w.rules.blockSize; w.rules.caching {
		w.publish(r, r.Resident/size, min(r.Prompt/size, r.shared))
		w.pool.own(&r.leases, r.shared, r.Prompt/size)
	}
	w.waiting.insert(r)
	w.blocked = false
}

// Cancel gives back the blocks that Reserve took for a request whose prompt does not come. No pass may be in flight.
func (w *Worker) Cancel(r *Request) {
	w.reserved.remove(slices.Index(w.reserved.all(), r))
	w.sglang.tree.drop(r)
	w.blocked, w.tried = false, false
}

// Release ends the leases of a request that a prefill worker has computed and held for its hand-off. No pass may be in flight.
func (w *Worker) Release(r *Request) {
	w.drop(r, false)
	w.recycle(r)
	w.blocked, w.tried = false, false
}

// Interrupt ends a stretch with the pass in flight at now; begun is that of Submit. Busy says whether there is one.
func (w *Worker) Interrupt(now int64, begun bool) {
	if w.inStretch() {
		w.Settle(now)
		w.cut(now, begun)
	}
}

// handed reports whether a waiting request has its blocks: its prompt is from another worker, or the beginning was loaded.
func handed(r *Request) bool { return r.leases.blocks > 0 }
