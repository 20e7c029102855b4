// Package router chooses the workers of requests by what they hold: doc/spec/simulate.md 8.
//
// A KV router knows which blocks are visible on each worker, and which prompts are at work there. It gives a request to the
// worker of the lowest cost.
//
//	r, err := router.New(router.Options{Config: router.Default(switches.RouterCost), Switches: switches, Engine: config, Timing: timing, Seed: 42})
//	result, err := fleet.Run(ctx, fleet.Options{Workers: 8, Router: r, ...})
//
// A router belongs to one run. Round robin is the router of package fleet.
package router
