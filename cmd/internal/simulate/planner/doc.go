// Package planner decides how many workers a simulated fleet has: doc/spec/simulate.md 10 and 11. It moves no clock and owns no worker.
// A fleet tells it what arrives, what ends and what passes were, asks when it ticks next, and gets decisions:
//
//	p, err := planner.New(planner.Options{Config: config, Switches: switches, Engines: []planner.Engine{planner.EngineOf(c, &timing)}})
//	p.Arrived(prompt, output)
//	p.Passed(pool, worker, pass)
//	p.Completed(planner.Completion{...})
//	if now == p.Next() {
//		tick, err := p.Tick(now, event, []planner.Workers{{Active: ids}})
//	}
//
// In mode agg there is one pool, in mode disagg there are two: prefill, then decode. [Tick] has all that a page draws.
//
// A tick looks at the models ([model]: what a pass costs), at the traffic ([Window]) and at the last pass of every worker. Throughput decides
// before load, so that load sees the new floor.
package planner
