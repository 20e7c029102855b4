// Package fleet runs simulated engines on one virtual clock: doc/spec/simulate.md 7. It takes turns from a load, gives each to a
// worker, and moves the clock to the next event until all turns have ended.
//
//	pool := fleet.Pool{Workers: 8, Engine: config, Timing: engine.NewTiming(config, nil)}
//	result, err := fleet.Run(ctx, fleet.Options{Pools: []fleet.Pool{pool}, Switches: switches, Load: load})
//
// One pool is an aggregated fleet; two are one in which the first computes prompts and the second generates. A [Router] chooses the
// workers of a pool, without one it goes round robin. A [Planner] changes how many there are. Everything is decided in one
// goroutine: the same options give the same result.
package fleet
