package planner

import (
	"math"
	"sort"

	"github.com/agentx/agentx/cmd/internal/simulate/preset"
)

// Capacity is how many requests a second one engine serves: doc/spec/simulate.md 11.5.
type Capacity struct {
	RPS      float64 `json:"rps"`
	Batch    int     `json:"batch,omitempty"`     // requests of a step
	MaxBatch int     `json:"max_batch,omitempty"` // that the engine can hold, and feed
	Seconds  float64 `json:"step_s,omitempty"`
	Meets    bool    `json:"meets_sla"` // false: even one request misses
}

// chunksOf returns the passes of a prefill: full ones of mbt tokens, and the rest above 0, at most mbt.
func chunksOf(tokens, mbt float64) (full, rest float64) {
	if !(tokens > 0) {
		return 0, 0
	}
	full = math.Ceil(tokens/mbt) - 1
	return full, tokens - float64(full*mbt)
}

// prefillSeconds returns how long a prefill takes beside so many KV tokens. The line is never asked above the budget of a pass.
func prefillSeconds(l Line, tokens, mbt, kv float64) float64 {
	full, rest := chunksOf(tokens, mbt)
	if rest == 0 {
		return 0
	}
	return float64(full*l.predict(mbt, kv)) + l.predict(rest, kv)
}

func prefillCapacity(l Line, isl float64, e Engine, ttft float64) Capacity {
	s := prefillSeconds(l, isl, float64(e.MaxBatchedTokens), 0)
	if !(s > 0) {
		return Capacity{}
	}
	return Capacity{RPS: 1 / s, Seconds: s, Meets: s <= ttft}
}

// fallbackBatch is a batch of which neither engine nor passes say anything.
const fallbackBatch = 256

// heldBatch returns how many requests of a length a decode engine holds, at least 1.
func heldBatch(e Engine, seenKV int, context float64) int {
	kv, most := e.MaxKV, e.MaxSeqs
	if kv <= 0 {
		kv = seenKV
	}
	held := fallbackBatch
	if kv > 0 {
		held = int(float64(kv) / context)
	}
	if most > 0 {
		held = min(held, most)
	}
	return max(held, 1)
}

func decodeCapacity(l Line, isl, osl float64, e Engine, seenKV int, itl float64) Capacity {
	context := isl + osl/2
	c := Capacity{MaxBatch: heldBatch(e, seenKV, context)}
	step := func(n int) float64 { return l.predict(float64(n), float64(float64(n)*context)) }
	c.Batch, c.Meets = largest(c.MaxBatch, func(n int) bool { return step(n) <= itl })
	c.Seconds = step(c.Batch)
	c.RPS = float64(c.Batch) / float64(osl*c.Seconds)
	return c
}

// largest returns the largest of 1 to most that holds, of a condition that falls once; 1 and false where none does.
func largest(most int, holds func(n int) bool) (n int, ok bool) {
	n = sort.Search(most, func(i int) bool { return !holds(i + 1) })
	return max(n, 1), n > 0
}

// balanced reports whether an engine of x decoding requests computes prompts as fast as it finishes requests.
func balanced(rule preset.Choice, x int, isl, osl float64, mbt int) bool {
	if rule == preset.BalancePR8280 {
		return x < mbt && isl/float64(mbt-x) <= osl
	}
	return math.Ceil(float64(float64(x)*isl)/osl) <= float64(mbt-x)
}

// aggInput is a workload and the engine that takes it. fresh is isl without what is cached.
type aggInput struct {
	isl, osl, fresh, ttft, itl float64
	engine                     Engine
	balance                    preset.Choice
}

func aggCapacity(l Line, in aggInput) (c Capacity) {
	e, context := in.engine, in.isl+in.osl/2
	most := min(max(1, int(float64(e.MaxKV)/context)), e.MaxSeqs, e.MaxBatchedTokens-1)
	c.MaxBatch, _ = largest(max(most, 1), func(x int) bool { return balanced(in.balance, x, in.fresh, in.osl, e.MaxBatchedTokens) })
	c.Batch, c.Meets = largest(c.MaxBatch, func(n int) bool {
		return aggStep(l, in, context, n) <= in.itl && aggTTFT(l, in, context, n) <= in.ttft
	})
	c.Seconds = aggStep(l, in, context, c.Batch)
	c.RPS = float64(c.Batch) / float64(in.osl*c.Seconds)
	return c
}

// aggPrefill returns the prompt tokens of a step of n requests.
func aggPrefill(in aggInput, n int) float64 {
	return min(float64(float64(n)*in.fresh)/in.osl, float64(in.engine.MaxBatchedTokens))
}

func aggStep(l Line, in aggInput, context float64, n int) float64 {
	return l.predict(aggPrefill(in, n), float64(float64(n)*context))
}

func aggTTFT(l Line, in aggInput, context float64, n int) float64 {
	queued, kv := math.Floor(aggPrefill(in, n)), math.Floor(float64(float64(n)*context))
	return prefillSeconds(l, queued+in.fresh, float64(in.engine.MaxBatchedTokens), kv)
}
