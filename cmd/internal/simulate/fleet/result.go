package fleet

import "github.com/agentx/agentx/cmd/internal/simulate/engine"

// Result is the outcome of a simulated run of a fleet.
type Result struct {
	Requests []*Request // in the order of their release
	Gaps     *engine.Gaps
	Workers  [][]WorkerResult // of each pool, by id
	Duration int64            // when the last token was emitted
}

// WorkerResult is what a worker did, and when it was there.
type WorkerResult struct {
	ID            int `json:"worker"`
	engine.Counts `json:"-"`
	Ordered       int64 `json:"ordered_ns"` // when its start-up began
	Ready         int64 `json:"ready_ns"`   // when it took requests from; after Gone, or after the run, where it was not needed any more
	Drained       int64 `json:"drained_ns"` // when it left its router; Gone for those that never drained
	Gone          int64 `json:"gone_ns"`    // when it disappeared, drained or cancelled; the end of the run for those that stay
}

// Counts returns the totals of all workers.
func (r *Result) Counts() (sum engine.Counts) {
	for _, pool := range r.Workers {
		for _, w := range pool {
			sum.Passes += w.Passes
			sum.Preemptions += w.Preemptions
			sum.Evictions += w.Evictions
			sum.Output += w.Output
		}
	}
	return sum
}
