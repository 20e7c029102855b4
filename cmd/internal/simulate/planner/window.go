package planner

import (
	"cmp"
	"slices"

	"github.com/agentx/agentx/cmd/internal/simulate/engine"
	"github.com/agentx/agentx/cmd/internal/simulate/preset"
)

// Window is the traffic between two throughput ticks: doc/spec/simulate.md 10. Each average has a denominator of its own.
type Window struct {
	offered bool  // what arrives is counted; else what completes
	Begin   int64 `json:"begin_ns"`
	End     int64 `json:"end_ns"`

	Requests int   `json:"num_req"`
	Prompt   int64 `json:"prompt_tokens"`
	Output   int64 `json:"output_tokens"`

	TTFTs int   `json:"ttft_count"`
	TTFT  int64 `json:"ttft_sum_ns"`

	ITLs int     `json:"itl_count"`
	ITL  float64 `json:"itl_sum_ns"` // of the means of requests

	Hits int     `json:"hit_rate_count"`
	Hit  float64 `json:"hit_rate_sum"`
}

// newWindow returns an empty window that begins at an instant.
func newWindow(begin int64, count preset.Choice) Window {
	return Window{Begin: begin, End: begin, offered: count == preset.CountOffered}
}

// Completion is a request that has ended with output. First is 0 for one without a first token of its own.
type Completion struct {
	Arrival, First, Last int64 // nanoseconds
	HasFirst             bool
	Prompt, Tokens       int
}

// arrived counts a request that arrives.
func (w *Window) arrived(prompt, output int) {
	if w.offered {
		w.count(prompt, output)
	}
}

// routed counts what a KV router knew of a request: how many blocks of its prompt the worker had.
func (w *Window) routed(overlap, blocks int) {
	if blocks > 0 {
		w.Hits++
		w.Hit += float64(overlap) / float64(blocks)
	}
}

// Completed counts a request that ends.
func (w *Window) Completed(c Completion) {
	if !w.offered {
		w.count(c.Prompt, c.Tokens)
	}
	if c.HasFirst {
		w.TTFTs++
		w.TTFT += c.First - c.Arrival
	}
	if c.HasFirst && c.Tokens > 1 {
		w.ITLs++
		w.ITL += float64(c.Last-c.First) / float64(c.Tokens-1)
	}
}

func (w *Window) count(prompt, output int) {
	w.Requests++
	w.Prompt += int64(prompt)
	w.Output += int64(output)
}

// Seconds returns how long the window is.
func (w *Window) Seconds() float64 { return float64(w.End-w.Begin) / 1e9 }

// isl returns the mean prompt length; nil without a request.
func (w *Window) isl() *float64 { return mean(float64(w.Prompt), w.Requests) }

// osl returns the mean output length; nil without a request.
func (w *Window) osl() *float64 { return mean(float64(w.Output), w.Requests) }

// ttftMS returns the mean time to the first token in milliseconds; nil where no request has one. A mean of 0 is one.
func (w *Window) ttftMS() *float64 { return mean(float64(w.TTFT)/1e6, w.TTFTs) }

// itlMS returns the mean of the mean gaps of requests in milliseconds; nil where no request has one.
func (w *Window) itlMS() *float64 { return mean(w.ITL/1e6, w.ITLs) }

// hitRate returns the mean share of a prompt that its worker had; nil without a KV router.
func (w *Window) hitRate() *float64 { return mean(w.Hit, w.Hits) }

// mean returns an average, nil where nothing was counted.
func mean(sum float64, count int) *float64 {
	if count == 0 {
		return nil
	}
	v := sum / float64(count)
	return &v
}

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
