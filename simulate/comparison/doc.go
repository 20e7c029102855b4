// Package comparison draws several simulated runs on one page: what they answer, their figures, how those change with what the runs
// differ in, and their distributions over each other.
//
// A [Run] is made of the result of a run when it ends, and keeps no request of it. [Answers] says in words where runs begin or cease to
// keep their gates. [Write] writes the page: doc/spec/simulate.md 17.
package comparison
