package measure

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/agentx/agentx/internal/regular"
)

// maxLaneLine bounds a line of LanesFile, bytes.
const maxLaneLine = 1 << 20

// ReadLanes reads LanesFile in the directory of a run; nil where there is none. An error names the file and the line.
func ReadLanes(dir string) (lanes []LaneReport, err error) {
	path := filepath.Join(dir, LanesFile)
	file, err := regular.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, maxLaneLine)
	for n := 1; lines.Scan(); n++ {
		var l LaneReport
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			return nil, fmt.Errorf("%s: line %d: %w; no run writes this: restore the file, or remove it, and the page does without", path, n, err)
		}
		lanes = append(lanes, l)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return lanes, nil
}
