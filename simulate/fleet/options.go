package fleet

import (
	"fmt"

	"github.com/agentx/agentx/simulate/engine"
	"github.com/agentx/agentx/simulate/preset"
	"github.com/agentx/agentx/simulate/workload"
)

// Options are a fleet and what it gets.
type Options struct {
	Workers  int
	Engine   engine.Config
	Timing   engine.Timing // engine.NewTiming(Engine, table)
	Switches preset.Switches
	Load     workload.Load
	Router   Router       // nil: round robin
	Observer Observer     // nil: nobody watches
	Gaps     *engine.Gaps // counts the gaps between tokens; nil: a new one
	Plain    bool         // play pass by pass, without skip-ahead: the oracle of tests
}

// Validate returns an error about the first option that cannot be used.
func (o Options) Validate() error {
	if o.Workers < 1 {
		return fmt.Errorf("workers %d: want at least 1", o.Workers)
	}
	if o.Load == nil {
		return fmt.Errorf("a fleet needs a load")
	}
	if err := o.Switches.Validate(); err != nil {
		return err
	}
	return o.Engine.Validate()
}

// Router chooses the workers of requests. The fleet tells it what a router could know, in the order of doc/spec/simulate.md 7.1.
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
	Pass(worker int, p *engine.Pass)
	// Completed is called when a request has ended, at the end of its last pass.
	Completed(now int64, r *Request)
}

// Request is a request of a fleet: a turn, where it went, and what came of it.
type Request struct {
	engine.Request
	Session, Number int
	Arrival         int64 // nanoseconds
	Worker          int   // -1: none yet
	Overlap         int   // blocks of the prompt that a KV router knew on the worker when it chose it
}
