// Package merge reads the results of a run: those of one client, or those of all parts of a load as one run (doc/spec/cluster.md 3).
//
//	run, err := merge.Open("results", merge.Options{})
//	records, err := run.Records()
//
// Instants of parts are moved to the clock of part 0, as the readings of their clocks say: a record as a whole, by what holds when its request
// was sent, so that what one clock measured stays as it was. Records of N parts are read beside each other, N at a time. Lanes and
// sessions keep their numbers, which are those of the whole load; tree and credit n of part I become I + n·N.
package merge
