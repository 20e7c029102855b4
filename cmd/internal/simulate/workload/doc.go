// Package workload says which requests a simulated fleet gets, and when: doc/spec/simulate.md 3. No prompt is text here. What counts
// are lengths, times and which blocks of two prompts are the same.
//
// [Chains] numbers the blocks of prompts. [Sessions] are the turns of an input, from the structure of a cache ([Mooncake]) or from
// numbers ([Synthetic]). A [Load] plays them: it says when the next turn is ready and is told when a turn has completed.
// [Sessions.Trace] is the open loop, [Sessions.Concurrency] the closed one. [Lanes] plays trees of sessions with the player that
// drives servers, package replay.
package workload
