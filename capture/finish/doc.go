// Package finish turns journals of finished sessions into traces and notes.
//
// What a journal becomes is a function of its bytes alone: its head says how the trace is to be written. So a crash
// between any two steps ends, after Recover, in the same files.
//
// Files: finish.go (journal to files, in an order that a crash cannot spoil), build.go (journal to bytes), verdict.go (which
// requests are in the trace, and why not), times.go (the grid, long gaps), document.go and subagent.go (the trace), mask.go,
// note.go. doc/spec/capture.md 8 and 9 have the rules.
package finish
