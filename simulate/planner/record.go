package planner

import (
	"cmp"
	"slices"

	"github.com/agentx/agentx/simulate/engine"
)

// record is what a planner keeps of a pass until its tick: doc/spec/simulate.md 10.
type record struct {
	end, wall                          int64
	worker, requests, prompts          int32
	pool                               int32
	prefill, kv, queuedPrefill, queued int
}

func recordOf(pool, worker int, p *engine.Pass) record {
	return record{
		end: p.End, wall: p.End - p.Start, pool: int32(pool), worker: int32(worker),
		requests: int32(p.Decode.Requests), prompts: int32(p.Prefill.Requests), prefill: p.Prefill.Tokens, kv: p.Decode.Tokens,
		queuedPrefill: p.QueuedPrefill.Tokens, queued: p.QueuedDecode.Tokens,
	}
}

// absorb learns from the passes since the last tick, in the order of their ends: a fleet may tell of many passes of a worker at once.
func (p *Planner) absorb() {
	slices.SortStableFunc(p.records, func(a, b record) int {
		return cmp.Or(cmp.Compare(a.end, b.end), cmp.Compare(a.pool, b.pool), cmp.Compare(a.worker, b.worker))
	})
	for _, r := range p.records {
		p.models[r.pool].observe(r)
		p.states[r.pool][int(r.worker)] = EngineNow{Worker: int(r.worker), QueuedPrefill: r.queuedPrefill, KV: r.kv, QueuedKV: r.queued}
	}
	p.records = p.records[:0]
}
