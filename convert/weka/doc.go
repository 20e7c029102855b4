// Package weka reads recorded traces of kv-cache-tester's format, called Weka, and of Mooncake's, and writes those of the first.
//
//	trace, err := weka.Scan(data, rules) // JSON to trace.Trace; ScanColumns reads Parquet and Arrow rows
//
// Rows of Mooncake files are requests, not traces. Mooncake gathers those of one file into traces.
//
// Files: scan.go, scan_element.go, scan_ids.go and columns.go (Weka's rows), mooncake.go (Mooncake's, by the same scanner), times.go
// (units of times), recording.go (writes a trace), check.go (what a trace of a capture has to be), trie.go (its blocks as a tree).
package weka
