// Package aiperf writes the results of a run as the files of AIPerf, and reads such files, from agentx or from AIPerf.
//
//	written, err := aiperf.Write(ctx, run, aiperf.Options{Out: "results/aiperf_artifacts"})
//
// Every file appears whole by a rename, the one that says that all are there last. One table of results (package report) feeds
// JSON, CSV and console; rows are written as they are read, so that memory does not grow with their number.
// doc/spec/results.md 15 has the keys.
package aiperf
