package fleet

import (
	"fmt"
	"strings"

	"github.com/agentx/agentx/cmd/internal/simulate/engine"
)

// DeadEnd is the error of a run that has unfinished requests, and nothing that could happen next.
type DeadEnd struct {
	Now   int64 // nanoseconds
	stuck []stuck
	left  int // turns that were never released
	whole int // max_num_batched_tokens of an engine without chunked prefill that a stuck prompt exceeds; 0: none
}

// stuck is a request that a dead end leaves.
type stuck struct {
	session, number int
	worker          int    // -1: none
	pool            string // of the worker: "prefill" or "decode"; "" in an aggregated fleet
	prompt          int
	status          engine.Status
}

// maxNamed is how many requests an error names.
const maxNamed = 8

// Error names the stuck requests.
func (e *DeadEnd) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "dead end at %.6f s: %d requests cannot end", float64(e.Now)/1e9, len(e.stuck))
	if e.left > 0 {
		fmt.Fprintf(&b, ", %d turns are not released", e.left)
	}
	for k, s := range e.stuck {
		if k == maxNamed {
			fmt.Fprintf(&b, "; and %d more", len(e.stuck)-k)
			break
		}
		fmt.Fprintf(&b, "; session %d turn %d %s: prompt of %d tokens, %s", s.session, s.number, s.place(), s.prompt, s.status)
	}
	if e.whole > 0 {
		fmt.Fprintf(&b, "; without chunked prefill no pass computes a prompt of more than max_num_batched_tokens %d", e.whole)
	}
	return b.String()
}

// place says where a stuck request is.
func (s stuck) place() string {
	switch {
	case s.worker < 0:
		return "on no worker"
	case s.pool == "":
		return fmt.Sprintf("on worker %d", s.worker)
	default:
		return fmt.Sprintf("on %s worker %d", s.pool, s.worker)
	}
}

// deadEnd returns the error about the requests in flight, in the order of their release.
func (r *run) deadEnd() error {
	for _, p := range r.pools {
		p.settle(r.now)
	}
	e := &DeadEnd{Now: r.now, left: r.Load.Left()}
	for _, one := range r.result.Requests {
		if r.open[one.ID] == one {
			e.stuck = append(e.stuck, stuckOf(one, r.now))
			e.whole = max(e.whole, r.tooLongInWhole(one.Prompt))
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

func stuckOf(one *Request, now int64) stuck {
	s := stuck{session: one.Session, number: one.Number, worker: one.Worker, prompt: one.Prompt, status: one.Status}
	switch copied := one.Prefill; {
	case copied == nil:
	case one.Worker < 0 && copied.Last > 0 && copied.Last <= now: // handed off, and no worker is active
	case one.Worker < 0:
		s.pool, s.worker, s.status = "prefill", copied.Worker, copied.Status
	default:
		s.pool = "decode"
	}
	if s.status.Ended() { // by the pass in flight
		s.status = engine.Running
	}
	return s
}
