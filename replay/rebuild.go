package replay

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/slo"
)

// RebuildSummary computes the summary of a run from the files that it wrote, writes it and returns it. The summary of a
// run that was killed has what its records say; missing says, in one line each, what is not known.
func RebuildSummary(dir string) (s *measure.Summary, missing []string, err error) {
	s, missing, err = Summarize(dir, nil)
	if err != nil {
		return nil, nil, err
	}
	return s, missing, writeSummary(dir, s)
}

// Summarize computes the summary of a run from the files that it wrote; missing as RebuildSummary. Service levels that are not nil take the
// place of those of the run.
func Summarize(dir string, levels []slo.Condition) (s *measure.Summary, missing []string, err error) {
	info, err := measure.ReadInfo(dir)
	if errors.Is(err, fs.ErrNotExist) {
		missing = append(missing, fmt.Sprintf("%s: there is no %s: what was run is not known", dir, RunFile))
		err = nil
	}
	if err != nil {
		return nil, nil, err
	}
	rules, err := measure.RulesOfRun(info.Run)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", filepath.Join(dir, RunFile), err)
	}
	if levels != nil {
		info.SLO = levels
	}
	a := measure.NewAggregate(rules, info.SLO...)
	records, err := measure.OpenRecords(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: no results of a run: %w", dir, err)
	}
	defer records.Close()
	if err := a.Rebuild(records); err != nil {
		return nil, nil, err
	}
	if records.Torn() {
		missing = append(missing, fmt.Sprintf("%s: the last line is cut off and left out", filepath.Join(dir, RecordsFile)))
	}
	if err := records.ContentsError(); err != nil {
		missing = append(missing, fmt.Sprintf("%v: from there on the instants of content messages are not known, which no figure of the summary needs", err))
	}
	if info.Facts == nil {
		missing = append(missing, fmt.Sprintf("%s: the run has not ended, or was killed: figures known only at its end are null", dir))
	}
	summary := a.Summary(info)
	return &summary, missing, nil
}
