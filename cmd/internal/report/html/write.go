// Package html makes the page of one run: doc/spec/report.md 3.
//
// A Builder reads records one at a time and keeps, of at most maxRequests of them, the numbers that the page draws. Page makes of
// these the tables of a page.Page:
//
//	trees     ordinal, lane, pass, trace; a row for each tree with a request on the page
//	sessions  tree, parent, name, depth, kind, requests; the requests of a session stand together, in the order of its turns
//	requests  a row for each request, by session; metrics are columns as all else. A column may be packed as what it has above the sum of others
//	bins      sums over slices of time, if requests were left out
//	server    what the servers said of themselves, by time
//
// Instants are nanoseconds since the start of the phase, as integers; so are times, rounded to them.
package html

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/agentx/agentx/cmd/internal/report/interval"
	"github.com/agentx/agentx/cmd/internal/report/page"
	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/internal/regular"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/scrape"
	"github.com/agentx/agentx/replay/slo"
	"github.com/agentx/agentx/report"
)

// File is the name of the page.
const File = "report.html"

// summaryFile is what a run writes last: doc/spec/results.md 3.
const summaryFile = "summary.json"

// maxBytes bounds the size of a page: if it would be larger, it gets fewer requests.
const maxBytes = 4_000_000

// Write writes the page of a run to a file, which appears whole by a rename. ctx carries the options of package durable. It reads
// the records once, and keeps what a Builder keeps; of a run without a summary also 100 bytes of each request.
func Write(ctx context.Context, run *report.Run, path string) (err error) {
	_, data, err := Make(run)
	if err != nil {
		return err
	}
	file, err := durable.NewFile(path, durable.OptionsOf(ctx))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Discard()) }()
	if _, err := file.Write(data); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return file.Publish()
}

// Make returns the page that Write writes, and its file.
func Make(run *report.Run) (*page.Page, []byte, error) {
	b, about, err := read(run)
	if err != nil {
		return nil, nil, err
	}
	return b.fit(about)
}

// fit returns the page and its file, and thins the requests until the file has at most maxBytes.
func (b *Builder) fit(about *About) (*page.Page, []byte, error) {
	for {
		var out bytes.Buffer
		p := b.page(about)
		if err := page.Write(&out, p); err != nil {
			return nil, nil, err
		}
		if out.Len() <= maxBytes || len(b.requests) < 2 {
			return p, out.Bytes(), nil
		}
		b.thin()
	}
}

// read reads the files of a run into a builder, and what else the page shows.
func read(run *report.Run) (*Builder, *About, error) {
	b := NewBuilder(run.Rules(), run.Info.SLO...)
	about := &About{Info: run.Info, lanes: run.Lanes}
	written, err := readSummary(run)
	if err != nil {
		return nil, nil, err
	}
	samples := interval.NewRun(run.Info, run.Rules())
	aggregate, err := b.readRecords(run, written != nil, samples.Add)
	if err != nil {
		return nil, nil, err
	}
	if about.intervals, err = b.intervals(run, samples); err != nil {
		return nil, nil, err
	}
	if written != nil && written.Requests != b.sent {
		run.Missing = append(run.Missing, fmt.Sprintf("%s counts %d requests, %s has %d: the page counts the records", summaryFile, written.Requests, measure.RecordsFile, b.sent))
	}
	if aggregate == nil && written.Requests != b.sent {
		if aggregate, err = NewBuilder(run.Rules()).readRecords(run, false, nil); err != nil {
			return nil, nil, err
		}
	}
	if aggregate != nil {
		about.Summary = aggregate.Summary(run.Info)
	} else {
		about.Summary = written.text
	}
	if about.servers, err = run.Files.Servers(); errors.Is(err, fs.ErrNotExist) {
		err = nil
	} else if err != nil {
		about.Notes = append(about.Notes, fmt.Sprintf("What the servers said of themselves is left out: %v", err))
	}
	for _, note := range run.Missing {
		if !slices.Contains(run.Info.Parts.Problems(), note) { // the verdict has them
			about.Notes = append(about.Notes, note)
		}
	}
	return b, about, nil
}

// readRecords adds the records of a run, and calls sample with the first maxRequests of them. It returns their aggregate; nil if there are more
// and the run has a summary, summed.
func (b *Builder) readRecords(run *report.Run, summed bool, sample func(*measure.Record)) (*measure.Aggregate, error) {
	records, err := run.Files.Records()
	if err != nil {
		return nil, fmt.Errorf("%s: not the results of a run: %w", run.Dir, err)
	}
	defer records.Close()
	aggregate := measure.NewAggregate(run.Rules(), run.Info.SLO...)
	n := 0
	for r, err := range measure.All(records) {
		if err != nil {
			return nil, err
		}
		n++
		if err := b.Add(r); err != nil {
			return nil, fmt.Errorf("%s: %w", run.Files.Line(n), err)
		}
		if aggregate != nil {
			aggregate.Add(r)
		}
		if sample != nil && n <= maxRequests {
			sample(r)
		}
		if summed && n == maxRequests {
			aggregate = nil
		}
	}
	if records.Torn() {
		run.Missing = append(run.Missing, fmt.Sprintf("%s: the last line is cut off and left out", measure.RecordsFile))
	}
	return aggregate, nil
}

// writtenSummary is a summary that the run wrote.
type writtenSummary struct {
	text     json.RawMessage
	Requests int              `json:"requests"`
	Goodput  *measure.Goodput `json:"goodput"`
}

// maxSummary bounds the size of a summary: reports of deadlocked trees are its longest part.
const maxSummary = 64 << 20

// readSummary reads the summary of a run; nil if there is none, or if it was made with other service levels.
func readSummary(run *report.Run) (*writtenSummary, error) {
	path := filepath.Join(run.Dir, summaryFile)
	if run.Info.Parts != nil { // it may be of other parts
		return nil, nil
	}
	text, err := regular.Read(path, maxSummary)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	s := &writtenSummary{text: text}
	if err := json.Unmarshal(text, s); err != nil {
		return nil, fmt.Errorf("%s: %w: remove the file, and agentx report makes it again", path, err)
	}
	var levels []slo.Condition
	if s.Goodput != nil {
		for _, c := range s.Goodput.Conditions {
			levels = append(levels, c.Condition)
		}
	}
	if !slices.Equal(levels, run.Info.SLO) {
		return nil, nil
	}
	return s, nil
}

// About is what a page shows besides the records. Summary is required.
type About struct {
	Info    measure.RunInfo
	Summary any                  // of measure.Summary, or the JSON of one
	lanes   []measure.LaneReport // nil: not known
	servers *scrape.Data         // nil: nothing was scraped
	Notes   []string             // what the page lacks, one line each
	Live    bool                 // the run is not over

	intervals *intervals // nil: none were computed
}

// head is the part of a page that is no table: page.head of run.js.
type head struct {
	Summary any              `json:"summary"`
	Result  *measure.Result  `json:"result"`            // nil: the summary cannot be read
	Command string           `json:"command,omitempty"` // that made the run; "": not known
	Server  string           `json:"server,omitempty"`  // the servers, with what they tell of themselves; "": nothing
	Notes   []string         `json:"notes"`
	Seconds []string         `json:"seconds"` // options that are times
	Metrics []pageMetric     `json:"metrics"` // of requests: the columns of these names
	Ratios  ratios           `json:"ratios"`  // metrics of a run, by their names
	Sums    sums             `json:"sums"`    // the columns of requests that are packed as what they have above the sum of others
	Buckets []measure.Bucket `json:"buckets"` // by the numbers of the column bucket
	Common  map[string]int64 `json:"common"`  // what the rows have that a sparse column leaves out
	Zero    int64            `json:"zero"`    // first sent of profiling, ns: where the axis of time begins
	Shift   int64            `json:"shift"`   // from the start of the warmup to that of profiling, ns
	Ends    [2]int64         `json:"ends"`    // last end of the warmup, and of profiling, ns of the phase
	Sending int64            `json:"sending"` // when the sending had to end, ns of profiling; 0: no bound
	Whole   int64            `json:"whole"`   // until when every request is known, ns of profiling; 0: of the whole run

	Intervals *intervals `json:"intervals"`

	Stride   int    `json:"stride"`    // of so many requests the page has one
	Requests [2]int `json:"requests"`  // of the warmup, of profiling: all, also those that the page leaves out
	BinWidth int64  `json:"bin_width"` // ns
}

// page returns the page with everything that was added.
func (b *Builder) page(a *About) *page.Page {
	h := b.head(a)
	p := &page.Page{Kind: "run", Title: title(&a.Info), Live: a.Live, Head: &h}
	p.Plain = a.plain(&h, p.Title)
	p.Tables, h.Common = b.tables()
	p.Tables = append(p.Tables, laneTable(a.lanes))
	if h.Whole > 0 {
		open, _ := b.open(&a.Info)
		p.Tables = append(p.Tables, page.Table{Name: "open", Columns: []page.Column{page.Ints("sent", "ns", open)}})
	}
	h.Notes = append(h.Notes, b.strangers(a.lanes)...)
	if a.servers != nil {
		servers, _ := serverTables(a.servers, b.origin(&a.Info), b.end[1], nil)
		p.Tables = append(p.Tables, servers...)
	}
	return p
}

// head returns the part of the page that is no table.
func (b *Builder) head(a *About) head {
	h := head{
		Summary: a.Summary, Server: a.Info.ServerText(), Notes: append([]string{}, a.Notes...), Seconds: measure.TimeOptions, Metrics: metrics, Ratios: ratiosOfRun, Sums: sumsOfColumns, Buckets: buckets,
		Intervals: a.intervals, Zero: b.first, Ends: b.end, Stride: b.stride, Requests: [2]int{b.warmup, b.sent}, BinWidth: b.bins.width,
	}
	var known bool
	if h.Shift, known = shift(&a.Info); !known && b.warmup > 0 {
		h.Shift = b.end[0]
		h.Notes = append(h.Notes, "When profiling began is not known: the page puts it behind the last answer of the warmup.")
	}
	if f := a.Info.Facts; f != nil {
		h.Sending = measure.Nanos(f.Deadline)
	} else {
		_, h.Whole = b.open(&a.Info)
	}
	if s := a.summary(); s != nil {
		h.Result = new(s.Result(a.intervals.named))
	}
	if len(a.Info.Options) > 0 {
		h.Command = a.Info.Command(a.played()...)
	}
	return h
}

// summary returns the summary, with what was run; nil where its JSON is not that of one.
func (a *About) summary() *measure.Summary {
	var s measure.Summary
	switch of := a.Summary.(type) {
	case measure.Summary:
		s = of
	case *measure.Summary:
		s = *of
	case json.RawMessage:
		if json.Unmarshal(of, &s) != nil {
			return nil
		}
	default:
		return nil
	}
	s.Run = a.Info.Run
	return &s
}

// played returns the inputs of the dataset as a command line has them; the path of the cache where their names are not known.
func (a *About) played() (list []string) {
	for _, in := range a.Info.Dataset.Inputs {
		if in.Name == "" || strings.HasPrefix(in.Name, measure.HubPrefix) {
			return []string{a.Info.Dataset.Path}
		}
		list = append(list, in.Name)
	}
	return list
}

// title names the run.
func title(info *measure.RunInfo) string {
	name := "agentx run"
	if label := info.Option("label"); label != "" {
		name = cut(label) + ": " + name
	}
	if info.Model != "" {
		name += " of " + cut(info.Model)
	}
	if !info.Start.IsZero() {
		name += ", " + info.Start.UTC().Format("2006-01-02 15:04:05")
	}
	return name
}

// shift returns the nanoseconds from the start of the warmup to that of profiling; false if they are not known.
func shift(info *measure.RunInfo) (ns int64, known bool) {
	for _, p := range info.Phases {
		if p.Name == measure.ProfilingPhase {
			return measure.Nanos(p.Offset), true
		}
	}
	return 0, false
}

// origin returns when profiling began, in nanoseconds since 1970. If the phases are not known, it assumes the last answer of the warmup.
func (b *Builder) origin(info *measure.RunInfo) int64 {
	for _, p := range info.Phases {
		if p.Name == measure.ProfilingPhase {
			return p.Start.UnixNano()
		}
	}
	return info.Start.Add(time.Duration(b.end[0])).UnixNano()
}

// laneTable returns the reports of the lanes.
func laneTable(lanes []measure.LaneReport) page.Table {
	var lane []int64
	var tStar, finished, skipped []float64
	for k := range lanes {
		l := &lanes[k]
		lane = append(lane, int64(l.Lane))
		tStar, finished, skipped = append(tStar, float64(l.TStar)), append(finished, float64(l.Finished)), append(skipped, l.Skipped)
	}
	return page.Table{Name: "lanes", Columns: []page.Column{
		page.Ints("lane", "", lane), page.Floats("t_star", "s", tStar), page.Floats("finished", "s", finished), page.Floats("skipped", "s", skipped),
	}}
}

// strangers returns a note if lanes have records but no line in the file of lanes.
func (b *Builder) strangers(lanes []measure.LaneReport) []string {
	if lanes == nil {
		return nil
	}
	known := map[int]bool{}
	for k := range lanes {
		known[lanes[k].Lane] = true
	}
	least, n := 0, 0
	for _, t := range b.trees {
		if known[t.lane] {
			continue
		}
		if n++; n == 1 || t.lane < least {
			least = t.lane
		}
	}
	if n == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%s: %d trees of the records are on lanes that have no line in it, the first of them lane %d: where these lanes began and ended is not known.", measure.LanesFile, n, least)}
}
