package measure

import (
	"encoding/json"
	"time"
)

// Run says what was run: the run object of a summary.
type Run struct {
	Version string     `json:"version"` // of agentx
	Commit  string     `json:"commit"`
	Host    string     `json:"host"`  // that ran it
	Start   time.Time  `json:"start"` // UTC
	End     *time.Time `json:"end"`   // UTC; nil before it, and of a run that was killed
	Dataset Dataset    `json:"dataset"`
	URL     string     `json:"url"` // without user, query and fragment
	Model   string     `json:"model"`
	Options []Option   `json:"options"` // all of them
}

// Dataset is what was played.
type Dataset struct {
	Key     string          `json:"key"`
	Path    string          `json:"path"`
	Profile string          `json:"profile"` // of the reconstruction
	Changed json.RawMessage `json:"changed"` // rules that are not the profile's, by name; null: none
	Inputs  []Input         `json:"inputs"`  // in order

	Draws     json.RawMessage `json:"draws"`     // how blocks are drawn from the corpus: the seed among them
	Corpus    string          `json:"corpus"`    // that prompts are cut from; "" where it is not known any more
	Tokenizer string          `json:"tokenizer"` // the same
}

// Input is one input file of a dataset.
type Input struct {
	Name   string `json:"name"` // "" where it is not known any more
	SHA256 string `json:"sha256"`
}

// Option is the value of one option of a run, and where it came from.
type Option struct {
	Name  string          `json:"name"`
	Value json.RawMessage `json:"value"` // durations in seconds
	From  string          `json:"from"`  // flag, environment or default
}

// RunInfo is what a summary says that no record knows: the object of run.json. It is written before the first record, and
// once more at the end.
type RunInfo struct {
	Run
	Lanes     int        `json:"concurrency"`
	Out       string     `json:"out"`     // directory with the results, empty when none was asked for
	Records   string     `json:"records"` // name of the record file in it
	Preflight *Preflight `json:"preflight"`
	Facts     *Facts     `json:"facts"` // nil before the end, and of a run that was killed
}

// Facts are what is known at the end of a run.
type Facts struct {
	PhaseDuration float64          `json:"phase_duration"` // seconds
	CPU           float64          `json:"cpu"`            // seconds that the phase took
	PeakRSS       int64            `json:"peak_rss"`       // bytes
	Branches      BranchCounts     `json:"branches"`
	Deadlocks     []DeadlockReport `json:"wedged"` // at most MaxDeadlocks of them
	Valid         *bool            `json:"valid"`
	Reasons       []string         `json:"reasons"`
}
