// Package engine simulates an inference engine: one [Worker] computes prompts in chunks and emits tokens, in virtual time,
// by the rules of doc/spec/simulate.md 2, 4, 5 and 6. All times are integer nanoseconds.
//
// A worker lives in passes. [Worker.Start] evaluates a pass whole at its start, [Worker.End] says when it ends, and
// [Worker.Finish] ends it:
//
//	w := engine.New(engine.Options{Config: config, Timing: timing, Switches: switches})
//	w.Submit(0, &engine.Request{Prompt: 8844, Output: 173, Chain: chain}, false)
//	for now := int64(0); w.HasWork(); now = w.End() {
//		w.Start(now)
//		w.Finish()
//		for _, r := range w.Completed() { ... }
//	}
//
// # Skip-ahead
//
// While a batch cannot change, Start plans a stretch of passes of pure decode at once, and End is the end of the last. The
// caller must then say what it does in the middle of a stretch: [Worker.Submit] cuts the stretch to the pass in flight,
// [Worker.Settle] makes the passes that have ended visible.
//
// # Pool
//
// The blocks of a worker are held in extents: runs of blocks that are alike. What a request leases, publishes, releases or evicts is
// moved extent by extent, whatever the length of its prompt. [Options.Plain] plays pass by pass on a pool block by block with a Go map:
// the oracle of both in tests.
//
// # Identity of blocks
//
// Of a prompt the worker knows its length and the chain numbers of its first full blocks. Two requests share their first k
// blocks exactly when their first k chain numbers are the same (package simulate/workload makes them).
package engine
