package fleet

import "github.com/agentx/agentx/cmd/internal/simulate/engine"

// Sampler looks at the workers of a fleet between its events. What it sees changes nothing.
type Sampler interface {
	// Next returns when it looks next, later than the last time; math.MaxInt64 for never. Looks end with the work.
	Next() int64
	// Sample gets the workers of each pool, by ascending id, as they are after everything that happens at an instant. The lists are
	// valid during the call.
	Sample(at int64, pools [][]WorkerState)
}

// WorkerState is a worker at an instant. A pass in flight counts as the scheduler has left it: its requests run until it ends, the
// blocks of those that it completes are released.
type WorkerState struct {
	ID       int `json:"worker"`
	Running  int `json:"running"` // requests
	Waiting  int `json:"waiting"`
	KVBlocks int `json:"kv_blocks"` // leased
	engine.Counts
}

// sample lets the sampler look at all its instants before the next event.
func (r *run) sample(before int64) {
	if r.Sampler == nil {
		return
	}
	for at := r.Sampler.Next(); at < before; at = r.Sampler.Next() {
		list := make([][]WorkerState, len(r.pools))
		for k, p := range r.pools {
			p.settle(at)
			for _, w := range p.workers {
				list[k] = append(list[k], w.state())
			}
		}
		r.Sampler.Sample(at, list)
	}
}

func (w *worker) state() WorkerState {
	s := WorkerState{ID: w.id, Running: len(w.Batch()), Waiting: len(w.Queued()), KVBlocks: w.ActiveBlocks(), Counts: w.Counts()}
	if !w.Busy() {
		return s
	}
	for _, q := range w.Completed() {
		if q.Status == engine.Done {
			s.Running++
		}
	}
	return s
}
