package replay

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/replay/measure"
)

// Files of the results in Options.Out. RunFile is there first and says what is run; it is completed at the end, and
// SummaryFile comes last.
const (
	RunFile     = "run.json"
	RecordsFile = "records.jsonl"
	LanesFile   = "lanes.jsonl"
	SummaryFile = "summary.json"
)

// ErrResultsExist is wrapped by the error about a directory that has results already.
var ErrResultsExist = errors.New("there are results already")

// CheckResultsDir reports results that a directory has. A run that came to its end and sent nothing, such as one that the preflight
// refused, has left none.
func CheckResultsDir(dir string) error {
	if sentNothing(dir) {
		return nil
	}
	for _, name := range []string{RunFile, RecordsFile, LanesFile, SummaryFile} {
		_, err := os.Lstat(filepath.Join(dir, name))
		if err == nil {
			return fmt.Errorf("%s: %w: %s", dir, ErrResultsExist, name)
		}
	}
	return nil
}

// sentNothing reports whether a directory has the files of a run that came to its end without a record.
func sentNothing(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, SummaryFile))
	records, recordsErr := os.Lstat(filepath.Join(dir, RecordsFile))
	return err == nil && recordsErr == nil && records.Size() == 0
}

// openResults makes the directory of the results, says in it what is run, and opens the file of the records.
func (p *player) openResults() (err error) {
	if p.Out == "" {
		return nil
	}
	if err := p.makeOut(); errors.Is(err, ErrResultsExist) {
		return err
	} else if err != nil {
		return fmt.Errorf("results: %w", err)
	}
	if p.records, err = measure.Create(filepath.Join(p.Out, RecordsFile)); err != nil {
		if errors.Is(err, fs.ErrExist) { // another run was faster
			return fmt.Errorf("%s: %w: %s", p.Out, ErrResultsExist, RecordsFile)
		}
		return fmt.Errorf("results: %w", err)
	}
	p.info.Out, p.info.Records = p.Out, RecordsFile
	if err := p.writeInfo(); err != nil {
		return errors.Join(fmt.Errorf("results: %w", err), p.closeRecords())
	}
	return nil
}

// own is an error where another run has taken the directory over since this one began in it.
func (p *player) own() error {
	there, err := readInfo(p.Out)
	if err == nil && !there.Start.Equal(p.info.Start) {
		return fmt.Errorf("%s: another run has replaced the results: those of this one end here", p.Out)
	}
	return nil
}

// makeOut makes the directory. Of several runs that want one new directory each gets its own; results that are there are
// only written over where that is wanted, and are gone before the first of the new ones is there.
func (p *player) makeOut() error {
	if p.OutNew {
		return p.makeNew()
	}
	if err := os.MkdirAll(p.Out, 0o777); err != nil {
		return err
	}
	if !p.Overwrite && !sentNothing(p.Out) {
		return CheckResultsDir(p.Out)
	}
	for _, name := range []string{SummaryFile, LanesFile, RunFile, RecordsFile} {
		if err := os.Remove(filepath.Join(p.Out, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// makeNew makes a directory that was not there, with a number behind its name where need be.
func (p *player) makeNew() error {
	if err := os.MkdirAll(filepath.Dir(p.Out), 0o777); err != nil {
		return err
	}
	name := p.Out
	for n := 2; ; n++ {
		err := os.Mkdir(p.Out, 0o777)
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
		p.Out = fmt.Sprintf("%s-%d", name, n)
	}
}

// about is what is run, as far as it is known before.
func (p *player) about() measure.RunInfo {
	r := p.Options.Provenance
	r.Host, r.URL, r.Model = "unknown", RedactURL(p.URL), p.Model
	if host, err := os.Hostname(); err == nil {
		r.Host = host
	}
	r.Dataset.Key, r.Dataset.Path = p.Cache.Manifest.Key, p.Cache.Path()
	return measure.RunInfo{Run: r, Lanes: p.Concurrency}
}

// utc is the time, as it is read back from JSON.
func utc() time.Time { return time.Now().UTC().Round(0) }

// writeInfo writes what no record knows.
func (p *player) writeInfo() error {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false) // as in the summary
	e.SetIndent("", "  ")
	if err := e.Encode(p.info); err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(p.Out, RunFile), text.Bytes())
}

// summary is what the run reports at its end.
func (p *player) summary(f measure.Facts) *measure.Summary {
	end := utc()
	p.info.End, p.info.Facts = &end, &f
	s := p.aggregate.Summary(p.info)
	return &s
}

// write writes the results but for the records, of which it writes what is left. The summary comes last.
func (p *player) write(s *measure.Summary) error {
	if p.Out == "" {
		return nil
	}
	var errs []error
	if err := p.closeRecords(); err != nil {
		errs = append(errs, fmt.Errorf("results: %s: %w", filepath.Join(p.Out, RecordsFile), err))
	}
	if err := p.own(); err != nil {
		return errors.Join(append(errs, fmt.Errorf("results: %w", err))...)
	}
	var lines bytes.Buffer
	e := json.NewEncoder(&lines)
	for _, l := range p.lanes {
		errs = append(errs, e.Encode(l))
	}
	errs = append(errs, durable.WriteFile(filepath.Join(p.Out, LanesFile), lines.Bytes()), p.writeInfo(), writeSummary(p.Out, s))
	return errors.Join(errs...)
}

func writeSummary(dir string, s *measure.Summary) error {
	var line bytes.Buffer
	if err := s.WriteJSON(&line); err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(dir, SummaryFile), line.Bytes())
}

// RebuildSummary makes the summary of a run again from what it wrote, writes it and returns it. Of a run that was killed it has
// what its records say, and about names what is missing.
func RebuildSummary(dir string) (s *measure.Summary, about []string, err error) {
	info, err := readInfo(dir)
	if errors.Is(err, fs.ErrNotExist) {
		about = append(about, fmt.Sprintf("%s: there is no %s: what was run is not known", dir, RunFile))
		err = nil
	}
	if err != nil {
		return nil, nil, err
	}
	a := measure.NewAggregate()
	file, err := os.Open(filepath.Join(dir, RecordsFile))
	if err != nil {
		return nil, nil, fmt.Errorf("%s: no results of a run: %w", dir, err)
	}
	defer file.Close()
	torn, err := a.Rebuild(file)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", filepath.Join(dir, RecordsFile), err)
	}
	if torn {
		about = append(about, fmt.Sprintf("%s: the last line is cut off and left out", filepath.Join(dir, RecordsFile)))
	}
	if info.Facts == nil {
		about = append(about, fmt.Sprintf("%s: the run did not come to its end: what only that tells is null", dir))
	}
	made := a.Summary(info)
	return &made, about, writeSummary(dir, &made)
}

// readInfo reads what no record knows. Where there is no such file, that is where the results lie.
func readInfo(dir string) (info measure.RunInfo, err error) {
	info.Out, info.Records = dir, RecordsFile
	data, err := os.ReadFile(filepath.Join(dir, RunFile))
	if err == nil {
		err = json.Unmarshal(data, &info)
	}
	if err != nil {
		return info, fmt.Errorf("%s: %w", filepath.Join(dir, RunFile), err)
	}
	return info, nil
}
