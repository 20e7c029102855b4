package fleet

import (
	"github.com/agentx/agentx/cmd/internal/simulate/engine"
	"github.com/agentx/agentx/internal/heap"
)

// step is what happens next to a request between the prefill pool and the decode pool: doc/spec/simulate.md 7.3.
type step struct {
	to      stage
	request *Request
}

// stage is how far a hand-off comes by a step.
type stage uint8

const (
	toReserve  stage = iota // the router of the decode pool chooses a worker, which looks for blocks
	toPrefill               // SGLang: it has found them, and the prompt can be computed
	toSend                  // the prompt is computed, and has blocks in the decode pool
	toActivate              // the prompt has come
	toCancel                // the prefill pool refused the prompt, so that the decode pool needs no blocks
	toRelease               // the worker that has computed the prompt frees its blocks
)

// transfer is a prompt on its way, until an instant.
type transfer struct {
	at      int64
	request *Request
}

// before is the order of transfers: of their ends, and at one instant of the releases of their requests.
func (t transfer) before(other transfer) bool {
	return t.at < other.at || t.at == other.at && t.request.released < other.request.released
}

// nextTransfer returns when the next prompt arrives; never without one.
func (r *run) nextTransfer() int64 {
	if len(r.transfers) == 0 {
		return never
	}
	return r.transfers[0].at
}

// handOff takes the steps of hand-offs that are possible now, one after another.
func (r *run) handOff() (changed bool) {
	if len(r.pools) == 1 {
		return false
	}
	decode := r.pools[1]
	decode.settleEvents(r.now)
	changed = r.dispatchKept(decode)
	for r.nextTransfer() <= r.now {
		r.steps = append(r.steps, step{toActivate, heap.Pop(&r.transfers, transfer.before).request})
	}
	for k := 0; k < len(r.steps); k++ {
		r.take(r.steps[k])
		changed = true
	}
	r.steps = r.steps[:0]
	return changed
}

// take takes a step, or defers it to the end of the pass that its worker is in.
func (r *run) take(s step) {
	p, id := r.pools[1], s.request.Worker
	switch s.to {
	case toReserve:
		r.route(p, s.request)
		return
	case toPrefill:
		r.route(r.pools[0], s.request.Prefill)
		return
	case toSend:
		r.send(s.request)
		return
	case toRelease:
		p, id = r.pools[0], s.request.Prefill.Worker
	}
	w := p.worker(id)
	w.Interrupt(r.now, r.begun)
	if w.Busy() {
		w.deferred = append(w.deferred, s)
		return
	}
	if w.handing--; s.to == toRelease {
		w.Release(&s.request.Prefill.Request)
		p.router.Completed(r.now, s.request.Prefill)
		p.retire(r.now)
		return
	}
	if s.to == toCancel {
		w.Cancel(&s.request.Request)
		p.retire(r.now)
	} else {
		w.Activate(&s.request.Request)
		r.steps = append(r.steps, step{toRelease, s.request})
	}
	r.reserve(w)
	p.tell(w)
}

// expect gives a decode worker a request, for which it reserves blocks at once unless a pass is in flight.
func (r *run) expect(p *pool, w *worker, one *Request) {
	w.Interrupt(r.now, r.begun)
	if !w.Expect(&one.Request) {
		p.router.Completed(r.now, one)
		r.completed(one)
		if !r.reservesFirst() {
			r.steps = append(r.steps, step{toRelease, one})
		}
		return
	}
	w.handing++
	if !w.Busy() {
		r.reserve(w)
		p.tell(w)
	}
}

// reserve lets a worker look for blocks of the request that it expects first.
func (r *run) reserve(w *worker) {
	q, lacks := w.Reserve()
	if q == nil {
		return
	}
	one := r.open[q.ID]
	if one.lacks = lacks; r.reservesFirst() {
		r.steps = append(r.steps, step{toPrefill, one})
	} else {
		r.steps = append(r.steps, step{toSend, one})
	}
}

// reservesFirst reports whether the decode pool has blocks for a prompt before the prefill pool computes it, as SGLang does.
func (r *run) reservesFirst() bool {
	return len(r.pools) > 1 && r.pools[0].Engine.Type == engine.SGLang && r.pools[1].Engine.Type == engine.SGLang
}

// send sends a prompt on its way.
func (r *run) send(one *Request) {
	prefill, tokens := r.pools[0].Engine, one.Prompt
	if prefill.KVTransferTiming == engine.DestinationMissing {
		tokens = one.lacks
	}
	if way := prefill.HandOff(tokens); way > 0 {
		heap.Push(&r.transfers, transfer{r.now + way, one}, transfer.before)
		return
	}
	r.steps = append(r.steps, step{toActivate, one})
}
