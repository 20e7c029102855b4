package planner

import (
	"cmp"
	"math"
	"slices"

	"github.com/agentx/agentx/cmd/internal/simulate/engine"
	"github.com/agentx/agentx/cmd/internal/simulate/preset"
)

// Tick is what a planner saw and decided at one instant. It has all that a page draws of it.
type Tick struct {
	At         int64       `json:"at_ns"`
	Now        int64       `json:"planner_ns"`         // the planner's own time: At, but under two settings of tick_time
	Load       bool        `json:"load"`               // it decided by load
	Throughput bool        `json:"throughput"`         // it decided by traffic
	Window     *Window     `json:"window,omitempty"`   // of a throughput tick
	Observed   *Observed   `json:"observed,omitempty"` // its averages
	Predicted  *Prediction `json:"predicted,omitempty"`
	GPUHours   float64     `json:"gpu_hours"` // since the beginning
	Pools      []PoolTick  `json:"pools"`

	LoadReason       Reason `json:"load_reason,omitempty"`
	ThroughputReason Reason `json:"throughput_reason,omitempty"`
}

// Observed are the averages of a window; nil where nothing was counted.
type Observed struct {
	Seconds float64  `json:"duration_s"`
	ISL     *float64 `json:"avg_isl"`
	OSL     *float64 `json:"avg_osl"`
	TTFTMS  *float64 `json:"avg_ttft_ms"`
	ITLMS   *float64 `json:"avg_itl_ms"`
	HitRate *float64 `json:"avg_kv_hit_rate"`
}

// PoolTick is a pool at a tick.
type PoolTick struct {
	Name     string `json:"pool"`
	Active   int    `json:"active"`
	Starting int    `json:"starting"`
	Draining int    `json:"draining"`

	Floor       int  `json:"floor"`       // of throughput
	Recommended int  `json:"recommended"` // before the budget
	Target      int  `json:"target"`      // Active and Starting where nothing was decided
	Decided     bool `json:"decided"`

	TTFTMS   *float64    `json:"estimated_ttft_ms,omitempty"` // of the worst engine
	ITLMS    *float64    `json:"estimated_itl_ms,omitempty"`
	Capacity *Capacity   `json:"capacity,omitempty"`
	Line     *Line       `json:"model,omitempty"`
	Engines  []EngineNow `json:"engines,omitempty"` // those of which a pass is known, by rising id

	LoadReason       Reason `json:"load_reason,omitempty"`
	ThroughputReason Reason `json:"throughput_reason,omitempty"`
}

// EngineNow is the state of an engine in its last pass.
type EngineNow struct {
	Worker        int `json:"worker"`
	QueuedPrefill int `json:"queued_prefill_tokens"`
	KV            int `json:"kv_tokens"` // scheduled
	QueuedKV      int `json:"queued_kv_tokens"`

	since int64  // when the pass ended, or when it was last taken for idle
	last  record // the pass
}

// Workers are the workers of a pool.
type Workers struct {
	Active   []int   // ids, rising
	Ready    []int64 // when each became active; nil: not known, and taken for the tick before
	Starting int
	Draining int
}

// Transitions counts the changes of a pool's active workers between neighbouring ticks, over all pools. A decision that changes nothing,
// or nothing yet, is none.
func Transitions(ticks []*Tick) (n int) {
	for i := 1; i < len(ticks); i++ {
		for k := range ticks[i].Pools {
			if ticks[i].Pools[k].Active != ticks[i-1].Pools[k].Active {
				n++
			}
		}
	}
	return n
}

// targets says what a tick makes of its pools; want is nil where it changes nothing.
func (t *Tick) targets(want []int) []int {
	list := make([]int, len(t.Pools))
	for i := range t.Pools {
		one := &t.Pools[i]
		one.Target = one.Active + one.Starting
		if want != nil {
			one.Target, one.Decided = want[i], true
		}
		list[i] = one.Target
	}
	return list
}

// Reason says why a decision is what it is: doc/spec/simulate.md 11.9. "" where nothing was decided.
type Reason string

// The reasons of load decisions. Disabled, no_change and those of the budget are of both kinds.
const (
	scaleUp             Reason = "scale_up"
	scaleDown           Reason = "scale_down"
	scaleDownCapped     Reason = "scale_down_capped_by_throughput"
	scaleDownRefused    Reason = "scale_down_refused_consolidation"
	noChange            Reason = "no_change"
	disabled            Reason = "disabled"
	noPassData          Reason = "no_fpm_data"
	scalingInProgress   Reason = "scaling_in_progress"
	workerCountMismatch Reason = "worker_count_mismatch"
	insufficientData    Reason = "insufficient_data"
	budgetHold          Reason = "gpu_budget_guard_hold"
	budgetReconcile     Reason = "gpu_budget_reconcile"
)

// The reasons of throughput decisions.
const (
	scale           Reason = "scale"
	setLowerBound   Reason = "set_lower_bound"
	noTrafficData   Reason = "no_traffic_data"
	predictFailed   Reason = "predict_failed"
	modelNotReady   Reason = "model_not_ready"
	partnerNotReady Reason = "partner_not_ready"
)

// LoadReasons and ThroughputReasons are all reasons of their kind.
var (
	LoadReasons = []Reason{
		scaleUp, scaleDown, scaleDownCapped, scaleDownRefused, noChange, disabled, noPassData, scalingInProgress,
		workerCountMismatch, insufficientData, budgetHold, budgetReconcile,
	}
	ThroughputReasons = []Reason{scale, setLowerBound, noChange, disabled, noTrafficData, predictFailed, modelNotReady, partnerNotReady, budgetHold, budgetReconcile}
)

// moves are the reasons that an aggregate prefers, the first before the others.
var moves = []Reason{scaleUp, scaleDownCapped, scaleDown}

// aggregate returns the reason of all pools: the first move that one has, else one that tells more than no_change.
func aggregate(pools []Reason) Reason {
	for _, move := range moves {
		if slices.Contains(pools, move) {
			return move
		}
	}
	for _, r := range pools {
		if r != noChange {
			return r
		}
	}
	return noChange
}

// clock says when a planner ticks: doc/spec/simulate.md 11.2. Times are nanoseconds.
type clock struct {
	rule     preset.Choice
	interval [2]int64 // of load, of throughput; 0: never
	next     [2]int64
	seen     int64 // planner time of the last tick
	beat     int64 // of one clock for both; 0: each has its own
}

// merge is by how many nanoseconds the other deadline may be later, and its tick still be the same.
const merge = 500_000_000

const (
	loadTick = iota
	throughputTick
)

const never = math.MaxInt64

// newClock returns the clock of a configuration, whose first ticks are one interval after 0.
func newClock(c Config, rule preset.Choice) *clock {
	k := &clock{rule: rule, next: [2]int64{never, never}}
	if c.LoadScaling {
		k.interval[loadTick] = int64(math.RoundToEven(c.LoadInterval * 1e9))
	}
	if c.ThroughputScaling {
		k.interval[throughputTick] = int64(math.RoundToEven(c.ThroughputInterval * 1e9))
	}
	for i, d := range k.interval {
		if d > 0 {
			k.next[i] = d
		}
	}
	return k
}

// newBeat returns the clock of a pipeline: one cadence, the longest that both intervals are multiples of.
func newBeat(c Config) *clock {
	c.LoadScaling = true // passes are learned from at its ticks anyway
	k := newClock(c, preset.TickNominal)
	a, b := k.interval[loadTick], k.interval[throughputTick]
	for b > 0 {
		a, b = b, a%b
	}
	k.beat = a
	return k
}

// at returns when the next tick is.
func (k *clock) at() int64 {
	if k.beat > 0 {
		return k.seen + k.beat
	}
	return min(k.next[loadTick], k.next[throughputTick])
}

// due reports whether the next tick decides by load, and whether by throughput.
func (k *clock) due() (load, throughput bool) {
	at := k.at()
	within := func(i int) bool { return k.next[i]-at <= merge }
	if k.beat > 0 {
		within = func(i int) bool { return k.interval[i] > 0 && at%k.interval[i] == 0 }
	}
	return within(loadTick), within(throughputTick)
}

// tick moves the deadlines that are due, and returns the planner's time. event is when something last happened before it.
func (k *clock) tick(event int64) (now int64) {
	load, throughput := k.due()
	at := k.at()
	now = at
	if k.rule != preset.TickNominal && event > k.seen {
		now = min(event, at)
	}
	if k.seen = now; k.beat > 0 {
		return now
	}
	for i, is := range []bool{load, throughput} {
		switch {
		case k.rule == preset.TickNominal && is:
			k.next[i] += k.interval[i]
		case k.rule == preset.TickLastEvent && is:
			k.next[i] = now + k.interval[i]
		case k.rule == preset.TickLastEventShared && is:
			k.next[i] += k.interval[i] - (at - now)
		case k.rule == preset.TickLastEventShared && k.next[i] != never:
			k.next[i] = max(k.next[i]-(at-now), at+1)
		}
	}
	return now
}

// Window is the traffic between two throughput ticks: doc/spec/simulate.md 10. Each average has a denominator of its own.
type Window struct {
	offered bool  // what arrives is counted; else what completes
	ended   bool  // lengths are those of what completes, whatever is counted
	Begin   int64 `json:"begin_ns"`
	End     int64 `json:"end_ns"`

	Requests int   `json:"num_req"`
	Prompt   int64 `json:"prompt_tokens"`
	Output   int64 `json:"output_tokens"`

	Shapes int `json:"shape_count,omitempty"` // with lengths, where other requests are counted

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
	switch {
	case w.offered && w.ended:
		w.Requests++
	case w.offered:
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
	switch {
	case w.ended:
		w.Shapes, w.Prompt, w.Output = w.Shapes+1, w.Prompt+int64(c.Prompt), w.Output+int64(c.Tokens)
	case !w.offered:
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

// count adds a request with the lengths of its prompt and output.
func (w *Window) count(prompt, output int) {
	w.Requests++
	w.Prompt += int64(prompt)
	w.Output += int64(output)
}

// Seconds returns how long the window is.
func (w *Window) Seconds() float64 { return float64(w.End-w.Begin) / 1e9 }

// isl returns the mean prompt length; nil without a request.
func (w *Window) isl() *float64 { return mean(float64(w.Prompt), w.shapes()) }

// osl returns the mean output length; nil without a request.
func (w *Window) osl() *float64 { return mean(float64(w.Output), w.shapes()) }

// shapes returns how many requests have lengths.
func (w *Window) shapes() int {
	if w.ended {
		return w.Shapes
	}
	return w.Requests
}

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
	end, wall                     int64
	worker, requests, prompts     int32
	pool                          int32
	queuedPrompts, queuedRequests int32
	prefill, prefix               int
	kv, queuedPrefill, queued     int
}

// recordOf returns what a planner keeps of a pass of a worker.
func recordOf(pool, worker int, p *engine.Pass) record {
	return record{
		end: p.End, wall: p.End - p.Start, pool: int32(pool), worker: int32(worker),
		requests: int32(p.Decode.Requests), prompts: int32(p.Prefill.Requests), prefill: p.Prefill.Tokens, kv: p.Decode.Tokens,
		queuedPrefill: p.QueuedPrefill.Tokens, queued: p.QueuedDecode.Tokens, prefix: p.Prefill.Prefix,
		queuedPrompts: int32(p.QueuedPrefill.Requests), queuedRequests: int32(p.QueuedDecode.Requests),
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
		if !p.pipeline {
			p.models[r.pool].observe(r)
		}
		p.states[r.pool][int(r.worker)] = EngineNow{Worker: int(r.worker), QueuedPrefill: r.queuedPrefill, KV: r.kv, QueuedKV: r.queued, since: r.end, last: *r}
	}
	p.records = p.records[:0]
}
