// Package index is the front page of a directory of runs: a table of all runs below it with their figures and conclusions, as a file or served
// while runs go on. doc/spec/report.md 4.8 has the rules.
package index

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/agentx/agentx/cmd/internal/report/compare"
	"github.com/agentx/agentx/cmd/internal/report/page"
	"github.com/agentx/agentx/internal/regular"
	"github.com/agentx/agentx/replay"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/merge"
	"github.com/agentx/agentx/replay/slo"
)

// File is the name of the page in a directory.
const File = "index.html"

// summaryFile is what a run writes last: doc/spec/results.md 3.
const summaryFile = "summary.json"

// Bounds of what is read below a directory.
const (
	maxRuns    = 5000
	maxSummary = 64 << 20 // bytes
)

// Run is a run of an index.
type Run struct {
	Number  int                       `json:"number,omitempty"` // by which a server knows it, from 1; 0: nothing is served
	Label   string                    `json:"label"`            // "": it was given none
	Dir     string                    `json:"dir"`              // below the directory of the index, with slashes
	Page    string                    `json:"page,omitempty"`   // address of its page; "": it has none
	Start   string                    `json:"start"`            // RFC 3339, UTC; "": not known
	Model   string                    `json:"model"`
	Served  string                    `json:"served"` // by which engine and GPUs, as the run was told
	Lanes   int                       `json:"lanes"`  // 0: trees arrived
	State   State                     `json:"state"`
	Figures map[string]measure.Number `json:"figures"` // by the names of Columns
	Verdict string                    `json:"verdict"` // the conclusion of the run in a sentence
	Doubt   bool                      `json:"doubt"`   // it misses a service level, or has remarks that are no notes
	Missed  bool                      `json:"missed"`  // it misses a service level, or has remarks that broke it

	Comparison string `json:"comparison,omitempty"` // address of the comparison of its list of runs; "": there is none

	path string
}

// State says whether a run has come to its end.
type State string

// The states.
const (
	Ended   State = "ended"
	Open    State = "no end" // it was killed, or goes on
	Playing State = "playing"
	Killed  State = "killed" // a server has seen no record of it for long
)

// Column is a figure of the table.
type Column struct {
	Name   string   `json:"name"`
	Title  string   `json:"title"`
	Unit   slo.Unit `json:"unit"`
	Better int      `json:"better"` // 1: more is better; -1: less is

	of func(s *measure.Summary) measure.Number
}

// Columns are the figures that an index shows of each run.
var Columns = columns()

func columns() (list []Column) {
	for _, name := range []string{"output_token_rate", "ttft.p50", "ttft.p95", "itl.p50", "itl.p95", "token_hit_rate", "error-rate"} {
		f, err := measure.ParseFigure(name)
		if err != nil {
			panic(err) // a name of the table above
		}
		c := Column{name, strings.NewReplacer("_", " ", ".", " ").Replace(name), f.Unit, -1, func(s *measure.Summary) measure.Number { return s.Figure(f) }}
		if f.MoreIsBetter {
			c.Better = 1
		}
		list = append(list, c)
	}
	perGPU := Column{"per_gpu", "output tokens per GPU", slo.Rate, 1, func(s *measure.Summary) measure.Number {
		if n := s.Run.GPUs(); n > 0 {
			return s.OutputTokenRate / measure.Number(n)
		}
		return measure.Missing
	}}
	leftOut := Column{"left_out", "left out", slo.Share, -1, func(s *measure.Summary) measure.Number { return s.Unseen.Share }}
	return append(slices.Insert(list, 1, perGPU), leftOut)
}

// Read returns the runs in and below a directory, the latest first. It does not follow links. It returns an error for more than maxRuns; what
// cannot be read of a run its verdict says.
func Read(root string) (list []Run, err error) {
	return readAll(root, func(path, dir string) Run { return readRun(path, dir, true) })
}

// readAll is Read with a function that reads a run, by its path and its directory below the root.
func readAll(root string, read func(path, dir string) Run) (list []Run, err error) {
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil && path == root:
			return err
		case err != nil:
			return fs.SkipDir // which a reader of the directory may not see, either
		case !entry.IsDir():
			return nil
		case !isRun(path):
			return nil
		case len(list) == maxRuns:
			return fmt.Errorf("%s: more than %d runs: name a directory with fewer", root, maxRuns)
		}
		dir, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		list = append(list, read(path, filepath.ToSlash(dir)))
		return fs.SkipDir
	})
	slices.SortStableFunc(list, func(a, b Run) int { return cmp.Or(cmp.Compare(b.Start, a.Start), cmp.Compare(a.Dir, b.Dir)) })
	return list, err
}

// isRun reports whether a directory has the records of a run, or of the parts of a load.
func isRun(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, measure.RecordsFile))
	return err == nil || merge.IsLoad(dir)
}

// readRun reads what an index has of a run: its summary, or where it has none that of its records, if they count, and what the run was to do.
func readRun(path, dir string, records bool) Run {
	r := Run{Dir: dir, State: Ended, Figures: map[string]measure.Number{}, path: path}
	s, err := readSummary(filepath.Join(path, summaryFile))
	if errors.Is(err, fs.ErrNotExist) && records {
		if known := summaryOfRecords(path); known != nil {
			s, err, r.State = known, nil, Open
		}
	}
	about, lanes := &measure.Run{}, 0
	switch {
	case err == nil:
		about, lanes, r.Verdict = &s.Run, s.Concurrency, s.Conclusion()
		r.Doubt = slices.ContainsFunc(s.Remarks, func(m measure.Remark) bool { return m.Level != measure.Note }) || missed(s)
		r.Missed = missed(s) || slices.ContainsFunc(s.Remarks, func(m measure.Remark) bool { return m.Level == measure.Broken })
	case errors.Is(err, fs.ErrNotExist):
		r.State, r.Verdict = Open, "It has not ended, or was killed: there is no summary yet."
	default:
		r.Doubt, r.Verdict = true, fmt.Sprintf("Its %s cannot be read: agentx report makes it again.", summaryFile)
	}
	if info, fault := measure.ReadInfo(path); err != nil && fault == nil {
		about, lanes = &info.Run, info.Lanes
	}
	for _, c := range Columns {
		r.Figures[c.Name] = measure.Missing
		if s != nil {
			r.Figures[c.Name] = c.of(s)
		}
	}
	r.Label, r.Model, r.Lanes = about.Option("label"), about.Model, lanes
	if !about.Start.IsZero() {
		r.Start = about.Start.UTC().Format(time.RFC3339)
	}
	r.Served = servedBy(about)
	return r
}

// summaryOfRecords returns the summary of what a run without an end has written; nil: there is nothing that can be read.
func summaryOfRecords(path string) *measure.Summary {
	opened, err := merge.Open(path, merge.Options{Partial: true})
	if err != nil {
		return nil
	}
	s, _, err := replay.Summarize(opened, nil)
	if err != nil || s.Requests == 0 {
		return nil
	}
	return s
}

// missed reports whether a run misses a service level.
func missed(s *measure.Summary) bool {
	return s.Goodput != nil && slices.ContainsFunc(s.Goodput.Conditions, func(c measure.LevelResult) bool { return c.Met != nil && !*c.Met })
}

// servedBy says what the run was told of its servers: sglang 0.5.4, 8 H200.
func servedBy(r *measure.Run) string {
	gpus := r.Option("gpu")
	if n := r.GPUs(); n > 0 {
		gpus = fmt.Sprintf("%d %s", n, cmp.Or(gpus, "GPUs"))
	}
	return strings.Join(slices.DeleteFunc([]string{r.Option("engine"), gpus}, func(s string) bool { return s == "" }), ", ")
}

// readSummary reads the summary of a run.
func readSummary(path string) (*measure.Summary, error) {
	data, err := regular.Read(path, maxSummary)
	if err != nil {
		return nil, err
	}
	s := &measure.Summary{}
	if err := json.Unmarshal(data, s); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// head is what the page draws.
type head struct {
	Runs    []Run    `json:"runs"`
	Columns []Column `json:"columns"`
	Served  bool     `json:"served"` // runs have numbers, and the page asks for /data
	Most    int      `json:"most"`   // runs of a comparison
}

// title names an index by its directory.
func title(root string) string {
	if abs, err := filepath.Abs(root); err == nil {
		root = abs
	}
	return "Runs: " + filepath.Base(root)
}

// HTML returns the page of the runs below a directory, as a file in the directory out, with links to the pages that the runs have.
func HTML(root, out string) ([]byte, error) {
	list, err := Read(root)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s: no run is in or below it: want a directory that replay --out wrote to", root)
	}
	for k := range list {
		list[k].Page = compare.LinkTo(out, list[k].path, compare.RunPage)
		if above := filepath.Dir(list[k].path); hasFile(above, listFile) {
			list[k].Comparison = compare.LinkTo(out, above, comparisonFile)
		}
	}
	return pageOf(root, list, false)
}

// Files of a list of runs, such as a sweep, in the directory above them.
const (
	listFile       = "concurrencies.json"
	comparisonFile = "compare.html"
)

func hasFile(dir, name string) bool {
	info, err := os.Lstat(filepath.Join(dir, name))
	return err == nil && info.Mode().IsRegular()
}

func pageOf(root string, list []Run, served bool) ([]byte, error) {
	var text bytes.Buffer
	err := page.Write(&text, &page.Page{Kind: "index", Title: title(root), Head: head{list, Columns, served, mostCompare}, Live: served, Plain: plain(list)})
	return text.Bytes(), err
}

// plain is what a reader of the page without JavaScript sees.
func plain(list []Run) page.Plain {
	rows := [][]string{{"run", "started, UTC", "model", "lanes"}}
	for _, c := range Columns {
		rows[0] = append(rows[0], c.Title)
	}
	rows[0] = append(rows[0], "conclusion")
	for _, r := range list {
		row := []string{cmp.Or(r.Label, r.Dir), r.Start, r.Model, fmt.Sprint(r.Lanes)}
		for _, c := range Columns {
			row = append(row, measure.FormatFigure(r.Figures[c.Name], c.Unit))
		}
		rows = append(rows, append(row, r.Verdict))
	}
	return page.Plain{Tables: [][][]string{rows}}
}
