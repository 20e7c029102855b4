package engine

import "slices"

// advance computes tokens of a request in this pass: doc/spec/simulate.md 5.3. cached are those that its hits hold. It returns
// false when the request is blocked, or was preempted itself.
func (w *Worker) advance(r *Request, cached int) bool {
	before := r.computed + cached
	left := r.length() - before
	if want := min(left, w.pass.budget); !w.rules.chunked && r.Prompt-before > w.pass.budget || want == 0 && left > 0 {
		return false
	}
	want, ok := w.reserve(r, before, min(left, w.pass.budget))
	if !ok {
		return false
	}
	w.schedule(r, before, want)
	return true
}

// schedule counts the tokens from before on as computed, and makes blocks visible that they fill.
func (w *Worker) schedule(r *Request, before, want int) {
	after := before + want
	chunk := max(min(r.Prompt, after)-before, 0)
	r.used = taken{pass: w.pass.number, tokens: want, reached: r.reached, recomputed: r.Recomputed}
	if chunk > 0 {
		r.used.chunk, r.used.prefix = chunk, before
		w.pass.prefills++
		w.pass.chunk += chunk
		w.pass.prefix += before
	}
	w.pass.budget -= want
	if before < r.reached {
		r.Recomputed += min(after, r.reached) - before
	}
	r.reached = max(r.reached, after)
	if after > r.farthest {
		r.farthest, w.pass.progress = after, true
	}
	r.computed = after
	if w.rules.caching && !w.rules.visibleAllocated {
		size := w.rules.blockSize
		w.publish(r, before/size, min(after/size, r.shared))
		w.pool.own(&r.leases, max(before/size, r.shared), w.full(r))
	}
}

// publish puts the blocks of a request, from position first to before end, into the prefix cache, where later prompts find them.
func (w *Worker) publish(r *Request, first, end int) {
	i := 0
	for _, run := range r.Chain {
		if from, to := max(first, i), min(end, i+int(run.Count)); from < to {
			w.publishRun(r, from, Run{run.First + uint32(from-i), uint32(to - from)})
		}
		i += int(run.Count)
	}
}

// publishRun puts the blocks that a request has from position first on into the prefix cache, under consecutive numbers of content. In an
// engine that merges equal content, the request gives up its own copy of a block that the cache has, and leases the cached one.
func (w *Worker) publishRun(r *Request, first int, numbers Run) {
	if !w.rules.merge {
		w.pool.publish(&r.leases, first, numbers)
		return
	}
	for k := range int(numbers.Count) {
		if chain := numbers.First + uint32(k); !w.pool.merge(&r.leases, first+k, chain) {
			w.pool.publish(&r.leases, first+k, Run{chain, 1})
		}
	}
}

// reserve leases the blocks of the tokens before and want. It preempts requests where the pool has none, and returns how many
// tokens may be computed; false when the request is blocked, or was preempted itself.
func (w *Worker) reserve(r *Request, before, want int) (int, bool) {
	if r.leases.list == nil {
		if n := len(w.lists); n > 0 {
			r.leases.list, w.lists = w.lists[n-1], w.lists[:n-1]
		}
	}
	target := blocksOf(before+want, w.rules.blockSize)
	if w.rules.reserveOutput {
		target = w.known(r)
	}
	if w.rules.partial {
		return w.reservePartly(r, before, want, target)
	}
	for !w.has(target - r.leases.blocks - w.hits.blocks) {
		if v := w.victim(); v == nil || w.preempt(v) == r {
			return 0, false
		}
	}
	w.pool.lease(&r.leases, &w.hits)
	for r.leases.blocks < target {
		if !w.rules.visibleAllocated {
			w.pool.take(&r.leases, target-r.leases.blocks)
			break
		}
		w.pool.take(&r.leases, 1)
		w.publishAllocated(r)
	}
	return want, true
}

// has reports whether the pool has room for so many new blocks while the blocks that the request found in the cache stay there.
func (w *Worker) has(blocks int) bool {
	room := w.rules.blocks - w.used.active - blocks
	return room >= w.hits.blocks || room >= w.hits.blocks-w.pool.leased(&w.hits)
}

// reservePartly leases block by block, and keeps what it got when there is no request left to preempt.
func (w *Worker) reservePartly(r *Request, before, want, target int) (int, bool) {
	w.pool.lease(&r.leases, &w.hits)
	for r.leases.blocks < target {
		if w.duplicate(r) {
			continue
		}
		if w.used.active == w.rules.blocks {
			v := w.victim()
			if v == nil {
				break
			}
			if w.preempt(v) == r {
				return 0, false
			}
			continue
		}
		w.pool.take(&r.leases, 1)
		w.publishAllocated(r)
	}
	got := min(want, r.leases.blocks*w.rules.blockSize-before)
	return got, got > 0 || want == 0
}

// publishAllocated puts the newest block of a request into the prefix cache, in an engine that does so as soon as a block is allocated.
func (w *Worker) publishAllocated(r *Request) {
	i := r.leases.blocks - 1
	switch {
	case !w.rules.visibleAllocated || !w.rules.caching || (i+1)*w.rules.blockSize > r.length():
	case i < r.shared:
		w.publishRun(r, i, Run{r.chainOf(i), 1})
	default:
		w.pool.own(&r.leases, i, i+1)
	}
}

// duplicate leases the block with the content of the next block of a request, where equal content merges. It reports false without one.
func (w *Worker) duplicate(r *Request) bool {
	i := r.leases.blocks
	if !w.rules.merge || !w.rules.caching || (i+1)*w.rules.blockSize > r.length() {
		return false
	}
	if i < r.shared {
		return w.pool.share(&r.leases, r.chainOf(i))
	}
	one, ok := w.findPrivate(r, i)
	if ok {
		w.hits.add(one)
		w.pool.lease(&r.leases, &w.hits)
	}
	return ok
}

// extend gives a request the block of the token that it emits. It returns false when the request was preempted instead.
func (w *Worker) extend(r *Request) bool {
	w.fill(r) // even where no block is left
	for w.used.active == w.rules.blocks {
		if w.preempt(w.victim()) == r {
			return false
		}
	}
	w.grow(r)
	return true
}

// fill marks the last block of a request as full, in an engine that allocates a block when a token is emitted, so that the request finds it
// again after a preemption.
func (w *Worker) fill(r *Request) {
	if w.rules.blockAtEmission && w.rules.caching {
		w.pool.own(&r.leases, r.leases.blocks-1, r.leases.blocks)
	}
}

// grow gives a request one more block, for the tokens that it generates next.
func (w *Worker) grow(r *Request) {
	w.fill(r)
	w.pool.take(&r.leases, 1)
	if w.rules.caching && w.rules.visibleAllocated && !w.rules.blockAtEmission && w.rules.blockSize == 1 {
		w.pool.own(&r.leases, r.leases.blocks-1, r.leases.blocks) // a block of one token is full when it is taken
	}
}

// victim returns the running request that is preempted next; nil without one.
func (w *Worker) victim() *Request {
	switch n := len(w.running); {
	case n == 0:
		return nil
	case w.rules.fifo:
		return w.running[0]
	default:
		return w.running[n-1]
	}
}

// preempt takes the blocks of a running request and puts it in front of those that wait. It gives back what the request took of
// this pass.
func (w *Worker) preempt(r *Request) *Request {
	i := slices.Index(w.running, r)
	w.running = slices.Delete(w.running, i, i+1)
	if r.used.pass == w.pass.number {
		w.pass.budget += r.used.tokens
		r.reached, r.Recomputed = r.used.reached, r.used.recomputed
		if r.used.chunk > 0 {
			w.pass.prefills--
			w.pass.chunk -= r.used.chunk
			w.pass.prefix -= r.used.prefix
		}
	}
	w.drop(r, true)
	r.computed = 0
	r.Status = Preempted
	r.Preemptions++
	w.counts.Preemptions++
	w.pass.preempted = true
	w.waiting.pushFront(r)
	return r
}

// full returns how many leading blocks of a request have content that can be found again.
func (w *Worker) full(r *Request) int {
	switch size := w.rules.blockSize; {
	case !w.rules.caching:
		return 0
	case w.rules.blockAtEmission: // a block is full when the next one is taken: extend
		return min(r.computed, r.Prompt) / size
	default:
		return r.computed / size
	}
}

// drop ends the leases of a request, its last block first. back says that the request was preempted and will run again: then it notes which
// blocks of generated tokens, that no other prompt can have, it may find again.
func (w *Worker) drop(r *Request, back bool) {
	if w.rules.visibleAllocated || w.rules.blockAtEmission { // else they are owned when they are full
		w.pool.own(&r.leases, 0, min(w.full(r), r.leases.blocks))
	}
	if back {
		r.private = slices.DeleteFunc(r.private, func(s saved) bool { return !w.pool.holds(s) })
		known := len(r.private)
		r.private = w.pool.privates(r.private, &r.leases)
		again := slices.DeleteFunc(r.private[known:], func(s saved) bool { return slices.Contains(r.private[:known], s) })
		r.private = r.private[:known+len(again)]
	}
	w.pool.release(&r.leases)
}
