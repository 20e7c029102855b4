package fleet

import (
	"container/heap"

	"github.com/agentx/agentx/simulate/engine"
)

// handoff is a request on its way from the prefill pool to the decode pool: doc/spec/simulate.md 7.3.
type handoff struct {
	at      int64
	request *Request
	worker  *worker // of the decode pool, where the way depends on it
}

// handoffs are in the order of their ends, and at one instant of the releases of their requests.
type handoffs []handoff

func (h handoffs) Len() int      { return len(h) }
func (h handoffs) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *handoffs) Push(x any)   { *h = append(*h, x.(handoff)) }

func (h handoffs) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].request.released < h[j].request.released
}

func (h *handoffs) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// next returns when the next hand-off ends; never without one.
func (h handoffs) next() int64 {
	if len(h) == 0 {
		return never
	}
	return h[0].at
}

// handOff sends a request to the decode pool, whose copy the prefill pool has computed.
func (r *run) handOff(one *Request) {
	prefill := r.pools[0].Engine
	if prefill.KVTransferTiming == engine.DestinationMissing {
		heap.Push(&r.handoffs, handoff{r.now, one, nil}) // routed at once, and then charged
		return
	}
	heap.Push(&r.handoffs, handoff{r.now + prefill.HandOff(one.Prompt), one, nil})
}

// endHandOffs hands requests to the decode pool.
func (r *run) endHandOffs() (changed bool) {
	if len(r.pools) == 1 {
		return false
	}
	decode := r.pools[1]
	decode.settleEvents(r.now)
	changed = r.dispatchKept(decode)
	for r.handoffs.next() <= r.now {
		h := heap.Pop(&r.handoffs).(handoff)
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
			heap.Push(&r.handoffs, handoff{r.now + way, one, w})
			return
		}
	}
	w.Submit(r.now, &one.Request, r.begun)
}
