// Package compare compares runs: which of their figures differ beyond chance, and whether they may be compared at all.
//
//	c, err := compare.Make(ctx, []compare.Source{{Dir: "before"}, {Dir: "after"}}, compare.Options{})
//	files, err := c.Write(ctx, ".")
//	err = c.WriteTable(os.Stdout, 100)
//
// Every run is compared with the first. It reads directories of agentx and those of AIPerf 0.13.0, and knows no player.
// doc/spec/report.md 4 has the rules, and the keys of compare.json.
package compare

import (
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/agentx/agentx/cmd/internal/report/frontier"
	"github.com/agentx/agentx/cmd/internal/report/interval"
	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/replay/capacity"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/merge"
	"github.com/agentx/agentx/replay/slo"
)

// Comparison is the comparison of several runs with the first: the object of compare.json.
type Comparison struct {
	Title      string            `json:"title"`
	Lead       []string          `json:"lead"` // lines of the caller
	Comparable bool              `json:"comparable"`
	Mismatches []Setting         `json:"mismatches"` // settings that must be equal and are not
	Settings   []Setting         `json:"settings"`   // others that differ
	Series     []Series          `json:"series"`     // none: every run is compared with the first
	Runs       []Run             `json:"runs"`       // of series by concurrency
	Verdicts   []Verdict         `json:"verdicts"`   // of every run that is compared with another
	Repeats    []Repeat          `json:"repeats"`    // of groups of runs
	Frontier   frontier.Frontier `json:"frontier"`
	Search     *capacity.Answer  `json:"search,omitempty"` // whose probes the runs are; nil: no search made them

	runs []*run
}

// Summary returns the summary of a run, by its place in the comparison.
func (c *Comparison) Summary(run int) *measure.Summary { return &c.runs[run].summary }

// Run is one run of a comparison.
type Run struct {
	Name    string             `json:"name"`
	Note    string             `json:"note,omitempty"`
	Group   string             `json:"group,omitempty"`
	Series  string             `json:"series,omitempty"`
	Dir     string             `json:"dir"`
	Page    string             `json:"page,omitempty"` // address of its page from where the comparison is; "": it has none
	Kind    string             `json:"kind"`           // agentx or aiperf
	Marks   []string           `json:"marks"`          // why its figures are not what they seem
	Lacks   []string           `json:"lacks"`          // what is not known of it
	Sent    int                `json:"sent"`           // requests
	N       int                `json:"measured"`       // requests that the figures are over
	Trees   int                `json:"trees"`
	Levels  []Level            `json:"levels"`                 // service levels on the run
	Why     string             `json:"no_intervals,omitempty"` // why its figures have no intervals
	Figures map[string]*Figure `json:"figures"`                // by name: ttft.p95, request_rate
}

// Make reads runs and compares each with the first; of series each run with that of the first series at the same concurrency.
func Make(ctx context.Context, list []Source, o Options) (*Comparison, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if err := checkSources(list); err != nil {
		return nil, err
	}
	c := &Comparison{Search: o.Search, Lead: append([]string{}, o.Lead...), Verdicts: []Verdict{}}
	for k, name := range Names(dirsOf(list)) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		r, err := readRun(list[k], name)
		if err != nil {
			return nil, err
		}
		if o.InSeconds != nil {
			r.settings.addUnits(o.InSeconds)
		}
		if o.GPUs > 0 {
			r.gpus = o.GPUs
		}
		c.runs = append(c.runs, r)
	}
	useLabels(c.runs)
	c.Series = c.bySeries()
	c.Mismatches, c.Settings = mismatches(c.runs), otherSettings(c.runs)
	c.Comparable = len(c.Mismatches) == 0
	c.Frontier = frontierOf(c.runs, c.Series)
	for _, r := range c.runs {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		c.Runs = append(c.Runs, newRun(r))
	}
	for k, base := range c.bases() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if base >= 0 {
			c.compareRuns(base, k)
		}
	}
	for k := range c.Series {
		if s := &c.Series[k]; o.Search == nil {
			s.Answer = c.answer(s)
		}
	}
	c.Repeats, c.Title = c.repeats(), c.titleOf()
	return c, nil
}

// Read reads one run with its figures and their intervals.
func Read(s Source) (*Run, error) {
	r, err := readRun(s, Names([]string{s.Dir})[0])
	if err != nil {
		return nil, err
	}
	n := newRun(r)
	return &n, nil
}

// newRun returns the figures of a run with their intervals.
func newRun(r *run) Run {
	n := Run{
		Name: r.name, Note: r.Note, Group: r.Group, Series: r.Series, Dir: r.Dir, Page: r.Page, Kind: r.kind, Marks: r.marks(), Lacks: append([]string{}, r.lacks...),
		Sent: r.summary.Requests, N: r.summary.Measured, Trees: r.requests.treeCount(), Levels: r.levels(), Figures: map[string]*Figure{},
	}
	for _, f := range figures {
		n.Figures[f.String()] = &Figure{Value: r.figure(f), Few: r.summary.Few(f)}
	}
	if why := addIntervals(r, n.Figures); why != nil {
		n.Why = why.Error()
	}
	return n
}

// Few reports whether a figure of the run is a percentile of few samples.
func (r *Run) Few() bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(r.Figures)), func(f *Figure) bool { return f.Few })
}

// value returns a figure of the run; Missing where it has none.
func (r *Run) value(name string) measure.Number { return r.Figures[name].Value }

// Source is a run that is compared.
type Source struct {
	Dir   string          // of a run of agentx, or with files of AIPerf
	Note  string          // what the caller says of it in a line, such as whether it kept the service levels; "": nothing
	SLO   []slo.Condition // service levels that override those of the run; nil: those of the run
	Files *merge.Run      // the results in Dir, if they are open already; nil: they are opened
	Group string          // runs of one group repeat one run: they get means with Student's intervals; "": it repeats none

	Page   string // address of its page; "": Write looks for it in Dir
	Series string // to which the run belongs: the name of its list; "": to none, and then no run may belong to one

	Partial bool // parts of a load may be missing
}

// Options say how runs are compared. The zero value compares them with the first.
type Options struct {
	GPUs int      // that served each run: throughput is per GPU; 0: those that each run knows
	Lead []string // lines of the caller above the tables, such as the capacity that a search found

	Search *capacity.Answer // whose probes the runs are, with its answer in Lead; nil: no search made them

	InSeconds func(name string) bool // reports whether a setting is a number of seconds; nil: numbers are shown without units
}

// Validate returns an error that names the first field that cannot be used.
func (o Options) Validate() error {
	if o.GPUs < 0 {
		return fmt.Errorf("gpus %d: want 1 or more", o.GPUs)
	}
	return nil
}

// maxRuns bounds the runs of one comparison: those of maxSeries series.
const maxRuns = 160

// checkSources returns an error for fewer than two runs, for more than maxRuns, and for more than maxSeries series.
func checkSources(list []Source) error {
	if len(list) < 2 {
		return errors.New("compare: fewer than two runs: name two or more")
	}
	if len(list) > maxRuns {
		return fmt.Errorf("compare: %d runs: name at most %d", len(list), maxRuns)
	}
	series := map[string]bool{}
	for _, s := range list {
		series[s.Series] = true
	}
	if len(series) > maxSeries {
		return fmt.Errorf("compare: %d series: name at most %d", len(series), maxSeries)
	}
	return nil
}

// dirsOf returns the directories of runs.
func dirsOf(list []Source) (dirs []string) {
	for _, s := range list {
		dirs = append(dirs, s.Dir)
	}
	return dirs
}

// Names returns short names of directories, all different: the last part of the path, with as many parts before it as are needed.
func Names(dirs []string) []string {
	paths := make([][]string, len(dirs))
	for k, path := range dirs {
		if abs, err := filepath.Abs(path); err == nil {
			path = abs
		}
		paths[k] = strings.Split(filepath.ToSlash(path), "/")
	}
	names := make([]string, len(dirs))
	for k, path := range paths {
		for n := 1; n <= len(path); n++ {
			names[k] = strings.Join(path[len(path)-n:], "/")
			if !sharesEnd(paths, k, n) {
				break
			}
		}
	}
	return numbered(names)
}

// sharesEnd reports whether another path, which is not the same, has the same last n parts.
func sharesEnd(paths [][]string, k, n int) bool {
	end := strings.Join(paths[k][len(paths[k])-n:], "/")
	return slices.ContainsFunc(paths, func(path []string) bool {
		return !slices.Equal(path, paths[k]) && len(path) >= n && strings.Join(path[len(path)-n:], "/") == end
	})
}

// numbered adds a number to names that occur again, because the same directory was given twice.
func numbered(names []string) []string {
	seen := map[string]int{}
	for k, name := range names {
		seen[name]++
		if n := seen[name]; n > 1 {
			names[k] = fmt.Sprintf("%s (%d)", name, n)
		}
	}
	return names
}

// exists reports whether a directory has a file.
func exists(dir, name string) bool {
	_, err := os.Stat(filepath.Join(dir, name))
	return err == nil
}

// Names of the files of a comparison.
const (
	pageFile = "compare.html"
	jsonFile = "compare.json"
	csvFile  = "compare.csv"
)

// RunPage is the page of a run, to which comparisons in the same file system link.
const RunPage = "report.html"

// LinkTo returns the address of a page in the directory of a run, from another directory; "" if the run has none.
func LinkTo(dir, run, page string) string {
	from, err := filepath.Abs(dir)
	if err != nil || !exists(run, page) {
		return ""
	}
	to, err := filepath.Abs(run)
	if err != nil {
		return ""
	}
	way, err := filepath.Rel(from, to)
	if err != nil {
		return ""
	}
	parts := strings.Split(filepath.ToSlash(way), "/")
	for k := range parts {
		parts[k] = url.PathEscape(parts[k])
	}
	return "./" + strings.Join(append(parts, page), "/")
}

// Write writes the page, compare.json and compare.csv to a directory, which it makes if it is missing. Each appears whole by a rename,
// and replaces an older one. It returns their names.
func (c *Comparison) Write(ctx context.Context, dir string) (names []string, err error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	for k := range c.Runs {
		c.Runs[k].Page = cmp.Or(c.Runs[k].Page, LinkTo(dir, c.Runs[k].Dir, RunPage))
	}
	for _, file := range []struct {
		name string
		text func() ([]byte, error)
	}{{csvFile, c.csv}, {jsonFile, c.json}, {pageFile, c.HTML}} {
		if err := ctx.Err(); err != nil {
			return names, err
		}
		data, err := file.text()
		if err == nil {
			err = durable.WriteFile(filepath.Join(dir, file.name), data)
		}
		if err != nil {
			return names, fmt.Errorf("%s: %w", filepath.Join(dir, file.name), err)
		}
		names = append(names, file.name)
	}
	return names, nil
}

// json returns the text of compare.json.
func (c *Comparison) json() ([]byte, error) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(c)
	return text.Bytes(), err
}

// csvHeader are the columns of compare.csv: a line for each figure of each run.
var csvHeader = []string{
	"run", "metric", "unit", "value", "low", "high", "difference", "difference_percent", "difference_percent_low",
	"difference_percent_high", "method", "overlap", "beyond", "differs", "marks",
}

// csv returns the text of compare.csv.
func (c *Comparison) csv() ([]byte, error) {
	var text bytes.Buffer
	w := csv.NewWriter(&text)
	_ = w.Write(csvHeader) // a buffer always takes it
	for k := range c.Runs {
		r := &c.Runs[k]
		for _, f := range figures {
			x := r.Figures[f.String()]
			if x.Value.IsMissing() {
				continue
			}
			line := []string{r.Name, f.String(), string(f.Unit), exact(x.Value)}
			line = append(line, cellsOf(x.Interval, 1)...)
			line = append(line, x.Difference.cells()...)
			_ = w.Write(append(line, joined(r.Marks)))
		}
	}
	w.Flush()
	return text.Bytes(), w.Error()
}

// cellsOf returns the ends of an interval, multiplied by a factor, as two cells; empty cells without an interval.
func cellsOf(i *interval.Interval, by float64) []string {
	if i == nil {
		return []string{"", ""}
	}
	return []string{exact(measure.Number(by * i.Low)), exact(measure.Number(by * i.High))}
}

// cells returns the columns of compare.csv from difference to differs.
func (d *Difference) cells() []string {
	if d == nil {
		return []string{"", "", "", "", "", "", "", ""}
	}
	overlap := ""
	if d.Overlap != nil {
		overlap = strconv.FormatBool(*d.Overlap)
	}
	list := append([]string{exact(d.Absolute), exact(100 * d.Ratio)}, cellsOf(d.Interval, 100)...)
	return append(list, string(d.Method), overlap, strconv.FormatBool(d.Beyond), strconv.FormatBool(d.Differs))
}

// exact writes a number in the shortest form that reads back as the same; "" where it is missing.
func exact(v measure.Number) string {
	if v.IsMissing() {
		return ""
	}
	return strconv.FormatFloat(float64(v), 'g', -1, 64)
}
