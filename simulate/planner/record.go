package planner

import (
	"cmp"

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

// before orders records by their ends, then by pool and worker.
func (r *record) before(other *record) bool {
	if r.end != other.end {
		return r.end < other.end
	}
	return cmp.Or(cmp.Compare(r.pool, other.pool), cmp.Compare(r.worker, other.worker)) < 0
}

// absorb learns from the passes since the last tick, in the order of their ends: a fleet may tell of many passes of a worker at once.
func (p *Planner) absorb() {
	p.sortRecords()
	for k := range p.records {
		r := &p.records[k]
		p.models[r.pool].observe(r)
		p.states[r.pool][int(r.worker)] = EngineNow{Worker: int(r.worker), QueuedPrefill: r.queuedPrefill, KV: r.kv, QueuedKV: r.queued}
	}
	p.records = p.records[:0]
}

// sortRecords brings the records into order. They come in runs, those of a worker, which are merged two by two; of equal ones the first stays
// the first.
func (p *Planner) sortRecords() {
	for {
		first := p.run(0)
		if first == len(p.records) {
			return
		}
		p.merged = p.merged[:0]
		for begin := 0; begin < len(p.records); {
			middle := p.run(begin)
			end := p.run(middle)
			p.merge(p.records[begin:middle], p.records[middle:end])
			begin = end
		}
		p.records, p.merged = p.merged, p.records
	}
}

// run returns where the records end that are in order from begin on.
func (p *Planner) run(begin int) (end int) {
	for end = min(begin+1, len(p.records)); end < len(p.records) && !p.records[end].before(&p.records[end-1]); end++ {
	}
	return end
}

// merge appends two runs in order.
func (p *Planner) merge(a, b []record) {
	for len(a) > 0 && len(b) > 0 {
		if b[0].before(&a[0]) {
			p.merged, b = append(p.merged, b[0]), b[1:]
		} else {
			p.merged, a = append(p.merged, a[0]), a[1:]
		}
	}
	p.merged = append(append(p.merged, a...), b...)
}
