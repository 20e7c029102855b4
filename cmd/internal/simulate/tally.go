package simulate

import (
	"math"
	"slices"

	"github.com/agentx/agentx/cmd/internal/simulate/engine"
	"github.com/agentx/agentx/cmd/internal/simulate/fleet"
	"github.com/agentx/agentx/cmd/internal/simulate/preset"
	"github.com/agentx/agentx/cmd/internal/simulate/router"
)

// tally counts requests in the order of their release, so that a run of any length need not keep them.
type tally struct {
	config                      *Config
	ended                       map[engine.Status]int
	rejected                    int   // the largest prompt of those
	input, output, recomputed   int64 // tokens
	reused, reusedMax, resident int64
	unlimited                   int64         // tokens that one cache without a limit, of the whole fleet, gives
	seen                        *router.Index // what that cache has; nil: no engine caches
	good                        int
	ttft, ttst, itl, e2e, loads durations
}

func newTally(c *Config) *tally {
	t := &tally{config: c, ended: map[engine.Status]int{}}
	if slices.ContainsFunc(c.Engines(), func(e Engine) bool { return e.Config.PrefixCaching }) {
		t.seen = &router.Index{}
	}
	return t
}

// counted returns the tally of all requests.
func (r *Result) counted() *tally {
	if r.tally != nil {
		return r.tally
	}
	t := newTally(&r.Config)
	for _, q := range r.Requests {
		t.add(q)
	}
	return t
}

// requests returns how many were released.
func (t *tally) requests() (n int) {
	for _, k := range t.ended {
		n += k
	}
	return n
}

// add counts the request that was released next.
func (t *tally) add(q *fleet.Request) {
	status := q.Status
	switch status {
	case engine.Rejected:
		t.rejected = max(t.rejected, q.Prompt)
	case engine.KVExhausted:
	default:
		status = engine.Done
	}
	t.ended[status]++
	t.output += int64(q.Tokens)
	if status != engine.Rejected {
		t.input += int64(q.Prompt)
		t.reused += int64(q.Reused)
		t.reusedMax += int64(q.ReusedMax)
		t.resident += int64(q.Resident)
		t.recomputed += int64(q.Recomputed)
		t.cache(q)
		if front := q.Front(); front.Loaded > 0 {
			t.loads.add(float64(front.LoadWait))
		}
	}
	l, ok := LatencyOf(q)
	if !ok {
		return
	}
	t.ttft.add(float64(l.TTFT))
	t.e2e.add(float64(l.E2E))
	if l.Tokens > 1 {
		t.ttst.add(float64(l.TTST))
		t.itl.add(l.ITL)
	}
	if q.Status == engine.Done && t.config.SLA.good(l) {
		t.good++
	}
}

// cache looks a prompt up in the cache without a limit, where it finds the full blocks of all that were released before it.
func (t *tally) cache(q *fleet.Request) {
	if t.seen == nil {
		return
	}
	size, most := t.config.BlockSize(), q.Prompt
	if t.config.Switches.FullHit != preset.FullHitFree {
		most = (q.Prompt - 1) / size * size
	}
	t.unlimited += int64(min(t.seen.Leading(q.Chain)*size, most))
	for _, run := range q.Chain {
		t.seen.Apply(engine.KVEvent{Run: run})
	}
}

// mostExact is how many durations of a kind are kept.
const mostExact = 1 << 20

// durations are those of requests, in nanoseconds: doc/spec/simulate.md 9.1.
type durations struct {
	list   []float64
	pooled *engine.Gaps // of more than mostExact; else nil
}

func (d *durations) add(ns float64) {
	if d.pooled != nil {
		d.pooled.Add(int64(math.Round(ns)), 1)
		return
	}
	if d.list = append(d.list, ns); len(d.list) <= mostExact {
		return
	}
	d.pooled = &engine.Gaps{}
	for _, ns := range d.list {
		d.add(ns)
	}
	d.list = nil
}

// distribution returns that of all, which it sorts.
func (d *durations) distribution() Distribution {
	if d.pooled != nil {
		return distributionOfGaps(d.pooled)
	}
	return distributionOf(d.list)
}
