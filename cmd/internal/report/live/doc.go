// Package live says what a run is like while it is played: the block on a terminal, the lines of a log, and a server with the page, with
// metrics for Prometheus, and with a status (doc/spec/report.md 7).
//
// A State gathers it from the records, which it gets from measure.Follow, and from the progress that the run reports. A run never waits
// for a State, nor for who reads it.
package live
