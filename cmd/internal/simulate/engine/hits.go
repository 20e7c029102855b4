package engine

// findHits finds the leading blocks of a waiting request in the pool, into w.hits, and returns how many tokens they hold.
func (w *Worker) findHits(r *Request) (cached int) {
	w.hits.reset()
	if !w.rules.caching {
		return 0
	}
	size, length := w.rules.blockSize, r.length()
	most := (length - 1) / size // the block with the last token is computed
	if w.rules.freeHit {
		most = length / size
	}
	w.pool.find(&w.hits, r.Chain, min(most, r.shared))
	if w.hits.blocks == r.shared {
		for i := r.shared; i < most; i++ {
			s, ok := w.findPrivate(r, i)
			if !ok {
				break
			}
			w.hits.add(s)
		}
	}
	cached = w.hits.blocks * size
	if w.rules.freeHit && cached > r.Prompt {
		cached = r.Prompt
		w.hits.cutTo(blocksOf(cached, size))
	}
	return cached
}

// findPrivate returns the oldest block i that a request lost in a preemption and that is still there.
func (w *Worker) findPrivate(r *Request, i int) (piece, bool) {
	for _, s := range r.private {
		if int(s.index) == i && w.pool.holds(s) {
			return piece{s.at, 1}, true
		}
	}
	return piece{}, false
}

// dropHits takes back the blocks of a waiting request that could not enter.
func (w *Worker) dropHits(r *Request) {
	w.hits.reset()
	w.pool.release(&r.leases)
}
