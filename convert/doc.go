// Package convert prepares recorded traces once, as a dataset in a cache that package mmapcache maps into memory.
//
//	r, err := convert.Convert(ctx, convert.Options{Root: "cache", Inputs: []string{"traces.jsonl"}})
//	if err != nil {
//		return err
//	}
//	fmt.Println(r.Path, r.Hit, r.Facts.Traces)
//
// Convert hashes the input files, and derives the keys of the parts from what their content depends on. A part whose key
// exists is a hit and is not built. Structure prepares the structure alone. Explain says which parts would be hits, and
// why. VerifyRebuild builds a dataset again and compares.
//
// # Parts
//
// A dataset names three parts. The structure holds the tables of all traces: sessions, turns, and which blocks each prompt
// consists of. The arenas hold the prompt corpus, as token ids and as JSON text. The placement has the corpus token at
// which each block begins. keys.go lists the fields of each key.
//
// # From a row to turns
//
//	bytes of a row     package hfsource: Snapshot.Rows streams the rows of all files
//	its format         formats.go: a table, which names for each format its reader; a recording in pipeline.go collects rows that are traces together
//	trace.Trace        the reader, such as package weka: a session as numbers, which Trace.Check (package trace) has to accept
//	turns              package reconstruct: MakePlan, in plan.go, makes conversations of requests, and an mmapcache.Plan of them
//	decisions          package rules: what each step asks, all of it in the keys
//	tables             merge.go puts the plans into the order of the input, as one mmapcache.Structure
//	places in the text place.go asks reconstruct.Placer where in the corpus each block begins; corpus.go makes the corpus
//
// pipeline.go does this with several goroutines; stages.go puts the parts in order; part.go finds a part, or builds and publishes
// it while other processes wait. A new trace format is a package that makes traces, and a row of formats.go.
package convert
