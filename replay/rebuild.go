package replay

import (
	"fmt"
	"path/filepath"

	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/merge"
	"github.com/agentx/agentx/replay/slo"
)

// Summarize computes the summary of a run, or of all parts of a load, from the files that it wrote. The summary of a run that was killed
// has what its records say; missing says, in one line each, what is not known. Service levels that are not nil take the place of
// those of the run.
func Summarize(run *merge.Run, levels []slo.Condition) (s *measure.Summary, missing []string, err error) {
	info := run.Info
	missing = append(missing, run.Missing...)
	if !run.Known {
		missing = append(missing, fmt.Sprintf("%s: there is no %s: what was run is not known", run.Dir, RunFile))
	}
	rules, err := measure.RulesOfRun(info.Run)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", filepath.Join(run.Dir, RunFile), err)
	}
	if levels != nil {
		info.SLO = levels
	}
	a := measure.NewAggregate(rules, info.SLO...)
	records, err := run.Records()
	if err != nil {
		return nil, nil, fmt.Errorf("%s: not the results of a run: %w", run.Dir, err)
	}
	defer records.Close()
	if err := a.Rebuild(records); err != nil {
		return nil, nil, err
	}
	if records.Torn() {
		missing = append(missing, fmt.Sprintf("%s: the last line is cut off and left out", filepath.Join(run.Dir, RecordsFile)))
	}
	if err := records.ContentsError(); err != nil {
		missing = append(missing, fmt.Sprintf("%v: from there on the instants of content messages are not known, which no figure of the summary needs", err))
	}
	if info.Facts == nil {
		missing = append(missing, fmt.Sprintf("%s: the run has not ended, or was killed: figures known only at its end are null", run.Dir))
	}
	summary := a.Summary(info)
	return &summary, missing, nil
}
