// Package synth makes traces up, for tests of size: as many as asked for, each a valid trace of the format that
// capture writes, none of them kept in memory.
//
//	total, err := synth.Write(ctx, w, synth.Options{Traces: 1000, Seed: 42})
//
// A trace depends on the seed and on its number alone, so parts of a corpus can be made apart and in any order.
//
// Where Options.From is nil, numbers are drawn from the distributions of the public v8 corpus of kv-cache-tester:
// tables.go has them. What is drawn for a trace is its first prompt, how many requests it has, and how long prompts may
// grow; for a request, how its prompt follows from the one before, how much is new, its completion, and the time until
// the next. Some traces have subagents, whose first prompts share a prefix.
//
// With Options.From a trace is one of that cache, drawn at random, and changed: each stretch of blocks that prompts
// share, each completion and each interval of time gets a factor of its own. So it keeps which prompts share what, and
// the order of all events. What a cache does not keep, such as the time to the first token, is drawn as above.
//
// Files along the path: draw.go (chance), tables.go (distributions), lane.go (prompts of one agent), madeup.go and
// subagents.go (a trace from distributions), resample.go, stretch.go and warp.go (a trace from a cache), number.go (ids
// and think times of either), synth.go (many traces to a stream).
package synth
