package report

import (
	"fmt"
	"path/filepath"

	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/merge"
	"github.com/agentx/agentx/replay/preset"
)

// Run is a run that wrote its results to a directory, or all parts of a load as one run.
type Run struct {
	Dir      string
	Info     measure.RunInfo      // of run.json
	Lanes    []measure.LaneReport // of lanes.jsonl; nil if it was not written
	Switches preset.Switches      // of the run's preset, with those that were set
	Missing  []string             // what is not known, one line each; Compute adds to it

	// Slice is the length of the slices of time that Compute cuts the run into, in nanoseconds; 0: none.
	Slice int64

	// Files are the results that were opened.
	Files *merge.Run

	rules measure.Rules
}

// Open reads what the directory of a run has besides its records. A run that was killed lacks some of it: Missing says what. Of the
// parts of a load none may be missing.
func Open(dir string) (*Run, error) {
	files, err := merge.Open(dir, merge.Options{})
	if err != nil {
		return nil, err
	}
	return Of(files)
}

// Of returns the run of results that are open.
func Of(files *merge.Run) (*Run, error) {
	run := &Run{Dir: files.Dir, Info: files.Info, Files: files}
	run.Missing = append(run.Missing, files.Missing...)
	switch {
	case !files.Known:
		run.miss("%s: there is no %s: what was run is not known", run.Dir, measure.RunFile)
	case run.Info.Facts == nil:
		run.miss("%s: the run has not ended, or was killed: figures known only at its end are left out", run.Dir)
	}
	var err error
	if run.Switches, err = measure.SwitchesOfRun(run.Info.Run); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(run.Dir, measure.RunFile), err)
	}
	if run.Switches.FlowCurve != preset.FlowChunks {
		run.miss("%s: its run was to spread tokens by FlowCurve %s, which is gone: curves spread them over the gaps between chunks", run.Dir, run.Switches.FlowCurve)
		run.Switches.FlowCurve = preset.FlowChunks
	}
	run.rules = measure.RulesOf(&run.Switches)
	if run.Lanes, err = files.Lanes(); err != nil {
		return nil, err
	}
	return run, nil
}

// Harness reports whether the run was played as agentx-harness plays. Then tables have what its files have as well.
func (run *Run) Harness() bool {
	name, _ := preset.Canonical(run.Info.Preset)
	return name == preset.AgentX
}

// Rules returns the rules by which records become numbers.
func (run *Run) Rules() measure.Rules { return run.rules }

func (run *Run) miss(format string, args ...any) {
	run.Missing = append(run.Missing, fmt.Sprintf(format, args...))
}

// Origin returns when a phase started, in nanoseconds since 1970: the wall clock of an instant of its records is Origin plus
// measure.Nanos of it. Of a run whose phases are not known it is the start of the run.
func (run *Run) Origin(phase string) int64 {
	for _, p := range run.Info.Phases {
		if p.Name == phase {
			return p.Start.UnixNano()
		}
	}
	if run.Info.Start.IsZero() {
		return 0
	}
	return run.Info.Start.UnixNano()
}

// RowMetric is one metric of a request: a value, or of inter_chunk_latency a list.
type RowMetric struct {
	Tag   string
	Unit  string
	Value Number
	List  []Number // nil for a value
}

// RowMetrics returns the metrics that a request has, in the order of doc/spec/replay.md 8.2. A failed request has none, but for the
// prompt of an answer without content in a run that was played as the harness plays.
func (run *Run) RowMetrics(r *measure.Record) (list []RowMetric) {
	numbers := newRow(r)
	if r.Error != nil {
		if run.Harness() && numbers.noContent && numbers.PromptTokens != 0 {
			list = append(list, RowMetric{Tag: errorISL, Unit: "tokens", Value: Int(numbers.PromptTokens.N())})
		}
		return list
	}
	for _, m := range run.metrics() {
		if m.of == nil {
			if gaps := gapList(r); len(gaps) > 0 {
				list = append(list, RowMetric{Tag: m.tag, Unit: m.unit, List: gaps})
			}
		} else if v, ok := m.of(&numbers, &run.rules); ok {
			list = append(list, RowMetric{Tag: m.tag, Unit: m.unit, Value: v})
		}
	}
	return list
}

// gapList returns the times between the content messages of an answer.
func gapList(r *measure.Record) (list []Number) {
	last := int64(-1)
	for at := range r.Contents.All() {
		if last >= 0 {
			list = append(list, milliseconds(float64(int64(at)-last)))
		}
		last = int64(at)
	}
	return list
}
