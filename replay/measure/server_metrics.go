package measure

// ServerMetrics says which pages of metrics were read beside a run, and what became of them.
type ServerMetrics struct {
	File  string        `json:"file"`  // of their samples, in the directory of the run
	Pages []MetricsPage `json:"pages"` // in the order of their numbers in the file
	Full  bool          `json:"full"`  // the file had reached its limit: what came later is not in it
}

// MetricsPage is one of these pages.
type MetricsPage struct {
	URL       string `json:"url"`     // without user, password and query
	Default   bool   `json:"default"` // no --scrape names it: it is that of a server
	Fetches   int    `json:"fetches"` // that were answered
	Failures  int    `json:"failures"`
	Skipped   int    `json:"skipped"`    // that were due while one ran
	LeftOut   int    `json:"left_out"`   // series that are too large or too many
	OddLines  int    `json:"odd_lines"`  // that are not understood, of the answer with the most of them
	LastError string `json:"last_error"` // of the latest failure; "": there was none
}
