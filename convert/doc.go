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
// # Files
//
// pipeline.go turns rows into plans, with several goroutines: hfsource delivers a row, convert/weka scans it into a trace
// and plans it. merge.go puts the plans together in the order of the input. place.go computes the placement.
// promptcorpus.go builds the arenas. part.go finds a part, or builds and publishes it while other processes wait. To
// add a trace format, begin at formats.go. mooncake.go collects rows that are traces together.
package convert
