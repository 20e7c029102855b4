package engine

// passState is what a pass has left, and what it has scheduled so far.
type passState struct {
	number                  int64
	budget                  int
	prefills, chunk, prefix int // requests with prompt tokens in this pass; sums of these tokens, and of those known before
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
	if w.rules.sglang {
		w.playSGLang(now)
	} else {
		w.playVLLM(now)
	}
	charged := charge(w.pass.prefills, w.pass.chunk, w.pass.prefix)
	duration := int64(0)
	if w.rules.role != Decode {
		duration = w.timing.Prefill(charged)
	}
	requests, length := w.emitters()
	if w.rules.role != Prefill {
		duration += w.timing.Decode(w.kvTokens(length), length, requests)
	}
	w.end = now + duration
	if w.observe != nil {
		w.recordPass(now, charged, requests, length)
	}
	w.emit()
	w.watch()
}

// playVLLM schedules one pass of vLLM: those that run, then those that wait.
func (w *Worker) playVLLM(now int64) {
	for i := 0; i < len(w.running) && w.pass.budget > 0; i++ {
		if r := w.running[i]; !w.advance(r, 0) && r.Status != Preempted {
			break
		}
	}
	w.admit(now)
}

// watch notices that nothing can end any more.
func (w *Worker) watch() {
	if w.idle++; w.pass.progress {
		w.idle = 0
	}
	if w.idle > w.maxIdlePasses() && w.stuck == nil {
		w.stuck = append(w.Batch(), w.Queued()...)[0]
	}
}

// emitters returns how many requests take part in the decode step of the pass, and the sum of their known lengths.
func (w *Worker) emitters() (requests, length int) {
	for _, r := range w.running {
		if n := r.length(); r.computed >= n && !(w.rules.firstAtPrefill && r.Tokens == 0) {
			requests++
			length += n
		}
	}
	return requests, length
}

// kvTokens returns how many tokens a decode step reads.
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
		w.firsts = append(w.firsts, r)
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
	w.drop(r, false)
	w.retire(r, Done)
}

// retire hands a request back to the caller.
func (w *Worker) retire(r *Request, s Status) {
	w.pass.progress = true
	r.Status = s
	r.private = nil
	if r.leases.list != nil {
		w.lists = append(w.lists, r.leases.list)
		r.leases = leases{}
	}
	w.completed = append(w.completed, r)
}

// admit takes waiting requests into the batch, the head first.
func (w *Worker) admit(now int64) {
	for !w.pass.preempted && len(w.running) < w.rules.maxSeqs {
		r := w.head()
		if r == nil {
			return
		}
		cached := w.findHits(r)
		if w.rules.gate && !w.fits(r) {
			w.hits.reset()
			return
		}
		w.waiting.pop()
		before := w.pass.budget
		if !w.advance(r, cached) {
			w.dropHits(r)
			w.waiting.pushFront(r)
			return
		}
		w.running = append(w.running, r)
		w.admitted(r, now, cached)
		if w.pass.budget == before && w.pass.budget == 0 {
			return
		}
	}
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
	if w.rules.reserveOutput {
		return blocksOf(r.Prompt+r.limit, w.rules.blockSize)
	}
	return blocksOf(r.length(), w.rules.blockSize)
}

// refuse ends a request that the pool can never hold.
func (w *Worker) refuse(r *Request) {
	if r.Tokens > 0 {
		w.retire(r, KVExhausted)
		return
	}
	w.retire(r, Rejected)
}

// fits reports whether a waiting request, whose hits were found, fits beside the running ones.
func (w *Worker) fits(r *Request) bool {
	need := w.known(r)
	room := w.rules.blocks - w.used.active
	return need <= room || need-w.pool.leased(&w.hits) <= room
}
