package measure

// PreparationStep is what a run did at one server before its first request: it waited for the model, or reset the cache. Its
// requests have no records.
type PreparationStep struct {
	Step     string  `json:"step"` // PreparationWait or PreparationReset
	URL      string  `json:"url"`  // without user, query and fragment
	Attempts int     `json:"attempts"`
	Seconds  float64 `json:"seconds"`         // from the first attempt to the end of the last
	Outcome  string  `json:"outcome"`         // PreparationDone, PreparationTimeout or PreparationRefused
	Error    string  `json:"error,omitempty"` // why the run was not started
}

// The steps and outcomes of a PreparationStep.
const (
	PreparationWait  = "wait"
	PreparationReset = "reset"

	PreparationDone    = "done"
	PreparationTimeout = "timeout" // the last attempt that there was time for failed
	PreparationRefused = "refused" // the answer says that it will not get better
)
