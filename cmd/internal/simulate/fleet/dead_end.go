package fleet

import (
	"fmt"
	"strings"

	"github.com/agentx/agentx/cmd/internal/simulate/engine"
)

// DeadEnd is the error of a run that has unfinished requests, and nothing that could happen next.
type DeadEnd struct {
	Now   int64 // nanoseconds
	Stuck []Stuck
	Left  int // turns that were never released
	Whole int // max_num_batched_tokens of an engine without chunked prefill that a stuck prompt exceeds; 0: none
}

// Stuck is a request that a dead end leaves.
type Stuck struct {
	Session, Number int
	Worker          int    // -1: none
	Pool            string // of the worker: "prefill" or "decode"; "" in an aggregated fleet
	Prompt          int
	Status          engine.Status
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
		fmt.Fprintf(&b, "; session %d turn %d %s: prompt of %d tokens, %s", s.Session, s.Number, s.place(), s.Prompt, s.Status)
	}
	if e.Whole > 0 {
		fmt.Fprintf(&b, "; without chunked prefill no pass computes a prompt of more than max_num_batched_tokens %d", e.Whole)
	}
	return b.String()
}

// place says where a stuck request is.
func (s Stuck) place() string {
	switch {
	case s.Worker < 0:
		return "on no worker"
	case s.Pool == "":
		return fmt.Sprintf("on worker %d", s.Worker)
	default:
		return fmt.Sprintf("on %s worker %d", s.Pool, s.Worker)
	}
}

// deadEnd returns the error about the requests in flight, in the order of their release.
func (r *run) deadEnd() error {
	for _, p := range r.pools {
		p.settle(r.now)
	}
	e := &DeadEnd{Now: r.now, Left: r.Load.Left()}
	for _, one := range r.result.Requests {
		if r.open[one.ID] == one {
			e.Stuck = append(e.Stuck, stuckOf(one, r.now))
			e.Whole = max(e.Whole, r.tooLongInWhole(one.Prompt))
		}
	}
	return e
}

// tooLongInWhole returns max_num_batched_tokens of an engine that computes prompts whole and can never compute this one; 0 without one.
func (r *run) tooLongInWhole(prompt int) int {
	for _, p := range r.Pools {
		if c := p.Engine; !c.ChunkedPrefill && c.Type != engine.SGLang && prompt > c.MaxBatchedTokens {
			return c.MaxBatchedTokens
		}
	}
	return 0
}

func stuckOf(one *Request, now int64) Stuck {
	s := Stuck{Session: one.Session, Number: one.Number, Worker: one.Worker, Prompt: one.Prompt, Status: one.Status}
	switch copied := one.Prefill; {
	case copied == nil:
	case one.Worker < 0 && copied.Last > 0 && copied.Last <= now: // handed off, and no worker is active
	case one.Worker < 0:
		s.Pool, s.Worker, s.Status = "prefill", copied.Worker, copied.Status
	default:
		s.Pool = "decode"
	}
	if s.Status.Ended() { // by the pass in flight
		s.Status = engine.Running
	}
	return s
}
