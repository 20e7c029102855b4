package planner

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
}

// Workers are the workers of a pool.
type Workers struct {
	Active   []int // ids, rising
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
