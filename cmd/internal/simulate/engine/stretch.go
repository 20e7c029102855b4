package engine

import "sort"

// stretch is passes of pure decode that were planned at once: doc/spec/simulate.md 6. Only the known lengths move in it, by one token a
// request and pass, and free blocks are taken. What a pass does to requests and pool is done when it is committed.
type stretch struct {
	ends      []int64 // of its passes; none: the worker plays a pass, or is idle
	committed int     // passes
	queued    int     // from this pass on, requests wait that did not when the record of the queue was made; 0: none
	outside   []bool  // of its passes: they lie outside of what was measured
	crossings []int32 // of unique blocks: how many requests take a block in pass j, by j mod the block size
}

// maxStretch bounds the memory of a plan, and maxLoading one that the end of a load cuts.
const maxStretch, maxLoading = 1 << 12, 32

// inStretch reports whether the passes in flight were planned at once.
func (w *Worker) inStretch() bool { return len(w.stretch.ends) > 0 }

// planStretch plans the passes from now on in which the batch cannot change. It returns false where the first may change it.
func (w *Worker) planStretch(now int64) bool {
	passes, length, ok := w.pureDecode()
	if !ok || w.expected.len() > 0 || w.waiting.len() > 0 && len(w.running) < w.rules.maxSeqs && (w.sglang != nil || !w.headMustWait()) { // its room grows with every pass
		return false
	}
	if passes = w.passesWithin(passes); passes == 0 {
		return false
	}
	if len(w.loads) > 0 {
		passes = min(passes, maxLoading)
	}
	s := &w.stretch
	s.committed, s.queued = 0, 0
	if w.observe != nil {
		w.record = Pass{}
		w.recordQueue()
	}
	if w.rules.uniqueKV {
		w.planCrossings(now, passes, length)
	} else {
		w.planLengths(now, passes, length)
	}
	if len(w.loads) > 0 { // the pass after the end of a load may take its request
		last := sort.Search(len(s.ends)-1, func(k int) bool { return s.ends[k] >= w.loads[0].lands })
		s.ends, s.outside = s.ends[:last+1], s.outside[:min(last+1, len(s.outside))]
	}
	w.end = s.ends[len(s.ends)-1]
	return true
}

// pureDecode reports whether every running request needs one token computed, which it generated, and how many passes it takes until
// the first of them ends, at most maxStretch.
func (w *Worker) pureDecode() (passes, length int, ok bool) {
	passes = maxStretch
	if w.sglang != nil && w.sglang.cut != nil {
		return 0, 0, false
	}
	for _, r := range w.running {
		n := r.length()
		if r.computed != n-1 || r.Tokens == 0 || r.computed < r.Prompt {
			return 0, 0, false
		}
		if w.rules.blockAtEmission && n > r.leases.blocks*w.rules.blockSize { // it came back, and has no block of its last token yet
			return 0, 0, false
		}
		passes = min(passes, r.limit-r.Tokens)
		length += n
	}
	return passes, length, len(w.running) > 0 && len(w.running) < w.rules.maxTokens
}

// headMustWait reports whether the waiting head stays where it is while nothing but blocks of running requests changes.
func (w *Worker) headMustWait() bool {
	r := w.waiting.first()
	if !w.rules.gate || w.landed > 0 || handed(r) || w.impossible(r) {
		return false
	}
	w.findHits(r)
	fits := w.fits(r)
	w.hits.reset()
	return !fits
}

// held returns how many tokens of a request need blocks when it has taken part in so many more passes of pure decode.
func (w *Worker) held(r *Request, passes int) int {
	if w.rules.blockAtEmission || w.sglang != nil {
		return r.length() + passes
	}
	return r.computed + passes
}

// missing returns how many blocks the requests take in so many passes.
func (w *Worker) missing(passes int) (n int) {
	for _, r := range w.running {
		n += max(blocksOf(w.held(r, passes), w.rules.blockSize)-r.leases.blocks, 0)
	}
	return n
}

// passesWithin returns how many of the passes need no block but those that are not leased.
func (w *Worker) passesWithin(passes int) int {
	room := w.rules.blocks - w.used.active
	if w.rules.freeOnly {
		room = w.used.unused()
	}
	if w.missing(passes) <= room { // as a rule
		return passes
	}
	return sort.Search(passes, func(n int) bool { return w.missing(n+1) > room })
}

// planLengths computes the ends of passes that read the known lengths.
func (w *Worker) planLengths(now int64, passes, length int) {
	n := len(w.running)
	ends, outside := w.stretch.ends[:0], w.stretch.outside[:0]
	for range passes {
		if w.rules.role != Prefill {
			now += w.timing.Decode(length, length, n)
			if w.timing.bounded {
				outside = append(outside, w.timing.outside(&Work{Batch: n, KV: length, length: length}))
			}
		}
		ends = append(ends, now)
		length += n
	}
	w.stretch.ends, w.stretch.outside = ends, outside
}

// planCrossings computes the ends of passes that read the active blocks.
func (w *Worker) planCrossings(now int64, passes, length int) {
	n, size := len(w.running), w.rules.blockSize
	s := &w.stretch
	if len(s.crossings) != size {
		s.crossings = make([]int32, size)
	}
	clear(s.crossings)
	for _, r := range w.running {
		if first := r.leases.blocks*size - w.held(r, 0); first < size {
			s.crossings[first]++
		}
	}
	active, phase := w.used.active, 0
	ends, outside := s.ends[:0], s.outside[:0]
	for range passes {
		taken := int(s.crossings[phase])
		if !w.rules.blockAtEmission {
			active, taken = active+taken, 0
		}
		if w.rules.role != Prefill {
			now += w.timing.Decode(active*size, length, n)
			if w.timing.bounded {
				outside = append(outside, w.timing.outside(&Work{Batch: n, KV: active * size, length: length}))
			}
		}
		active += taken
		length += n
		ends = append(ends, now)
		if phase++; phase == size {
			phase = 0
		}
	}
	s.ends, s.outside = ends, outside
}

// Settle makes the passes of a stretch visible that have ended at now.
func (w *Worker) Settle(now int64) {
	s := &w.stretch
	done := s.committed
	for done < len(s.ends) && s.ends[done] <= now {
		done++
	}
	if done == len(s.ends) { // its last pass is ended by Finish
		done = max(done-1, s.committed)
	}
	w.commit(done)
}

// cut ends a stretch with the pass in flight. Where the pass before has ended just now and the next has not begun, no pass is.
func (w *Worker) cut(now int64, begun bool) {
	s := &w.stretch
	if w.betweenPasses(now, begun) {
		w.endStretch()
		w.busy, w.end = false, now
		return
	}
	s.ends = s.ends[:s.committed+1]
	w.end = s.ends[s.committed]
}

// betweenPasses reports whether a pass of the stretch has ended just now and the next has not begun.
func (w *Worker) betweenPasses(now int64, begun bool) bool {
	s := &w.stretch
	return !begun && s.committed > 0 && s.ends[s.committed-1] == now
}

// commit does what the passes of a stretch until pass end, which is left out, do to its requests and to the pool.
func (w *Worker) commit(end int) {
	s := &w.stretch
	if s.committed == end {
		return
	}
	passes, last := end-s.committed, s.ends[end-1]
	for j := s.committed; j < min(end, len(s.outside)); j++ {
		if s.outside[j] {
			w.counts.Outside++
		}
	}
	w.countGaps(end)
	if w.observe != nil {
		w.observeStretch(end)
	}
	for _, r := range w.running {
		if r.Tokens == 1 {
			r.Second = s.ends[s.committed]
		}
		r.Last = last
		r.Tokens += passes
		r.computed += passes
		r.reached, r.farthest = max(r.reached, r.computed), max(r.farthest, r.computed)
		if w.sglang != nil {
			continue
		}
		for target := blocksOf(w.held(r, 0), w.rules.blockSize); r.leases.blocks < target; {
			w.grow(r)
		}
		if w.rules.caching && !w.rules.visibleAllocated {
			w.pool.own(&r.leases, max((r.computed-passes)/w.rules.blockSize, r.shared), w.full(r))
		}
	}
	if w.sglang != nil {
		w.growTogether(passes)
		w.sglang.fall(passes)
	}
	w.counts.Passes += int64(passes)
	w.counts.Evictions = w.used.evictions
	w.counts.Output += int64(passes * len(w.running))
	s.committed, w.ended = end, last
}

// countGaps counts the gaps before the tokens of the passes until pass end.
func (w *Worker) countGaps(end int) {
	s := &w.stretch
	n, first := int64(len(w.running)), s.committed
	if first == 0 { // a request may have missed passes before the stretch
		for _, r := range w.running {
			w.gaps.Add(s.ends[0]-r.Last, 1)
		}
		first = 1
	}
	at := s.ends[first-1]
	for _, next := range s.ends[first:end] {
		w.gaps.Add(next-at, n)
		at = next
	}
}

// endStretch ends a stretch whose passes are committed, and the requests that have emitted all their tokens.
func (w *Worker) endStretch() {
	w.stretch.ends = w.stretch.ends[:0]
	w.stretch.committed = 0
	for i := 0; i < len(w.running); i++ {
		if r := w.running[i]; r.Tokens == r.limit {
			w.complete(i)
			i--
		}
	}
}

// requeue notes that a request is about to wait, which the pass in flight has not seen. The next one sees it, or the one that begins now.
func (w *Worker) requeue(now int64, begun bool) {
	s := &w.stretch
	if w.observe == nil {
		return
	}
	if s.queued > 0 && s.queued <= s.committed {
		w.recordQueue()
	}
	s.queued = s.committed + 1
	if w.betweenPasses(now, begun) {
		s.queued--
	}
}

// observeStretch reports the passes until pass end, one by one.
func (w *Worker) observeStretch(end int) {
	s := &w.stretch
	at := w.start
	if s.committed > 0 {
		at = s.ends[s.committed-1]
	}
	w.record.Decode = w.group(w.running, func(r *Request) (int, bool) { return r.length(), true })
	length, active := w.record.Decode.Tokens, w.used.active
	for j := s.committed; j < end; j++ {
		if j == s.queued && j > 0 {
			w.recordQueue()
			s.queued = 0
		}
		taken := 0
		if w.rules.uniqueKV {
			taken = int(s.crossings[j%w.rules.blockSize])
			if !w.rules.blockAtEmission {
				active, taken = active+taken, 0
			}
			w.record.Decode.Tokens = active * w.rules.blockSize
		} else {
			w.record.Decode.Tokens = length
		}
		w.record.Start, w.record.End = at, s.ends[j]
		w.observe(&w.record)
		at = s.ends[j]
		length += len(w.running)
		active += taken
	}
}
