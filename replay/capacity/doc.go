// Package capacity searches for the highest number of lanes with which a server keeps its service levels: doc/spec/report.md 6.2.
//
// It plays nothing. A Search says, from the probes that were played, which number of lanes is next, and what they answer. An
// Outlook tells, from the values that a probe has brought so far, when a condition can no longer be met. Time is an argument.
//
//	search := capacity.Search{From: 1, To: 512}
//	for lanes := search.Next(probes); lanes > 0; lanes = search.Next(probes) {
//		probes = append(probes, probe(lanes))
//	}
//	fmt.Println(search.Answer(probes))
package capacity
