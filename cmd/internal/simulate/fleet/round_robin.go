package fleet

import "github.com/agentx/agentx/cmd/internal/simulate/engine"

// roundRobin gives request n to active worker n mod their number: doc/spec/simulate.md 7.2.
type roundRobin struct {
	active []int
	count  int
}

func (r *roundRobin) Workers(_ int64, active []int) { r.active = active }

func (r *roundRobin) Route(int64, *Request) (worker int, ok bool) {
	worker = r.active[r.count%len(r.active)]
	r.count++
	return worker, true
}

func (r *roundRobin) Next(int64) (*Request, int)   { return nil, 0 }
func (r *roundRobin) Events(int, []engine.KVEvent) {}
func (r *roundRobin) FirstToken(int64, *Request)   {}
func (r *roundRobin) Completed(int64, *Request)    {}
