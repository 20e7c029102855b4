package engine

import "slices"

// What SGLang reserves for answers that go on: doc/spec/simulate.md 5.7.
const (
	clipReserve   = 4096 // tokens of one request, at most
	ratioPasses   = 600  // in which the share falls from the first to the least
	retractTokens = 20   // that each request is expected to emit after a retraction
)

// firstRatio and leastRatio bound the share of the output to come that requests are expected to need.
var firstRatio, leastRatio = 0.7, 0.7 * float64(0.14)

// sglang is what the scheduler of SGLang has beside that of vLLM.
type sglang struct {
	tree     *radix
	ratio    float64
	cut      *Request   // it runs, and has a part of its tokens yet to be computed
	emitting []*Request // in the pass
	requests int        // so far
}

// playSGLang schedules one pass of SGLang: prompts, and where none can be computed the next tokens of all that emit.
func (w *Worker) playSGLang(now int64) {
	s := w.sglang
	s.emitting = s.emitting[:0]
	if w.join(now) && w.prefillAll(now) {
		w.emitFirst()
		return
	}
	if w.decodeAll(); !w.pass.preempted {
		s.fall(1)
	}
	if len(s.emitting) == 0 { // nothing can be done, and passes of no length follow one another
		s.ratio = min(s.ratio, leastRatio)
	}
}

// fall lets the share of the output to come fall by so many passes.
func (s *sglang) fall(passes int) {
	for ; passes > 0 && s.ratio != leastRatio; passes-- {
		s.ratio = max(s.ratio-(firstRatio-leastRatio)/ratioPasses, leastRatio)
	}
}

// join takes those that wait and have their prompts from other workers into the batch. It reports whether prompts may follow: nobody is
// left to be handed over.
func (w *Worker) join(now int64) bool {
	for {
		i := slices.IndexFunc(w.waiting.all(), handed)
		if i < 0 || w.filled() {
			return i < 0 && w.expected.len() == 0
		}
		r := w.waiting.remove(i)
		w.running = append(w.running, r)
		w.admitted(r, now, 0)
	}
}

// filled reports whether no other request can join the batch, of which the one that is cut is no part yet.
func (w *Worker) filled() bool {
	n := len(w.running)
	if w.sglang.cut != nil {
		n--
	}
	return n >= w.rules.maxSeqs
}

// room returns how many tokens may be taken: those of blocks that no request leases, less what running requests are expected to need.
func (w *Worker) room() (tokens float64) {
	reserved := 0.0
	for _, r := range w.running {
		if r != w.sglang.cut {
			reserved += float64(float64(min(r.limit-r.Tokens, clipReserve)) * w.sglang.ratio)
		}
	}
	return float64((w.rules.blocks-w.used.active)*w.rules.blockSize) - reserved
}

// pages rounds tokens up to whole blocks.
func (w *Worker) pages(tokens int) int {
	return blocksOf(tokens, w.rules.blockSize) * w.rules.blockSize
}

// prefillAll computes prompts in this pass: the one that was cut, then those that wait, the head first. It reports whether it took one.
func (w *Worker) prefillAll(now int64) (any bool) {
	s := w.sglang
	for room := w.room(); w.pass.budget > 0; any = true {
		r, start := s.cut, 0
		if w.filled() {
			break
		} else if r != nil {
			start = r.computed
		} else if r = w.head(); r == nil {
			break
		} else if w.rules.caching {
			start = s.tree.find(r.branch.keys, (r.length()-1)/w.rules.blockSize) * w.rules.blockSize
		}
		left := r.length() - start
		chunk := w.chunkOf(left, !any)
		need := w.pages(chunk)
		if chunk == left {
			need += min(r.limit-r.Tokens, clipReserve)
		}
		alone := w.used.active == r.leases.blocks // then it gets what there is
		if chunk == 0 || float64(need) >= room && !alone || !w.lease(r, start, start+chunk) {
			break
		}
		room -= float64(need)
		if r != s.cut {
			w.waiting.pop()
			w.running = append(w.running, r)
			w.admitted(r, now, start)
		}
		s.cut = nil
		w.count(r, start, chunk, chunk)
		w.pass.budget = max(w.pass.budget-(w.pages(chunk)-chunk), 0)
		if chunk < left {
			s.cut = r
			w.cache(r)
			return true
		}
		s.emitting = append(s.emitting, r)
	}
	return any
}

// chunkOf returns how many of the tokens left of a request this pass computes: all, or whole blocks. Without chunked prefill it is all
// or, but for the first request of a pass, none.
func (w *Worker) chunkOf(left int, first bool) int {
	switch {
	case w.pages(left) <= w.pass.budget, !w.rules.chunked && first:
		return left
	case !w.rules.chunked:
		return 0
	default:
		return w.pass.budget / w.rules.blockSize * w.rules.blockSize
	}
}

// lease gives a request blocks for its first tokens. Where it has none yet, it finds those of the start in the tree.
func (w *Worker) lease(r *Request, start, tokens int) bool {
	t, blocks := w.sglang.tree, blocksOf(tokens, w.rules.blockSize)
	if r.leases.blocks == 0 {
		if !t.enter(r, start/w.rules.blockSize, blocks) {
			return false
		}
	} else if fresh := blocks - r.leases.blocks; fresh > w.rules.blocks-t.active {
		return false
	} else {
		t.take(fresh)
		r.leases.blocks = blocks
	}
	if r.branch.tokens = tokens; w.rules.caching {
		t.announce(r.branch, tokens/w.rules.blockSize)
	}
	return true
}

// cache puts the full blocks of a request into the tree.
func (w *Worker) cache(r *Request) {
	if w.rules.caching {
		w.sglang.tree.cache(r, r.branch.tokens/w.rules.blockSize)
	}
}

// emitFirst gives those whose prompts were computed blocks of their first tokens. Where there are too few for all, they emit in the next
// decode step; those that end need none, and go first.
func (w *Worker) emitFirst() {
	s := w.sglang
	slices.SortStableFunc(s.emitting, func(a, b *Request) int { return min(a.limit-a.Tokens, 2) - min(b.limit-b.Tokens, 2) })
	end := slices.IndexFunc(s.emitting, func(r *Request) bool { return r.limit-r.Tokens > 1 })
	if end < 0 {
		return
	}
	need := 0
	for _, r := range s.emitting[end:] {
		need += blocksOf(r.length()+1, w.rules.blockSize) - r.leases.blocks
	}
	s.tree.evict(need - s.tree.unused())
	if need > s.tree.unused() {
		s.emitting = s.emitting[:end]
		return
	}
	for _, r := range s.emitting[end:] {
		w.slot(r)
	}
}

// slot gives a request room for the token that it emits.
func (w *Worker) slot(r *Request) {
	if r.branch.tokens++; r.branch.tokens > r.leases.blocks*w.rules.blockSize {
		w.sglang.tree.take(1)
		r.leases.blocks++
	}
}

// decodeAll computes the last token of every request that emits. Where the pool has too few blocks for the next tokens of all, the request
// with the fewest tokens waits again, behind all others.
func (w *Worker) decodeAll() {
	s := w.sglang
	retracted := false
	for {
		need, least := w.growth()
		if need <= w.rules.blocks-w.used.active {
			break
		}
		if len(w.running) == 1 && w.used.active == least.leases.blocks { // it has all that there is
			w.running = w.running[:0]
			w.drop(least, false)
			w.refuse(least)
			return
		}
		if len(w.running) == 1 { // blocks are held for others
			return
		}
		w.retract(least)
		retracted = true
	}
	tokens, most := 0, 0
	for _, r := range w.running {
		if r == s.cut {
			continue
		}
		tokens, most = tokens+r.Tokens+retractTokens, most+r.limit
		w.count(r, r.computed, r.length()-r.computed, 0)
		w.slot(r)
		s.emitting = append(s.emitting, r)
	}
	if retracted {
		s.ratio = min(float64(tokens)/float64(most+1), 1)
	}
}

// growth returns how many blocks the next tokens of all requests that emit begin, and the first of these that has the fewest tokens.
func (w *Worker) growth() (blocks int, least *Request) {
	for _, r := range w.running {
		if r == w.sglang.cut {
			continue
		}
		blocks += blocksOf(r.length()+1, w.rules.blockSize) - r.leases.blocks
		if least == nil || r.Tokens < least.Tokens {
			least = r
		}
	}
	return blocks, least
}

// retract takes the blocks of a running request and puts it behind those that wait.
func (w *Worker) retract(r *Request) {
	i := slices.Index(w.running, r)
	w.running = slices.Delete(w.running, i, i+1)
	w.sglang.tree.drop(r)
	w.preempted(r)
	w.waiting.push(r)
}

// emitSGLang gives the requests that emit their next tokens at the end of the pass. Those that have all end together.
func (w *Worker) emitSGLang() {
	s := w.sglang
	ended := false
	for _, r := range s.emitting {
		if w.token(r); r.Tokens < r.limit {
			w.cache(r)
			continue
		}
		w.signals = append(w.signals, r)
		ended = true
	}
	if !ended {
		return
	}
	for _, r := range s.emitting {
		if r.Tokens == r.limit {
			if w.rules.role != Prefill {
				w.drop(r, false)
			}
			w.retire(r, Done)
		}
	}
	w.running = slices.DeleteFunc(w.running, func(r *Request) bool { return r.Status == Done })
}

// growTogether does what passes of a stretch do to the blocks of requests, whose tokens are counted.
func (w *Worker) growTogether(passes int) {
	for k := range passes {
		for _, r := range w.running {
			if w.slot(r); r.Tokens-passes+k+1 < r.limit {
				w.cache(r)
			}
		}
	}
}
