package planner

import (
	"cmp"
	"slices"

	"github.com/agentx/agentx/cmd/internal/simulate/engine"
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

// order orders records by their ends, then by pool and worker.
func (r record) order(other record) int {
	return cmp.Or(cmp.Compare(r.end, other.end), cmp.Compare(r.pool, other.pool), cmp.Compare(r.worker, other.worker))
}

// absorb learns from the passes since the last tick, in the order of their ends: a fleet may tell of many passes of a worker at once.
func (p *Planner) absorb() {
	slices.SortStableFunc(p.records, record.order)
	for k := range p.records {
		r := &p.records[k]
		p.models[r.pool].observe(r)
		p.states[r.pool][int(r.worker)] = EngineNow{Worker: int(r.worker), QueuedPrefill: r.queuedPrefill, KV: r.kv, QueuedKV: r.queued}
	}
	p.records = p.records[:0]
}
