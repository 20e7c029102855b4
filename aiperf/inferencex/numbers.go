package inferencex

// DefaultLimit is the error rate above which InferenceX refuses a run.
const DefaultLimit = 0.10

// Numbers are all that InferenceX computes from a directory.
type Numbers struct {
	Dir string `json:"dir"` // in which the files are
	*Result
	Gate  Verdict     `json:"gate"`
	Sweep *SweepPoint `json:"sweep"` // nil: there is no table, and the sweep collector counts the point as failed
	Power *Power      `json:"power"`
}

// Verdict is what the error-rate gate says.
type Verdict struct {
	Limit    float64 `json:"limit"`
	Accepted bool    `json:"accepted"`
	Reason   string  `json:"reason,omitempty"`
}

// Read computes the numbers of a directory, or of the first of its child directories that has rows. The error names a file, and
// the line at which the aggregation ends.
func Read(dir string, limit float64) (*Numbers, error) {
	dir, err := Find(dir)
	if err != nil {
		return nil, err
	}
	n := &Numbers{Dir: dir, Gate: Verdict{Limit: limit, Accepted: true}}
	if n.Result, err = Aggregate(dir); err != nil {
		return nil, err
	}
	if _, err := Gate(dir, limit); err != nil {
		n.Gate.Accepted, n.Gate.Reason = false, err.Error()
	}
	if n.Sweep, err = Sweep(dir); err != nil {
		n.Sweep = nil
	}
	n.Power, err = PowerWindow(dir)
	return n, err
}
