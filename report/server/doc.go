// Package server computes what the servers of a run said of themselves, from the samples that package replay/scrape kept, and
// writes it as AIPerf's server_metrics_export.json and .csv: doc/spec/replay.md 8.12, doc/spec/results.md 16.
package server
