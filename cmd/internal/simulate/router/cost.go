package router

import "github.com/agentx/agentx/cmd/internal/simulate/preset"

// candidate is a worker as a request sees it.
type candidate struct {
	worker        *worker
	prefillTokens int     // of the prefills in flight
	excess        float64 // blocks of them above those of the worker that has the fewest
	overlap       int     // blocks of the request that are visible there
	active        int     // prompt blocks in flight
	lead          int     // blocks of the request that are among them
	requests      int     // in flight
	index         int     // visible blocks
	dispatched    int     // requests so far
	cost          float64
}

// costs is a cost function: doc/spec/simulate.md 8.2. Every product is converted, so that no machine fuses it with a sum.
type costs struct {
	Config
	kind      preset.Choice
	decode    bool // of a decode pool
	blockSize int
}

// of returns the cost of a prompt on a worker, in blocks.
func (k *costs) of(c *candidate, prompt int) float64 {
	size := float64(k.blockSize)
	blocks := blocksOf(prompt, k.blockSize)
	decode := float64(c.active + blocks - c.lead)
	switch {
	case k.decode:
		requests := 0.0
		if k.kind == preset.CostCredit {
			requests = float64(k.ActiveRequestWeight * float64(c.requests))
		}
		return max(decode-float64(k.DecodeOverlapCredit*float64(c.overlap)), 0) + requests
	case k.kind == preset.CostWeight:
		return float64(k.OverlapWeight*(float64(c.prefillTokens+max(prompt-c.overlap*k.blockSize, 0))/size)) + decode
	}
	decay := 1 / (1 + float64(k.OverlapCreditDecay*(c.excess/float64(blocks))))
	load := float64(c.prefillTokens+prompt)/size - float64(float64(k.OverlapCredit*decay)*float64(c.overlap))
	return float64(k.PrefillLoadScale*max(load, 0)) + decode + float64(k.ActiveRequestWeight*float64(c.requests))
}

// blocksOf returns how many blocks so many tokens fill or begin.
func blocksOf(tokens, size int) int { return (tokens + size - 1) / size }
