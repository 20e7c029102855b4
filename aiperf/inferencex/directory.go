package inferencex

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/agentx/agentx/internal/regular"
)

// The files of AIPerf that InferenceX reads.
const (
	RowsFile      = "profile_export.jsonl"
	AggregateFile = "profile_export_aiperf.json"
	TableFile     = "profile_export_aiperf.csv"
)

// Find returns the directory in which InferenceX reads the files of a run: the given one if it has rows, else the first of its
// child directories, by name, that has some.
func Find(dir string) (string, error) {
	if hasRows(dir) {
		return dir, nil
	}
	children, err := os.ReadDir(dir) // sorted by name
	if err != nil {
		return "", err
	}
	for _, child := range children {
		if below := filepath.Join(dir, child.Name()); child.IsDir() && hasRows(below) {
			return below, nil
		}
	}
	return "", fmt.Errorf("%s: there is no %s, nor in a directory below it: %w", dir, RowsFile, fs.ErrNotExist)
}

func hasRows(dir string) bool {
	info, err := os.Stat(filepath.Join(dir, RowsFile))
	return err == nil && info.Mode().IsRegular()
}

// maxAggregate is how many bytes an aggregate may have.
const maxAggregate = 256 << 20

// readSmall reads a file of a directory, which may have no more than maxAggregate bytes. A missing file is nil.
func readSmall(dir, name string) ([]byte, error) {
	data, err := regular.Read(filepath.Join(dir, name), maxAggregate)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}
