// Package weka reads recorded traces of kv-cache-tester's format, called Weka, and of Mooncake's, and turns each into a plan:
// the sessions, turns, prompt segments and blocks that it is replayed as. It works on numbers alone; no token and no text
// passes through it. doc/spec/reconstruction.md has the rules.
//
// A trace goes through three steps:
//
//	trace, err := weka.Scan(data, rules)             // JSON to Trace; ScanColumns reads Parquet and Arrow rows
//	plan, notes, err := weka.MakePlan(trace, rules)  // Trace to mmapcache.Plan
//	placer := weka.NewPlacer(placement, len(corpus), edges)
//	placer.Blocks(starts, scope, id, blockSize)      // where in the corpus each block begins
//
// Rules are the decisions of the first two steps, Placement those of the third. Default and AIPerf return the rules of the
// two profiles. All of it is deterministic: the same bytes and rules give the same plan.
//
// Rows of Mooncake files are requests, not traces. Mooncake gathers those of one file into traces.
//
// A trace becomes turns in MakePlan (plan.go). Files along the path: scan*.go and columns*.go (bytes to Trace), mooncake.go, format.go (names the format), times.go (all
// that is decided about recorded times), agents.go, chains.go and workers.go (which requests are one conversation),
// branches.go (where children spawn and join), conversation.go and buffer.go (prompts of one conversation), blocks.go
// (numbers blocks), prefixcache.go (theoretical hits), placement.go and placer.go.
package weka
