package engine

// findHits finds the leading blocks of a waiting request in the pool, into w.hits, and returns how many tokens they hold.
func (w *Worker) findHits(r *Request) (cached int) {
	w.hits = w.hits[:0]
	if !w.rules.caching {
		return 0
	}
	size, length := w.rules.blockSize, r.length()
	most := (length - 1) / size // the block with the last token is computed
	if w.rules.freeHit {
		most = length / size
	}
	w.findShared(r, min(most, r.shared))
	if len(w.hits) == r.shared {
		for i := r.shared; i < most; i++ {
			s := w.findPrivate(r, i)
			if s == none {
				break
			}
			w.hits = append(w.hits, s)
		}
	}
	cached = len(w.hits) * size
	if w.rules.freeHit && cached > r.Prompt {
		cached = r.Prompt
		w.hits = w.hits[:blocksOf(cached, size)]
	}
	return cached
}

// findShared walks along the chain of a request, at most so many blocks, until the first miss.
func (w *Worker) findShared(r *Request, most int) {
	for _, run := range r.Chain {
		for c := run.First; c < run.First+run.Count; c++ {
			if len(w.hits) == most {
				return
			}
			s := w.pool.index.find(c)
			if s == none {
				return
			}
			w.hits = append(w.hits, s)
		}
	}
}

// findPrivate returns the oldest block i that a request lost in a preemption and that is still there, or none.
func (w *Worker) findPrivate(r *Request, i int) int32 {
	for _, s := range r.private {
		if int(s.index) == i && w.pool.holds(s) {
			return s.slot
		}
	}
	return none
}

// holds reports whether a slot still has the private block that it had.
func (p *pool) holds(s saved) bool {
	b := &p.slots[s.slot]
	return b.key == private && b.generation == s.generation
}

// leaseHits gives a request the blocks of its hits.
func (w *Worker) leaseHits(r *Request) {
	for _, s := range w.hits {
		w.pool.lease(s)
	}
	r.blocks = append(r.blocks, w.hits...)
	w.hits = w.hits[:0]
}

// idleHits returns how many blocks of the hits nobody leases.
func (w *Worker) idleHits() (n int) {
	for _, s := range w.hits {
		if w.pool.slots[s].refs == 0 {
			n++
		}
	}
	return n
}

// dropHits takes back the blocks of a waiting request that could not enter.
func (w *Worker) dropHits(r *Request) {
	w.hits = w.hits[:0]
	for i := len(r.blocks) - 1; i >= 0; i-- {
		w.pool.release(r.blocks[i])
	}
	r.blocks = r.blocks[:0]
}
