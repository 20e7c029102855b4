// Package reconstruct turns a trace, whatever its format, into a plan: the sessions, turns, prompt segments and blocks that it is
// replayed as. It works on numbers alone; no token and no text passes through it. doc/spec/reconstruction.md has the rules.
//
//	plan, notes, err := reconstruct.MakePlan(trace, rules)  // trace.Trace to mmapcache.Plan
//	placer := reconstruct.NewPlacer(placement, len(corpus), edges)
//	placer.Blocks(starts, scope, id, blockSize)             // where in the corpus each block begins
//
// Package rules has the decisions. All of it is deterministic: the same trace and rules give the same plan.
//
// Files along the path: plan.go, times.go (all that is decided about recorded times), agents.go (which requests are one
// conversation), conversation.go (its turns, and where children spawn and join), buffer.go (its prompts), blocks.go (numbers of
// blocks, and theoretical cache hits), placer.go (where blocks begin in the corpus).
package reconstruct
