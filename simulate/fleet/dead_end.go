package fleet

import (
	"fmt"
	"slices"
	"strings"

	"github.com/agentx/agentx/simulate/engine"
)

// DeadEnd is the error of a run that has unfinished requests, and nothing that could happen next.
type DeadEnd struct {
	Now   int64 // nanoseconds
	Stuck []Stuck
	Left  int // turns that were never released
}

// Stuck is a request that a dead end leaves.
type Stuck struct {
	Session, Number, Worker int
	Prompt                  int
	Status                  engine.Status
}

// maxNamed is how many requests an error names.
const maxNamed = 8

// Error names the stuck requests.
func (e *DeadEnd) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "dead end at %.6f s: %d requests cannot end", float64(e.Now)/1e9, len(e.Stuck))
	if e.Left > 0 {
		fmt.Fprintf(&b, ", %d turns are not released", e.Left)
	}
	for k, s := range e.Stuck {
		if k == maxNamed {
			fmt.Fprintf(&b, "; and %d more", len(e.Stuck)-k)
			break
		}
		fmt.Fprintf(&b, "; session %d turn %d on worker %d: prompt of %d tokens, %s", s.Session, s.Number, s.Worker, s.Prompt, s.Status)
	}
	return b.String()
}

// deadEnd returns the error about the requests in flight, in the order of their release.
func (r *run) deadEnd() error {
	for _, w := range r.workers {
		w.Settle(r.now)
	}
	e := &DeadEnd{Now: r.now, Left: r.Load.Left()}
	for _, one := range r.result.Requests {
		if !one.Status.Ended() {
			e.Stuck = append(e.Stuck, Stuck{one.Session, one.Number, one.Worker, one.Prompt, one.Status})
		}
	}
	e.Stuck = slices.Clip(e.Stuck)
	return e
}
