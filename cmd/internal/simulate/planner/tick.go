package planner

import (
	"math"
	"slices"

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

// Reason says why a decision is what it is: doc/spec/simulate.md 11.9. "" where nothing was decided.
type Reason string

// The reasons of load decisions. Disabled is one of both kinds.
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
		workerCountMismatch, insufficientData,
	}
	ThroughputReasons = []Reason{scale, setLowerBound, disabled, noTrafficData, predictFailed, modelNotReady, partnerNotReady}
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
}

// merge is how much later the other deadline may be to be taken along.
const merge = 500_000_000

const (
	loadTick = iota
	throughputTick
)

const never = math.MaxInt64

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

// at returns when the next tick is.
func (k *clock) at() int64 { return min(k.next[loadTick], k.next[throughputTick]) }

// due returns what the next tick decides.
func (k *clock) due() (load, throughput bool) {
	at := k.at()
	within := func(i int) bool { return k.next[i]-at <= merge }
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
	k.seen = now
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
