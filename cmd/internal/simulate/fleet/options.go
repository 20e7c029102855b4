package fleet

import (
	"errors"
	"fmt"
	"slices"

	"github.com/agentx/agentx/cmd/internal/simulate/engine"
	"github.com/agentx/agentx/cmd/internal/simulate/preset"
	"github.com/agentx/agentx/cmd/internal/simulate/workload"
)

// Options are a fleet and what it gets.
type Options struct {
	Pools    []Pool // one: aggregated; two: prefill, then decode
	Switches preset.Switches
	Load     workload.Load
	Planner  Planner        // scales the pools; nil: they stay as they are
	Observer Observer       // nil: the fleet tells no one what it does
	Sampler  Sampler        // nil: no one looks at the workers
	Ended    func(*Request) // takes each request that has ended in the place of Result.Requests, in the order of release; nil: that has all
	Gaps     *engine.Gaps   // counts the gaps between tokens; nil: a new one
	Plain    bool           // play pass by pass, without skip-ahead: the oracle of tests
}

// Pool is workers that do the same, and their router.
type Pool struct {
	Workers int // at the beginning
	Engine  engine.Config
	Timing  engine.Timing // engine.NewTiming(Engine, table)
	Router  Router        // nil: round robin
}

// Validate returns an error about the first option that cannot be used.
func (o Options) Validate() error {
	if n := len(o.Pools); n != 1 && n != 2 {
		return fmt.Errorf("a fleet of %d pools: want one, or prefill and decode", n)
	}
	for _, p := range o.Pools {
		if p.Workers < 1 {
			return fmt.Errorf("workers %d: want at least 1", p.Workers)
		}
		if err := errors.Join(p.Engine.Validate(), p.Engine.FitsTiers(o.Switches)); err != nil {
			return err
		}
		if len(o.Pools) > 1 && p.Engine.Type == engine.TRTLLM {
			return fmt.Errorf("engine_type %q in a disaggregated fleet: want %s or %s", p.Engine.Type, engine.VLLM, engine.SGLang)
		}
		if size := o.Pools[0].Engine.BlockSize; p.Engine.BlockSize != size {
			return fmt.Errorf("block_size %d of the prefill engine, %d of the decode engine: want the same", size, p.Engine.BlockSize)
		}
	}
	if o.Load == nil {
		return errors.New("a fleet needs a load: option Load is nil")
	}
	return o.Switches.Validate()
}

// Router chooses the workers of a pool. The fleet tells it what a router could know, in the order of doc/spec/simulate.md 7.1.
// In a disaggregated fleet, the router of the prefill pool gets the copies of requests that are computed there ([Request.Prefill]).
type Router interface {
	// Workers says which workers are active, by ascending id; at the beginning, and when it changes.
	Workers(now int64, active []int)
	// Route chooses the worker of a request that arrives now. ok is false when the router keeps it until Next gives it out.
	Route(now int64, r *Request) (worker int, ok bool)
	// Next takes a request that the router kept and that leaves now; nil without one.
	Next(now int64) (r *Request, worker int)
	// Events says which blocks became visible or were evicted on a worker.
	Events(worker int, list []engine.KVEvent)
	// FirstToken says that a request has emitted its first token, and Completed that it has ended.
	FirstToken(now int64, r *Request)
	Completed(now int64, r *Request)
}

// Observer watches a fleet. Its methods must not change what they get.
type Observer interface {
	// Released is called when a request has arrived and its worker, if it has one yet, is known.
	Released(now int64, r *Request)
	// Pass is called for every pass that ends, those of a stretch when the stretch is looked at.
	Pass(pool, worker int, p *engine.Pass)
	// Completed is called when a request has ended, at the end of its last pass.
	Completed(now int64, r *Request)
}

// Planner scales a fleet at its ticks.
type Planner interface {
	// Next returns when its next tick is due, later than the last one; math.MaxInt64 for none. Ticks end with the work.
	Next() int64
	// Tick sees the fleet after all that happens now, all passes that have ended observed. It returns how many workers each pool
	// should have, starting ones included; nil: they stay. 7.1 is played again after it. An error ends the run.
	Tick(now int64, s State) (targets []int, err error)
}

// State is what a planner sees of a fleet.
type State struct {
	Pools     []PoolState // in the order of Options.Pools
	LastEvent int64       // when something last happened before this tick, or at its instant
	Arriving  int         // requests that are released at its instant, after it
}

// PoolState is the workers of a pool, by ascending ids.
type PoolState struct {
	Active, Starting, Draining []int
	Ready                      []int64 // when each of Active became active
}

// Request is a request of a fleet: a turn, where it went, and what came of it. In a disaggregated fleet the numbers are those of the
// decode pool, but Reused is that of the prefill pool, and ReusedMax is the most found in either.
type Request struct {
	engine.Request
	Session, Number int
	Arrival         int64    // nanoseconds
	Worker          int      // -1: none yet
	Overlap         int      // blocks of the prompt that a KV router knew on the worker when it chose it
	Prefill         *Request // its copy with one token in the prefill pool; nil in an aggregated fleet

	released int // how many were before
	lacks    int // tokens of the blocks that the decode pool has taken for the prompt
	ended    bool
}

// Front returns what the first pool has of a request: in a disaggregated fleet its copy there.
func (r *Request) Front() *Request {
	if r.Prefill != nil {
		return r.Prefill
	}
	return r
}

// Result is the outcome of a simulated run of a fleet.
type Result struct {
	Requests []*Request // in the order of their release; with Options.Ended none
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
			sum.Outside += w.Outside
			sum.Prompt += w.Prompt
			if sum.Tiers == nil {
				sum.Tiers = slices.Clone(w.Tiers)
				continue
			}
			for k, t := range w.Tiers {
				one := &sum.Tiers[k]
				one.Hits, one.Loaded, one.Busy = one.Hits+t.Hits, one.Loaded+t.Loaded, one.Busy+t.Busy
			}
		}
	}
	return sum
}
