// Package report computes what a run measured from the files that it wrote, and knows no player.
//
// A run is read as a stream of records (package replay/measure). The metrics of a request, those of a run, its curves and its
// windows become one Table of results. Package report/aiperf writes that table, and the rows, as the files of AIPerf.
package report
