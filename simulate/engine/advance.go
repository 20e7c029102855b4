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
		w.own(r, max(before/size, r.shared))
	}
}

// publish makes the blocks of a request from first to before end visible.
func (w *Worker) publish(r *Request, first, end int) {
	if first >= end {
		return
	}
	i := 0
	for _, run := range r.Chain {
		for k := max(first-i, 0); k < int(run.Count) && i+k < end; k++ {
			switch s := r.blocks[i+k]; {
			case w.pool.slots[s].key != 0:
			case w.rules.merge:
				w.publishBlock(r, i+k, run.First+uint32(k))
			default:
				w.pool.publish(s, run.First+uint32(k))
			}
		}
		i += int(run.Count)
	}
}

// publishBlock makes one block visible. Where equal content merges, the request leases the one that is there.
func (w *Worker) publishBlock(r *Request, i int, chain uint32) {
	if w.rules.merge {
		if there := w.pool.index.find(chain); there != none {
			w.pool.lease(there)
			w.pool.release(r.blocks[i])
			r.blocks[i] = there
			return
		}
	}
	w.pool.publish(r.blocks[i], chain)
}

// reserve leases the blocks of the tokens before and want. It preempts requests where the pool has none, and returns how many
// tokens may be computed; false when the request is blocked, or was preempted itself.
func (w *Worker) reserve(r *Request, before, want int) (int, bool) {
	if r.blocks == nil {
		if n := len(w.lists); n > 0 {
			r.blocks, w.lists = w.lists[n-1], w.lists[:n-1]
		}
	}
	target := blocksOf(before+want, w.rules.blockSize)
	if w.rules.reserveOutput {
		target = w.known(r)
	}
	if w.rules.partial {
		return w.reservePartly(r, before, want, target)
	}
	for !w.has(target - len(r.blocks) - len(w.hits)) {
		if v := w.victim(); v == nil || w.preempt(v) == r {
			return 0, false
		}
	}
	w.leaseHits(r)
	for len(r.blocks) < target {
		r.blocks = append(r.blocks, w.pool.take())
		if w.rules.visibleAllocated {
			w.publishAllocated(r)
		}
	}
	return want, true
}

// has reports whether the pool can give so many blocks beside the hits.
func (w *Worker) has(blocks int) bool {
	room := w.rules.blocks - w.pool.active - blocks
	if room >= len(w.hits) {
		return true
	}
	for _, s := range w.hits {
		if w.pool.slots[s].refs == 0 {
			room--
		}
	}
	return room >= 0
}

// reservePartly leases block by block, and keeps what it got when there is no request left to preempt.
func (w *Worker) reservePartly(r *Request, before, want, target int) (int, bool) {
	w.leaseHits(r)
	for len(r.blocks) < target {
		if s := w.duplicate(r, len(r.blocks)); s != none {
			w.pool.lease(s)
			r.blocks = append(r.blocks, s)
			continue
		}
		if w.pool.active == w.rules.blocks {
			v := w.victim()
			if v == nil {
				break
			}
			if w.preempt(v) == r {
				return 0, false
			}
			continue
		}
		r.blocks = append(r.blocks, w.pool.take())
		w.publishAllocated(r)
	}
	got := min(want, len(r.blocks)*w.rules.blockSize-before)
	return got, got > 0 || want == 0
}

// publishAllocated makes the newest block of a request visible, where blocks are from their allocation on.
func (w *Worker) publishAllocated(r *Request) {
	i := len(r.blocks) - 1
	switch {
	case !w.rules.visibleAllocated || !w.rules.caching || (i+1)*w.rules.blockSize > r.length():
	case i < r.shared:
		w.publishBlock(r, i, r.chainOf(i))
	default:
		w.pool.own(r.blocks[i])
	}
}

// duplicate returns the block with the content of block i of a request, where equal content merges; none without one.
func (w *Worker) duplicate(r *Request, i int) int32 {
	if !w.rules.merge || !w.rules.caching || (i+1)*w.rules.blockSize > r.length() {
		return none
	}
	if i < r.shared {
		return w.pool.index.find(r.chainOf(i))
	}
	return w.findPrivate(r, i)
}

// extend gives a request the block of the token that it emits. It returns false when the request was preempted instead.
func (w *Worker) extend(r *Request) bool {
	w.fill(r) // even where no block is left
	for w.pool.active == w.rules.blocks {
		if w.preempt(w.victim()) == r {
			return false
		}
	}
	w.grow(r)
	return true
}

// fill makes the last block of a request one that it finds again, and grow gives it one more, of tokens that it generates.
func (w *Worker) fill(r *Request) {
	if w.rules.blockAtEmission && w.rules.caching {
		w.pool.own(r.blocks[len(r.blocks)-1])
	}
}

func (w *Worker) grow(r *Request) {
	w.fill(r)
	s := w.pool.take()
	r.blocks = append(r.blocks, s)
	if w.rules.caching && w.rules.visibleAllocated && !w.rules.blockAtEmission && w.rules.blockSize == 1 {
		w.pool.own(s) // a block of one token is full when it is taken
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

// own makes the full blocks of a request from first on, which no chain number names, ones that it finds again.
func (w *Worker) own(r *Request, first int) {
	for i, full := first, w.full(r); i < full; i++ {
		w.pool.own(r.blocks[i])
	}
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

// drop ends the leases of a request, its last block first. Where it comes back, it remembers the blocks that only it can find.
func (w *Worker) drop(r *Request, back bool) {
	if back {
		r.private = slices.DeleteFunc(r.private, func(s saved) bool { return !w.pool.holds(s) })
	}
	full := w.full(r)
	for i := len(r.blocks) - 1; i >= 0; i-- {
		s := r.blocks[i]
		b := &w.pool.slots[s]
		if b.key == 0 && i < full {
			w.pool.own(s)
		}
		if back && b.key == private && !slices.Contains(r.private, saved{int32(i), s, b.generation}) {
			r.private = append(r.private, saved{int32(i), s, b.generation})
		}
		w.pool.release(s)
	}
	r.blocks = r.blocks[:0]
}
