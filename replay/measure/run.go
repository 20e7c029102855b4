package measure

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/agentx/agentx/internal/regular"
	"github.com/agentx/agentx/replay/conductor"
	"github.com/agentx/agentx/replay/preset"
	"github.com/agentx/agentx/replay/slo"
)

// Run describes what was run: the object run of a summary.
type Run struct {
	Version     string            `json:"version"` // of agentx
	Commit      string            `json:"commit"`
	Host        string            `json:"host"`  // name of the machine
	Start       time.Time         `json:"start"` // UTC
	End         *time.Time        `json:"end"`   // UTC; nil: the run has not ended, or was killed
	Dataset     Dataset           `json:"dataset"`
	URL         string            `json:"url"`     // the first of URLs
	URLs        []string          `json:"urls"`    // of the servers, without user, query and fragment
	Servers     []Server          `json:"servers"` // what they tell of themselves, in the order of URLs; nil: they were not asked
	Model       string            `json:"model"`
	BenchmarkID string            `json:"benchmark_id,omitempty"` // of which markers are made; another one for each run of a list
	Preparation []PreparationStep `json:"preparation"`            // before the first request, in order; nil: nothing was asked for
	Preset      string            `json:"preset"`
	Counting    int               `json:"counting,omitempty"`     // version of what the preset default counts: the constant Counting
	PresetAlias string            `json:"preset_alias,omitempty"` // the name by which the preset was asked for, if it has another
	Options     []Option          `json:"options"`                // all options, also those with their defaults

	Launch []string `json:"launch,omitempty"` // arguments of the command of another tool that this run stands in for, without secrets; nil: none

	Switches preset.Deviations `json:"switches"` // those that differ from the preset
	Scenario *Scenario         `json:"scenario"` // nil: none
}

// Scenario is the scenario that a run was set by.
type Scenario struct {
	Name       string   `json:"name"`
	Overridden []string `json:"overridden"` // its conflicts with the options, one line each, that did not keep the run from starting; nil: none
	Corpus     string   `json:"corpus"`     // repository of the pinned corpus that the dataset is; "": it is none

	PinnedBy    string  `json:"pinned_by,omitempty"` // by what it is one: content of its files, or the name of the repository they were fetched from
	MinDuration float64 `json:"min_duration"`        // shortest duration of a run that it allows, seconds
}

// Dataset is the dataset that was played.
type Dataset struct {
	Key     string          `json:"key"`
	Path    string          `json:"path"`
	Profile string          `json:"profile"` // of the reconstruction
	Changed json.RawMessage `json:"changed"` // rules that differ from the profile's, by name; null: none
	Inputs  []Input         `json:"inputs"`  // in the order of the command line

	Draws     json.RawMessage `json:"draws"`            // how blocks are drawn from the corpus, with the seed
	Traces    int             `json:"traces,omitempty"` // in the dataset
	Corpus    string          `json:"corpus"`           // of the prompts; "": not known any more
	Tokenizer string          `json:"tokenizer"`        // "": not known any more
	Texts     *Texts          `json:"texts,omitempty"`  // of a dataset of logs: prompts are recorded messages; nil for another
}

// Texts says what prompts that are recorded messages are made of.
type Texts struct {
	Formats []string `json:"formats"`      // of the logs
	Filler  float64  `json:"filler_share"` // of the prompt tokens of the dataset: text of the corpus, for what the logs lack
}

// filler says which share of the recorded prompts is no recorded text.
func (e *evidence) filler() (string, []string) {
	if e.info == nil || e.info.Dataset.Texts == nil {
		return "", nil
	}
	t := e.info.Dataset.Texts
	return when(t.Filler > 0, "%s of the dataset's prompt tokens are text of agentx, in the places and lengths of what the logs (%s) lack, such as system prompts and tools: the others are recorded text",
		FormatShare(Number(t.Filler)), strings.Join(t.Formats, ", "))
}

// Names returns the names of the inputs, with commas between; "" where they are not known any more.
func (d Dataset) Names() string {
	var list []string
	for _, in := range d.Inputs {
		if in.Name != "" {
			list = append(list, in.Name)
		}
	}
	return strings.Join(list, ", ")
}

// Hub returns the repository and commit of the hub that every input was fetched from, and the path of the first one; "" if they
// come from elsewhere.
func (d Dataset) Hub() (name, commit, file string) {
	for k, in := range d.Inputs {
		rest, ok := strings.CutPrefix(in.Name, HubPrefix)
		repo, rest, at := strings.Cut(rest, "@")
		revision, path, _ := strings.Cut(rest, "/")
		if !ok || !at || k > 0 && (repo != name || revision != commit) {
			return "", "", ""
		}
		if k == 0 {
			name, commit, file = repo, revision, path
		}
	}
	return name, commit, file
}

// HubPrefix begins the names of inputs that were fetched from a hub: hf://datasets/OWNER/NAME@COMMIT/PATH.
const HubPrefix = "hf://datasets/"

// Input is one input file of a dataset.
type Input struct {
	Name   string `json:"name"` // "": not known any more
	SHA256 string `json:"sha256"`
}

// Option is the value of one option of a run and its origin.
type Option struct {
	Name  string          `json:"name"`
	Value json.RawMessage `json:"value"` // durations in seconds
	From  string          `json:"from"`  // flag, environment, file, scenario, preset or default
}

// UnmarshalJSON reads an option, also by its name of before.
func (o *Option) UnmarshalJSON(text []byte) error {
	type option Option
	err := json.Unmarshal(text, (*option)(o))
	o.Name = preset.Renamed(o.Name)
	return err
}

// isTrue reports whether an option is true.
func (r *Run) isTrue(option string) bool {
	return slices.ContainsFunc(r.Options, func(o Option) bool { return o.Name == option && string(o.Value) == "true" })
}

// RunInfo is what a summary has that no record knows: the object of run.json. A run writes it before the first record and once
// more at its end.
type RunInfo struct {
	Run
	Part          *PartInfo       `json:"part,omitempty"` // nil: the run plays a load alone
	Parts         *Parts          `json:"-"`              // of which the results are; nil: of one run
	Lanes         int             `json:"concurrency"`    // 0: trees arrive, and any number of them is played at a time
	Out           string          `json:"out"`            // directory of the results, empty when none was asked for
	Records       string          `json:"records"`        // name of the record file in it
	Arrivals      *ArrivalPlan    `json:"arrivals"`       // nil: trees are played in lanes
	SLO           []slo.Condition `json:"slo"`            // service levels; nil: there are none
	Preflight     *Preflight      `json:"preflight"`
	Context       *Context        `json:"context"`        // nil: no traces were looked at for it
	Calibration   *Calibration    `json:"calibration"`    // nil: the run was not calibrated
	Phases        []PhaseSpan     `json:"phases"`         // in their order; nil: the run has not ended, was killed, or sent nothing
	ServerMetrics *ServerMetrics  `json:"server_metrics"` // nil: none were read, or the run has not ended, or was killed
	Facts         *Facts          `json:"facts"`          // nil: the run has not ended, or was killed
}

// LostPart is a part of a load that the others have lost while they played.
type LostPart struct {
	Number int    `json:"number"`
	Host   string `json:"host"`  // name of its machine
	Cause  string `json:"cause"` // such as that its connection ended
}

// PhaseSpan is when a phase was played. The instants of its records count from its start.
type PhaseSpan struct {
	Name     string    `json:"name"`     // WarmupPhase or ProfilingPhase
	Start    time.Time `json:"start"`    // UTC
	Offset   float64   `json:"offset"`   // from the start of the first phase, seconds
	Duration float64   `json:"duration"` // to its end, seconds
}

// Facts are what is known only at the end of a run.
type Facts struct {
	PhaseDuration    float64          `json:"phase_duration"`              // of the profiling phase, seconds
	Deadline         float64          `json:"deadline,omitempty"`          // of the profiling phase: its duration, or when an interrupt ended the sending; 0: none
	ExpectedDuration float64          `json:"expected_duration,omitempty"` // of the sending of the profiling phase, as asked for, seconds; 0: no bound
	Warmup           *WarmupFacts     `json:"warmup"`                      // nil: there was none
	CPU              float64          `json:"cpu"`                         // of the phase, seconds
	PeakRSS          int64            `json:"peak_rss"`                    // bytes
	Cores            int              `json:"cores"`                       // that the process may use
	PrefillLimit     int              `json:"prefill_limit,omitempty"`     // requests without a first token; 0: no limit
	Standstills      *Standstills     `json:"standstills,omitempty"`       // of the client in the profiling phase; nil: none
	Ahead            *Ahead           `json:"ahead,omitempty"`             // nil: the phase was not played
	Load             *Load            `json:"load"`                        // nil: the phase was not played
	Prompts          *Prompts         `json:"prompts"`                     // nil: the phase was not played, or the cache could not be read again
	Branches         BranchCounts     `json:"branches"`
	Arrivals         *ArrivalFacts    `json:"arrivals,omitempty"`   // nil: trees are played in lanes
	Until            *Until           `json:"until,omitempty"`      // nil: the run was to know no metric
	Deadlocks        []DeadlockReport `json:"wedged"`               // at most MaxDeadlocks of them
	LostParts        []LostPart       `json:"lost_parts,omitempty"` // of the load, by number; nil: none
	Cancelled        bool             `json:"cancelled"`            // something other than a bound or a deadlocked tree ended the run
	Valid            *bool            `json:"valid"`                // as in the summary
	Reasons          []string         `json:"reasons"`              // as in the summary
	Coverage         *Coverage        `json:"coverage,omitempty"`   // as in the summary
}

// WholePhase returns the seconds of the profiling phase, Missing if it did not come to its end: the run was cancelled or killed.
func (f *Facts) WholePhase() Number {
	if f == nil || f.Cancelled {
		return Missing
	}
	return Number(f.PhaseDuration)
}

// Files of a run besides its records.
const (
	RunFile   = "run.json"
	LanesFile = "lanes.jsonl"
)

// maxInfo bounds RunFile, bytes: reports of deadlocked trees are its longest part.
const maxInfo = 64 << 20

// ReadInfo reads RunFile in the directory of a run. After an error it still returns the paths of the results; the error names the
// file, and wraps fs.ErrNotExist where there is none.
func ReadInfo(dir string) (info RunInfo, err error) {
	info.Out, info.Records = dir, RecordsFile
	path := filepath.Join(dir, RunFile)
	data, err := regular.Read(path, maxInfo)
	if err != nil {
		return info, err
	}
	if err = json.Unmarshal(data, &info); err != nil {
		err = jsonError(data, err)
	} else {
		err = info.check()
	}
	if err != nil {
		return info, fmt.Errorf("%s: %w; no run writes this: restore the file", path, err)
	}
	return info, nil
}

// check returns an error that names the first value that no run writes.
func (info *RunInfo) check() error {
	for k, p := range info.Phases {
		if p.Name != WarmupPhase && p.Name != ProfilingPhase {
			return fmt.Errorf("phases[%d].name: %q: want %q or %q", k, p.Name, WarmupPhase, ProfilingPhase)
		}
		if y := p.Start.Year(); y < 1970 || y > 2200 {
			return fmt.Errorf("phases[%d].start: %s: want a year from 1970 to 2200", k, p.Start.Format(time.RFC3339))
		}
	}
	for k, c := range info.SLO {
		if err := c.Check(MetricNames()); err != nil {
			return fmt.Errorf("slo[%d]: %w", k, err)
		}
	}
	for _, part := range []struct {
		key   string
		value any
	}{{"concurrency", info.Lanes}, {"arrivals", info.Arrivals}, {"phases", info.Phases}, {"facts", info.Facts}} {
		if err := checkNumbers(part.key, part.value, maxSum); err != nil {
			return err
		}
	}
	return nil
}

// ServerMetrics says which pages of metrics were read beside a run, and what became of them.
type ServerMetrics struct {
	File  string        `json:"file"`  // of their samples, in the directory of the run
	Pages []MetricsPage `json:"pages"` // in the order of their numbers in the file
	Full  bool          `json:"full"`  // the file had reached its limit: what came later is not in it
}

// MetricsPage is one of these pages.
type MetricsPage struct {
	URL       string `json:"url"`     // without user, password and query
	Default   bool   `json:"default"` // the run was not told to read it: it is that of a server
	Fetches   int    `json:"fetches"` // that were answered
	Failures  int    `json:"failures"`
	Skipped   int    `json:"skipped"`    // that were due while one ran
	LeftOut   int    `json:"left_out"`   // series that are too large or too many
	OddLines  int    `json:"odd_lines"`  // that are not understood, of the answer with the most of them
	LastError string `json:"last_error"` // of the latest failure; "": there was none
	Cut       bool   `json:"-"`          // the latest failure is a request that the end of the run has cut off
}

// BranchCounts count sessions, waits and trees by how they ended (doc/spec/replay.md 8.9). When a phase is over
//
//	ChildrenResumed + ChildrenSpawned = ChildrenCompleted + ChildrenErrored + ChildrenTruncated
//	ParentsSuspended = ParentsResumed + JoinsSuppressed
//	TreesOpened = TreesDrained + TreesReleased
type BranchCounts struct {
	conductor.Branches
	IdleSkipped float64 `json:"idle_skipped"` // by IdleJumps, seconds
}
