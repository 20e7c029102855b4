package fleet

import (
	"github.com/agentx/agentx/cmd/internal/simulate/engine"
	"github.com/agentx/agentx/internal/heap"
)

// handoff is a request on its way from the prefill pool to the decode pool: doc/spec/simulate.md 7.3.
type handoff struct {
	at      int64
	request *Request
	worker  *worker // of the decode pool, where the way depends on it
}

// before is the order of hand-offs: of their ends, and at one instant of the releases of their requests.
func (h handoff) before(other handoff) bool {
	return h.at < other.at || h.at == other.at && h.request.released < other.request.released
}

// nextHandOff returns when the next hand-off ends; never without one.
func (r *run) nextHandOff() int64 {
	if len(r.handoffs) == 0 {
		return never
	}
	return r.handoffs[0].at
}

// handOff sends a request to the decode pool, whose copy the prefill pool has computed.
func (r *run) handOff(one *Request) {
	prefill := r.pools[0].Engine
	if prefill.KVTransferTiming == engine.DestinationMissing {
		heap.Push(&r.handoffs, handoff{r.now, one, nil}, handoff.before) // routed at once, and then charged
		return
	}
	heap.Push(&r.handoffs, handoff{r.now + prefill.HandOff(one.Prompt), one, nil}, handoff.before)
}

// endHandOffs hands requests to the decode pool.
func (r *run) endHandOffs() (changed bool) {
	if len(r.pools) == 1 {
		return false
	}
	decode := r.pools[1]
	decode.settleEvents(r.now)
	changed = r.dispatchKept(decode)
	for r.nextHandOff() <= r.now {
		h := heap.Pop(&r.handoffs, handoff.before)
		changed = true
		if h.worker != nil {
			h.worker.expected--
			h.worker.Submit(r.now, &h.request.Request, r.begun)
			continue
		}
		r.route(decode, h.request)
	}
	return changed
}

// arrive hands a routed request to its worker, or first the blocks that its worker lacks.
func (r *run) arrive(p *pool, one *Request, id int) {
	one.Worker = id
	w := p.worker(id)
	if config := r.pools[0].Engine; p.index == 1 && config.KVTransferTiming == engine.DestinationMissing {
		w.Settle(r.now)
		if way := config.HandOff(one.Prompt - w.Cached(&one.Request)); way > 0 {
			w.expected++
			heap.Push(&r.handoffs, handoff{r.now + way, one, w}, handoff.before)
			return
		}
	}
	w.Submit(r.now, &one.Request, r.begun)
}
