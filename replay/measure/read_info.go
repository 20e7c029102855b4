package measure

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"

	"github.com/agentx/agentx/internal/regular"
)

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
