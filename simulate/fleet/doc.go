// Package fleet runs simulated engines on one virtual clock: doc/spec/simulate.md 7. It takes turns from a load, gives each to a
// worker, and moves the clock to the next event until all turns have ended.
//
//	result, err := fleet.Run(ctx, fleet.Options{Workers: 8, Engine: config, Switches: switches, Load: load})
//
// A [Router] chooses workers; without one the fleet goes round robin. Everything is decided in one goroutine: the same options
// give the same result.
package fleet
