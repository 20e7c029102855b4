// Package report computes what a run measured from the files that it wrote, and knows no player.
//
//	run, err := report.Open("results")
//	results, err := run.Compute()
//	b := results.Headline.Find("time_to_first_token")
//
// A run is read as a stream of records (package replay/measure). The metrics of a request, those of a run, its curves and its
// windows become tables of results (doc/spec/replay.md 8). Package aiperf writes them, and the rows, as the files of AIPerf.
package report
