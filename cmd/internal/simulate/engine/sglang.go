package engine

import "slices"

// What SGLang reserves for answers that go on: doc/spec/simulate.md 5.7.
const (
	clipReserve            = 4096 // tokens of one request, at most
	firstRatio, leastRatio = 0.7, 0.098
	ratioPasses            = 600 // from the first to the least
)

// playSGLang schedules one pass of SGLang. While prompts can be computed, requests that emit wait; only of a worker that decodes alone are
// the prompts there already, so that both go on.
func (w *Worker) playSGLang(now int64) {
	if w.rules.role == Decode {
		w.join(now)
		if w.decodeAll() {
			w.prefillAll(now)
		}
	} else if !w.prefillAll(now) {
		w.decodeAll()
	}
	w.ratioFell++
}

// join takes those that wait and have their prompts from other workers into the batch.
func (w *Worker) join(now int64) {
	for len(w.running) < w.rules.maxSeqs {
		i := slices.IndexFunc(w.waiting.all(), handed)
		if i < 0 {
			return
		}
		r := w.waiting.remove(i)
		w.running = append(w.running, r)
		w.admitted(r, now, 0)
	}
}

// ratio returns the share of the output to come that running requests are expected to need.
func (w *Worker) ratio() float64 {
	return max(firstRatio-float64(float64(w.ratioFell)*((firstRatio-leastRatio)/ratioPasses)), leastRatio)
}

// room returns how many tokens may be taken: those of blocks that no request leases, less what running requests are expected to need.
func (w *Worker) room() float64 {
	expected := 0
	for _, r := range w.running {
		if !begun(r) {
			expected += min(r.limit-r.Tokens, clipReserve)
		}
	}
	return float64((w.rules.blocks-w.ActiveBlocks())*w.rules.blockSize) - float64(w.ratio()*float64(expected))
}

// begun reports whether a running request has a part of its known tokens yet to be computed, beside the one that it emitted last.
func begun(r *Request) bool {
	return r.computed < r.length()-1 || r.Tokens == 0 && r.computed < r.Prompt
}

// pages rounds tokens up to whole blocks.
func (w *Worker) pages(tokens int) int {
	return blocksOf(tokens, w.rules.blockSize) * w.rules.blockSize
}

// prefillAll computes prompts in this pass: the one that was begun, then those that wait, the head first. It reports whether it took one.
func (w *Worker) prefillAll(now int64) (any bool) {
	if w.expected.len() > 0 { // prompts that are handed over go first
		return false
	}
	room := w.room()
	if k := slices.IndexFunc(w.running, begun); k >= 0 {
		r := w.running[k]
		chunk := w.chunkOf(r.length()-r.computed, int(max(room, 0)), false)
		if any = chunk > 0; any {
			w.compute(r, r.computed, chunk)
		}
		if begun(r) && r.computed < r.length() {
			return any
		}
		room -= float64(w.pages(chunk) + min(r.limit-r.Tokens, clipReserve))
	}
	for len(w.running) < w.rules.maxSeqs {
		r := w.head()
		if r == nil {
			return any
		}
		cached := w.findHits(r)
		left := r.length() - cached
		need := float64(w.pages(left) + min(r.limit-r.Tokens, clipReserve))
		room -= float64((w.hits.blocks - w.pool.leased(&w.hits)) * w.rules.blockSize)
		chunk := w.chunkOf(left, left, !any)
		fits := w.has(blocksOf(cached+chunk, w.rules.blockSize) - w.hits.blocks)
		if need >= room && len(w.running) > 0 || chunk == 0 || !fits { // alone, a request gets what there is
			w.hits.reset()
			return any
		}
		w.waiting.pop()
		w.compute(r, cached, chunk)
		w.running = append(w.running, r)
		w.admitted(r, now, cached)
		if any = true; chunk < left {
			return any
		}
		room -= need
	}
	return any
}

// chunkOf returns how many of the tokens left of a request this pass computes: all, or whole blocks. Without chunked prefill it is all
// or, but for the first request of a pass, none.
func (w *Worker) chunkOf(left, room int, first bool) int {
	size := w.rules.blockSize
	switch most := min(w.pass.budget, room/size*size); {
	case w.pages(left) <= most, !w.rules.chunked && first:
		return left
	case left <= room && w.pages(left) <= w.pass.budget: // the room ends in its last block
		return left
	case !w.rules.chunked:
		return 0
	default:
		return max(most/size*size, 0)
	}
}

// compute computes tokens of a request for which the pool has room, and charges whole blocks to the budget.
func (w *Worker) compute(r *Request, before, tokens int) {
	if _, ok := w.reserve(r, before, tokens); !ok {
		panic("engine: a pool without the room that it had")
	}
	w.schedule(r, before, tokens)
	w.pass.budget = max(w.pass.budget-(w.pages(tokens)-tokens), 0)
}

// decodeAll computes the last token of every request that emits. Where the pool has too few blocks for all, the request with the fewest
// tokens waits again. It reports whether none had to.
func (w *Worker) decodeAll() bool {
	kept := true
	for w.growth() > w.rules.blocks-w.ActiveBlocks() {
		w.preempt(w.retracted())
		kept, w.ratioFell = false, 0
	}
	budget := w.pass.budget
	for _, r := range w.running {
		if !begun(r) && r.computed < r.length() {
			w.compute(r, r.computed, 1)
		}
	}
	w.pass.budget = budget // of prompts
	return kept
}

// growth returns how many blocks the next tokens of all requests that emit begin.
func (w *Worker) growth() (n int) {
	for _, r := range w.running {
		if !begun(r) {
			n += blocksOf(r.length(), w.rules.blockSize) - r.leases.blocks
		}
	}
	return n
}

// retracted returns the request that gives its blocks back: of those that emit the one with the fewest tokens; among equals the one with
// the longest prompt, then the last.
func (w *Worker) retracted() (worst *Request) {
	for _, r := range w.running {
		switch {
		case begun(r):
		case worst == nil, r.Tokens < worst.Tokens, r.Tokens == worst.Tokens && r.Prompt >= worst.Prompt:
			worst = r
		}
	}
	return worst
}
