package replay

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/scrape"
)

// Files of the results in Options.Out. RunFile is written first and says what is run; it is completed at the end, and
// SummaryFile comes last.
const (
	RunFile      = measure.RunFile
	RecordsFile  = measure.RecordsFile
	ContentsFile = measure.ContentsFile
	LanesFile    = measure.LanesFile
	SummaryFile  = "summary.json"

	// ConcurrenciesFile is the index of a list of runs, in the directory above theirs.
	ConcurrenciesFile = "concurrencies.json"
)

// resultFiles are all files of results, in the order in which old ones are removed: what needs others first.
var resultFiles = []string{SummaryFile, LanesFile, RunFile, RecordsFile, ContentsFile, measure.ClockFile, scrape.File, ConcurrenciesFile}

// reportFiles are the files that agentx report makes of results by default. Old ones are removed with the results: readers would
// take them for those of the new run.
var reportFiles = []string{
	".aiperf_results_ready.json", "profile_export_aiperf.json", "profile_export_aiperf.csv", "profile_export_console.txt",
	"profile_export_aiperf_timeslices.json", "profile_export_aiperf_timeslices.csv", "profile_export.jsonl", "profile_export_excluded.jsonl",
	"server_metrics_export.json", "server_metrics_export.csv", "records.parquet", "report.html",
}

// resultsDir is the directory of the results.
type resultsDir struct {
	path      string // "": none
	unique    bool
	overwrite bool
	ofPart    bool // it lies in that of the whole load
}

// CheckResultsDir returns an error that wraps ErrResultsExist if a directory holds results. Those of a run that ended
// without a request do not count.
func CheckResultsDir(dir string) error {
	if sentNothing(dir) {
		return nil
	}
	for _, name := range resultFiles {
		_, err := os.Lstat(filepath.Join(dir, name))
		if err == nil {
			return fmt.Errorf("%s: %w: %s", dir, ErrResultsExist, name)
		}
	}
	return nil
}

// sentNothing reports whether a directory holds the files of a run, or of a list of runs, that came to its end without a
// record.
func sentNothing(dir string) bool {
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return true
	}
	if list, err := ReadList(dir); err == nil {
		return !slices.ContainsFunc(list.Runs, func(r measure.ListedRun) bool {
			return r.Headline != nil && !sentNothing(filepath.Join(dir, r.Dir))
		})
	}
	_, err := os.Lstat(filepath.Join(dir, SummaryFile))
	records, recordsErr := os.Lstat(filepath.Join(dir, RecordsFile))
	return err == nil && recordsErr == nil && records.Size() == 0
}

// check returns an error if the directory cannot be made, or holds results that stay. It leaves nothing behind.
func (d *resultsDir) check() error {
	if d.path == "" {
		return nil
	}
	dir := d.path
	if d.unique {
		dir = filepath.Dir(dir)
	} else if err := d.checkNames(); err != nil {
		return fmt.Errorf("results: %w", err)
	} else if !d.overwrite {
		if err := CheckResultsDir(dir); err != nil {
			return err
		}
	}
	for _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) && dir != filepath.Dir(dir); _, err = os.Stat(dir) {
		dir = filepath.Dir(dir)
	}
	trial, err := os.MkdirTemp(dir, ".agentx-*")
	var refused *fs.PathError
	if errors.As(err, &refused) {
		return fmt.Errorf("results: mkdir %s: %w", d.path, refused.Err)
	}
	return errors.Join(err, os.Remove(trial))
}

// checkNames returns an error if a directory has the name of a file of the results, or of one that is made of them.
func (d *resultsDir) checkNames() error {
	for _, name := range slices.Concat(resultFiles, reportFiles) {
		if err := durable.CheckFile(d.file(name)); err != nil {
			return err
		}
	}
	return nil
}

// make makes the directory. Runs that want the same new directory each get their own. Old results are removed, if that is
// allowed, before the first new file is written.
func (d *resultsDir) make() error {
	if d.unique {
		return d.makeUnique()
	}
	if err := errors.Join(os.MkdirAll(d.path, 0o777), d.checkNames()); err != nil {
		return err
	}
	if !d.overwrite && !sentNothing(d.path) {
		return CheckResultsDir(d.path)
	}
	for _, path := range d.old() {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// old returns the paths of old results. Where a part overwrites its own, they are also what was made of all parts.
func (d *resultsDir) old() (paths []string) {
	if d.ofPart && d.overwrite {
		for _, name := range append(slices.Clone(reportFiles), SummaryFile) {
			paths = append(paths, filepath.Join(filepath.Dir(d.path), name))
		}
	}
	for _, name := range slices.Concat(reportFiles, resultFiles) {
		paths = append(paths, d.file(name))
	}
	return paths
}

// makeUnique makes a new directory, and appends a number to a name that is taken.
func (d *resultsDir) makeUnique() error {
	if err := os.MkdirAll(filepath.Dir(d.path), 0o777); err != nil {
		return err
	}
	name := d.path
	for n := 2; ; n++ {
		err := os.Mkdir(d.path, 0o777)
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
		d.path = fmt.Sprintf("%s-%d", name, n)
	}
}

func (d *resultsDir) file(name string) string { return filepath.Join(d.path, name) }

// open makes the directory, writes what is run, and opens the file of the records.
func (r *results) open() (err error) {
	r.info.Start = utc()
	if r.dir.path == "" {
		return nil
	}
	if err := r.dir.make(); errors.Is(err, ErrResultsExist) {
		return err
	} else if err != nil {
		return fmt.Errorf("results: %w", err)
	}
	if r.records, err = measure.Create(r.dir.path); err != nil {
		if errors.Is(err, fs.ErrExist) { // another run was faster
			return fmt.Errorf("%s: %w: %s", r.dir.path, ErrResultsExist, RecordsFile)
		}
		return fmt.Errorf("results: %w", err)
	}
	r.info.Out, r.info.Records = r.dir.path, RecordsFile
	if err := r.writeInfo(); err != nil {
		return errors.Join(fmt.Errorf("results: %w", err), r.closeRecords())
	}
	return nil
}

func (r *results) closeRecords() error {
	if r.records == nil {
		return nil
	}
	return r.records.Close()
}

// write completes the results. The summary comes last.
func (r *results) write(s *measure.Summary) error {
	if r.dir.path == "" {
		return nil
	}
	var errs []error
	if err := r.closeRecords(); err != nil {
		errs = append(errs, fmt.Errorf("results: %s: %w", r.dir.file(RecordsFile), err))
	}
	if err := r.checkOwner(); err != nil {
		return errors.Join(append(errs, fmt.Errorf("results: %w", err))...)
	}
	var lines bytes.Buffer
	e := json.NewEncoder(&lines)
	for _, l := range r.lanes {
		errs = append(errs, e.Encode(l))
	}
	errs = append(errs, durable.WriteFile(r.dir.file(LanesFile), lines.Bytes()), r.writeInfo(), WriteSummary(r.dir.path, s))
	return errors.Join(errs...)
}

// checkOwner returns an error if another run has replaced the results since this one opened them.
func (r *results) checkOwner() error {
	written, err := measure.ReadInfo(r.dir.path)
	if err == nil && !written.Start.Equal(r.info.Start) {
		return fmt.Errorf("%s: another run has replaced the results: this run writes no more", r.dir.path)
	}
	return nil
}

// writeInfo writes RunFile.
func (r *results) writeInfo() error {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false) // as in the summary
	e.SetIndent("", "  ")
	if err := e.Encode(r.info); err != nil {
		return err
	}
	return durable.WriteFile(r.dir.file(RunFile), text.Bytes())
}

// WriteSummary writes SummaryFile into a directory.
func WriteSummary(dir string, s *measure.Summary) error {
	var line bytes.Buffer
	if err := s.WriteJSON(&line); err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(dir, SummaryFile), line.Bytes())
}
