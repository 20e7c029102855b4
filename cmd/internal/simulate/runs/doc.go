// Package runs simulates the runs of a command, one or many, and tells what they answer.
//
// A [Player] plays every [Run] at once or looks for the fewest workers, writes the files of each, and judges it by its gates. A Run keeps
// no request of its result. [Answers] says in words where runs begin or cease to keep their gates. [Write] writes the page of several runs:
// their figures, how those change with what the runs differ in, and their distributions over each other (doc/spec/simulate.md 17).
package runs
