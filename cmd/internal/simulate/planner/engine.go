package planner

import "github.com/agentx/agentx/cmd/internal/simulate/engine"

// Engine is what a planner knows of the engines of a pool.
type Engine struct {
	MaxBatchedTokens int // MBT: the budget of a pass
	MaxSeqs          int // 0: unknown
	MaxKV            int // tokens of the pool; 0: unknown
	ContextLength    int // of the longest request
	GPUs             int // of a worker
	Timing           Timing
}

// Timing says what the parts of a pass take, in nanoseconds. An engine.Timing does.
type Timing interface {
	Prefill(tokens int) int64
	Decode(kv, length, requests int) int64
}

// EngineOf returns what a planner knows of an engine.
func EngineOf(c engine.Config, t *engine.Timing) Engine {
	kv := c.Blocks * c.BlockSize
	e := Engine{MaxBatchedTokens: c.MaxBatchedTokens, MaxSeqs: c.MaxSeqs, MaxKV: kv, ContextLength: kv, GPUs: c.GPUsPerWorker, Timing: t}
	if c.MaxModelLen > 0 {
		e.ContextLength = min(e.ContextLength, c.MaxModelLen)
	}
	return e
}
