package measure

import (
	"encoding/json"
	"fmt"
	"path/filepath"

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
	if err := json.Unmarshal(data, &info); err != nil {
		return info, fmt.Errorf("%s: %w", path, err)
	}
	return info, nil
}
