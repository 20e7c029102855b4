package engine

import "slices"

// passState is what a pass has left, and what it has scheduled so far.
type passState struct {
	number                  int64
	budget                  int
	prefills, chunk, prefix int  // requests with prompt tokens in this pass; sums of these tokens, and of those known before
	attended                int  // pairs of these tokens and those that they see
	again                   int  // generated tokens that preempted requests compute behind a part of their prompts
	outside                 bool // of what was measured
	preempted               bool
	progress                bool // a token was computed for the first time, or emitted, or a request ended
}

// maxIdlePasses returns how many passes without progress a worker plays, in which it could compute its whole pool again several times:
// requests that preempt one another in turn would do so for ever.
func (w *Worker) maxIdlePasses() int {
	return 100 + 4*(len(w.running)+w.waiting.len()+w.rules.blocks*w.rules.blockSize/w.rules.maxTokens)
}

// play evaluates one pass: doc/spec/simulate.md 5.2.
func (w *Worker) play(now int64) {
	w.pass = passState{number: w.pass.number + 1, budget: w.rules.maxTokens}
	if w.sglang != nil {
		w.playSGLang(now)
	} else {
		w.playVLLM(now)
	}
	work := w.work()
	w.end = now + w.timing.pass(&work)
	w.pass.outside = w.timing.outside(&work)
	if w.observe != nil {
		w.recordPass(now)
	}
	if w.sglang != nil {
		w.emitSGLang()
	} else {
		w.emit()
	}
	w.signals = append(w.signals, w.refused...)
	w.watch()
}

// work returns what the pass that was scheduled computes and takes time for.
func (w *Worker) work() (work Work) {
	if w.rules.role != Decode {
		p := &w.pass
		work = Work{New: p.chunk, Prefix: p.prefix, Attended: p.attended, charged: charge(p.prefills, p.chunk, p.prefix)}
	}
	if w.rules.role != Prefill {
		work.Batch, work.length = w.emitters()
		work.KV = w.kvTokens(work.length)
	}
	return work
}

// playVLLM schedules one pass of vLLM: those that run, then those that wait.
func (w *Worker) playVLLM(now int64) {
	for i := 0; i < len(w.running) && w.pass.budget > 0; i++ {
		r := w.running[i]
		if w.advance(r, 0) {
			continue
		}
		if r.Status != Preempted {
			break
		}
		i-- // the next one has its place
	}
	w.admit(now)
}

// watch names a request as stuck after so many passes without progress that none can be expected.
func (w *Worker) watch() {
	if w.idle++; w.pass.progress {
		w.idle = 0
	}
	w.blocked = (w.rules.role != Aggregated || len(w.loads) > 0) && (len(w.running) == 0 || w.sglang != nil && w.pass.prefills == 0) && !w.pass.progress && !w.pass.preempted
	if w.idle > w.maxIdlePasses() && w.stuck == nil {
		w.stuck = append(w.Batch(), w.Queued()...)[0]
	}
}

// emitters returns how many requests take part in the decode step of the pass, and the sum of their known lengths.
func (w *Worker) emitters() (requests, length int) {
	list := w.running
	if w.sglang != nil {
		list = w.sglang.emitting
		if w.rules.atPrefill && w.pass.prefills > 0 {
			return 0, 0
		}
	}
	for _, r := range list {
		if n := r.length(); r.computed >= n && !(w.rules.firstAtPrefill && r.Tokens == 0 && w.prefills(r)) {
			requests++
			length += n
		}
	}
	return requests, length
}

// prefills reports whether the pass computes a part of the prompt of a request.
func (w *Worker) prefills(r *Request) bool { return r.used.pass == w.pass.number && r.used.chunk > 0 }

// kvTokens returns how many tokens a decode step reads of requests with length tokens in all.
func (w *Worker) kvTokens(length int) int {
	if w.rules.uniqueKV {
		return w.used.active * w.rules.blockSize
	}
	return length
}

// emit gives every running request whose tokens are all computed its next token, at the end of the pass.
func (w *Worker) emit() {
	for i := 0; i < len(w.running); i++ {
		r := w.running[i]
		if r.computed < r.length() {
			continue
		}
		if w.rules.blockAtEmission && r.length() == r.leases.blocks*w.rules.blockSize && !w.extend(r) {
			i-- // r has lost its place
			continue
		}
		for i == len(w.running) || w.running[i] != r { // earlier ones were preempted
			i--
		}
		w.token(r)
		if r.Tokens == r.limit {
			w.complete(i)
			i--
		}
	}
}

// token counts a token of a request at the end of the pass.
func (w *Worker) token(r *Request) {
	switch r.Tokens {
	case 0:
		r.First = w.end
		if r.limit > 1 {
			w.signals = append(w.signals, r)
		}
	case 1:
		r.Second = w.end
	}
	if r.Tokens > 0 {
		w.gaps.Add(w.end-r.Last, 1)
	}
	w.pass.progress = true
	r.Last = w.end
	r.Tokens++
	w.counts.Output++
}

// complete ends the running request i, which has emitted its last token.
func (w *Worker) complete(i int) {
	r := w.running[i]
	w.running = append(w.running[:i], w.running[i+1:]...)
	if w.rules.role != Prefill {
		w.drop(r, false)
	}
	w.retire(r, Done)
	w.signals = append(w.signals, r)
}

// retire ends a request with a status.
func (w *Worker) retire(r *Request, s Status) {
	w.pass.progress, w.tried = true, false
	r.Status = s
	r.private = nil
	if r.leases.blocks == 0 {
		w.recycle(r)
	}
}

// recycle keeps the list of a request without leases for another.
func (w *Worker) recycle(r *Request) {
	if r.leases.list != nil {
		w.lists = append(w.lists, r.leases.list)
		r.leases = leases{}
	}
}

// admit takes waiting requests into the batch, the head first.
func (w *Worker) admit(now int64) {
	for !w.pass.preempted && len(w.running) < w.rules.maxSeqs {
		i, r := w.candidate()
		if r == nil {
			return
		}
		cached, own := 0, handed(r)
		if !own {
			cached = w.findHits(r)
			if w.rules.gate && !w.fits(r) {
				w.hits.reset()
				return
			}
			if w.load(r, now) {
				continue
			}
		}
		w.waiting.remove(i)
		before := w.pass.budget
		if !w.advance(r, cached) {
			if !own {
				w.dropHits(r)
			}
			w.waiting.pushFront(r)
			return
		}
		w.running = append(w.running, r)
		if own && w.landed > 0 {
			w.landed--
			cached = (r.held + r.loading) * w.rules.blockSize
		}
		w.admitted(r, now, cached)
		if w.pass.budget == before && w.pass.budget == 0 {
			return
		}
	}
}

// candidate returns the request that enters next, and its place among those that wait: the first; while others wait for blocks to be handed
// over to, or some that were loaded, the first that has its own. r is nil where none can.
func (w *Worker) candidate() (i int, r *Request) {
	if w.expected.len()+w.landed == 0 {
		return 0, w.head()
	}
	if i = slices.IndexFunc(w.waiting.all(), handed); i < 0 {
		return 0, nil
	}
	return i, w.waiting.all()[i]
}

// head returns the first request that waits and that the engine can hold. It ends those before it; nil: none waits, or it is stuck.
func (w *Worker) head() *Request {
	for w.waiting.len() > 0 {
		r := w.waiting.first()
		if !w.impossible(r) {
			return r
		}
		if w.rules.deadEnd {
			w.stuck = r
			return nil
		}
		w.refuse(w.waiting.pop())
	}
	return nil
}

// admitted notes that a request has entered the batch at an instant, with so many of its prompt tokens cached.
func (w *Worker) admitted(r *Request, now int64, cached int) {
	if r.Admissions == 0 {
		r.Admitted, r.Reused = now, cached
	}
	r.Admissions++
	r.ReusedMax = max(r.ReusedMax, cached)
	r.Status = Running
}

// impossible reports whether the pool can never hold the known blocks of a request, or its prompt is too long for the model.
func (w *Worker) impossible(r *Request) bool {
	return w.known(r) > w.rules.blocks || w.rules.maxLength > 0 && r.Prompt >= w.rules.maxLength
}

// known returns how many blocks an admission must be able to hold.
func (w *Worker) known(r *Request) int {
	if w.rules.noEvict {
		return blocksOf(r.Prompt+r.limit, w.rules.blockSize)
	}
	return blocksOf(r.length(), w.rules.blockSize)
}

// refuse ends a request that the pool can never hold: rejected, or exhausted if it has emitted tokens.
func (w *Worker) refuse(r *Request) {
	w.retire(r, Rejected)
	if r.Tokens > 0 {
		r.Status = KVExhausted
	}
	w.refused = append(w.refused, r)
}

// fits reports whether a waiting request, whose hits were found, fits beside the running ones.
func (w *Worker) fits(r *Request) bool {
	need := w.known(r)
	room := w.rules.blocks - w.used.active
	if w.rules.noEvict {
		for _, other := range w.running {
			room -= w.known(other) - other.leases.blocks
		}
	}
	return need <= room || need-w.pool.leased(&w.hits) <= room
}

// advance computes as many tokens of a request in this pass as budget and pool allow: doc/spec/simulate.md 5.3. Its first cached tokens are
// in blocks that were found. It returns false when the request must wait, or was preempted itself.
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

// schedule counts want tokens of a request behind its first before ones as computed, and makes the blocks visible that they fill.
func (w *Worker) schedule(r *Request, before, want int) {
	after := before + want
	w.count(r, before, want, max(min(r.Prompt, after)-before, 0))
	if w.rules.caching && !w.rules.visibleAllocated {
		size := w.rules.blockSize
		w.publish(r, before/size, min(after/size, r.shared))
		w.pool.own(&r.leases, max(before/size, r.shared), w.full(r))
	}
}

// count counts want tokens of a request behind its first before ones as computed, a chunk of them as of its prompt.
func (w *Worker) count(r *Request, before, want, chunk int) {
	after := before + want
	r.used = taken{pass: w.pass.number, tokens: want, reached: r.reached, recomputed: r.Recomputed}
	if chunk > 0 {
		r.used.chunk, r.used.prefix = chunk, before
		w.pass.prefills++
		w.pass.chunk += chunk
		w.pass.prefix += before
		w.pass.attended += attended(chunk, before)
	}
	w.pass.budget -= want
	if before < r.reached {
		r.Recomputed += min(after, r.reached) - before
		if chunk > 0 {
			r.used.again = max(after-r.Prompt, 0)
			w.pass.again += r.used.again
		}
	}
	r.reached = max(r.reached, after)
	if after > r.farthest {
		r.farthest, w.pass.progress = after, true
	}
	r.computed = after
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

// reserve leases the blocks of the first before+want tokens of a request. It preempts requests where the pool has none left, and returns
// how many of the want tokens may be computed; false when the request must wait, or was preempted itself.
func (w *Worker) reserve(r *Request, before, want int) (int, bool) {
	w.newList(r)
	target := blocksOf(before+want, w.rules.blockSize)
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

// newList gives a request that has none a list of leases, of one that has ended.
func (w *Worker) newList(r *Request) {
	if n := len(w.lists); n > 0 && r.leases.list == nil {
		r.leases.list, w.lists = w.lists[n-1], w.lists[:n-1]
	}
}

// has reports whether the pool has room for so many new blocks while the blocks that the request found in the cache stay there.
func (w *Worker) has(blocks int) bool {
	room := w.rules.blocks - w.used.active - blocks
	return room >= w.hits.blocks || room >= w.hits.blocks-w.pool.leased(&w.hits)
}

// reservePartly is reserve block by block, for a target of so many blocks. It keeps what it got when no request is left to preempt.
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

// duplicate leases a block of the cache that equals the next block of a request, in an engine that merges equal content. It reports false
// where there is none.
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
		w.pass.again -= r.used.again
		r.reached, r.Recomputed = r.used.reached, r.used.recomputed
		if r.used.chunk > 0 {
			w.pass.prefills--
			w.pass.chunk -= r.used.chunk
			w.pass.prefix -= r.used.prefix
			w.pass.attended -= attended(r.used.chunk, r.used.prefix)
		}
	}
	w.drop(r, true)
	w.preempted(r)
	w.waiting.pushFront(r)
	return r
}

// preempted notes that a request has lost its blocks and its place in the batch.
func (w *Worker) preempted(r *Request) {
	r.computed = 0
	r.Status = Preempted
	r.Preemptions++
	w.counts.Preemptions++
	w.pass.preempted, w.tried = true, false
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
	if w.sglang != nil {
		w.sglang.tree.finish(r, r.branch.tokens/w.rules.blockSize, w.rules.caching)
		return
	}
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

// Pass is what one pass scheduled and left waiting: doc/spec/simulate.md 10.
type Pass struct {
	Start, End    int64
	Charged       int   // prompt tokens that its prefill part was charged for
	Attended      int   // pairs of a prompt token computed and a token that it sees
	Prefill       Group // requests with prompt tokens in this pass
	Decode        Group // requests of its decode step
	QueuedPrefill Group // requests that wait for their first pass
	QueuedDecode  Group // requests that wait after a preemption
}

// Group is some requests of a pass.
type Group struct {
	Requests int
	Tokens   int     // prompt tokens computed; tokens read by the decode step; prompt lengths; known lengths
	Prefix   int     // of Prefill: prompt tokens that were known before
	Variance float64 // of the population: prompt lengths of prefills, known lengths of decodes
}

// recordPass fills the record of the pass that was evaluated, before its tokens are emitted.
func (w *Worker) recordPass(now int64) {
	w.record = Pass{Start: now, End: w.end, Charged: charge(w.pass.prefills, w.pass.chunk, w.pass.prefix), Attended: w.pass.attended}
	w.record.Prefill = w.group(w.running, func(r *Request) (int, bool) {
		return r.Prompt, w.prefills(r)
	})
	w.record.Prefill.Tokens, w.record.Prefill.Prefix = w.pass.chunk, w.pass.prefix
	w.record.Decode = w.group(w.running, func(r *Request) (int, bool) {
		if w.rules.atPrefill { // a request that computes no part of its prompt
			return r.length(), r.used.pass == w.pass.number && r.used.chunk == 0
		}
		return r.length(), r.computed >= r.length()
	})
	w.record.Decode.Tokens = w.kvTokens(w.record.Decode.Tokens)
	w.recordQueue()
}

// recordQueue fills the record with the requests that wait, for their first pass or after a preemption.
func (w *Worker) recordQueue() {
	waiting := w.Queued()
	if w.rules.role == Decode {
		all := slices.Concat(waiting, w.expected.all(), w.reserved.all())
		w.record.QueuedPrefill = Group{}
		w.record.QueuedDecode = w.group(all, func(r *Request) (int, bool) { return r.Prompt, true })
		return
	}
	w.record.QueuedPrefill = w.group(waiting, func(r *Request) (int, bool) { return r.Prompt, r.Status == Waiting })
	w.record.QueuedDecode = w.group(waiting, func(r *Request) (int, bool) { return r.length(), r.Status == Preempted })
}

// group counts the requests that belong to a group, and the lengths that they have in it.
func (w *Worker) group(list []*Request, member func(*Request) (int, bool)) (g Group) {
	mean, squares, first := 0.0, 0.0, 0 // Welford's, of the differences from the first: they stay while all lengths grow together
	for _, r := range list {
		length, ok := member(r)
		if !ok {
			continue
		}
		if g.Requests++; g.Requests == 1 {
			first = length
		}
		g.Tokens += length
		x := float64(length - first)
		d := x - mean
		mean += d / float64(g.Requests)
		squares += float64(d * (x - mean))
	}
	if g.Requests > 0 {
		g.Variance = squares / float64(g.Requests)
	}
	return g
}
