package simulate

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/internal/terminal"
)

// The files of a run: doc/spec/simulate.md 9.4. Equal runs give equal bytes in all but timingFile and, for its wall time, dynamoFile.
const (
	summaryFile  = "summary.json"
	requestsFile = "requests.jsonl"
	timingFile   = "timing.json"
	dynamoFile   = "dynamo.json"
	PageFile     = "simulate.html"
	LogFile      = "simulate.log.jsonl.gz" // beside the page
)

// ErrResultsExist says that a directory holds the results of a run.
var ErrResultsExist = errors.New("it holds results")

// Timing is what a run cost, in seconds and bytes.
type Timing struct {
	Wall        float64 `json:"wall"`
	CPU         float64 `json:"cpu"` // of the process, which other runs may share
	RequestRate float64 `json:"requests_per_second"`
	PeakRSS     int64   `json:"peak_rss"`
}

// Files say which files of a run are written, and where.
type Files struct {
	Dir        string
	PerRequest bool // requestsFile
	Dynamo     bool // dynamoFile
	Overwrite  bool // replaces the files of another run
	Made       []MadeFile
}

// MadeFile is a file of a run that somebody else makes, such as its page.
type MadeFile struct {
	Name string
	Data []byte
}

// Check returns an error that wraps ErrResultsExist if the directory holds results that stay.
func (f Files) Check() error { return f.CheckFile(summaryFile) }

// CheckFile is Check for the results that a file says of.
func (f Files) CheckFile(name string) error {
	if f.Dir == "" || f.Overwrite {
		return nil
	}
	_, err := os.Lstat(filepath.Join(f.Dir, name))
	switch {
	case err == nil:
		return fmt.Errorf("%s: %w: %s", f.Dir, ErrResultsExist, name)
	case errors.Is(err, fs.ErrNotExist):
		return nil
	}
	return err
}

// Write writes the files of a run, the summary last. Each appears whole.
func (f Files) Write(r *Result, s *Summary, t Timing) error {
	if err := f.Check(); err != nil {
		return err
	}
	if err := os.MkdirAll(f.Dir, 0o777); err != nil {
		return fmt.Errorf("results: %w", err)
	}
	if err := f.remove(); err != nil {
		return fmt.Errorf("results: %w", err)
	}
	var errs []error
	if f.PerRequest {
		var lines bytes.Buffer
		errs = append(errs, r.writeRequests(&lines), f.write(requestsFile, lines.Bytes()))
	}
	if f.Dynamo {
		errs = append(errs, f.writeJSON(dynamoFile, r.dynamo(s, t.Wall)))
	}
	errs = append(errs, WriteMade(f.Dir, f.Made))
	var line bytes.Buffer
	errs = append(errs, f.writeJSON(timingFile, t), s.WriteJSON(&line), f.write(summaryFile, line.Bytes()))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("results: %w", err)
	}
	return nil
}

// WriteMade writes files that somebody else has made to a directory. Each appears whole.
func WriteMade(dir string, files []MadeFile) error {
	var errs []error
	for _, one := range files {
		errs = append(errs, durable.WriteFile(filepath.Join(dir, one.Name), one.Data))
	}
	return errors.Join(errs...)
}

// remove removes the files of another run: readers would take those that are not written again for those of this one.
func (f Files) remove() error {
	for _, name := range []string{summaryFile, requestsFile, timingFile, dynamoFile, PageFile, LogFile} {
		if err := os.Remove(filepath.Join(f.Dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func (f Files) writeJSON(name string, v any) error {
	var text bytes.Buffer
	if err := terminal.IndentedJSON(&text, v); err != nil {
		return err
	}
	return f.write(name, text.Bytes())
}

func (f Files) write(name string, data []byte) error {
	return durable.WriteFile(filepath.Join(f.Dir, name), data)
}
