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

	"github.com/agentx/agentx/cmd/internal/report/interval"
	"github.com/agentx/agentx/cmd/internal/report/page"
	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/internal/regular"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/slo"
	"github.com/agentx/agentx/report"
)

// File is the name of the page.
const File = "report.html"

// summaryFile is what a run writes last: doc/spec/results.md 3.
const summaryFile = "summary.json"

// maxBytes is the size of the largest page. Where all requests do not fit, fewer are on it.
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

// fit returns the page and its file, with as many requests as fit maxBytes.
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

// read reads the files of a run.
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

// readRecords adds the records of a run, the first maxRequests of them to sample too. It returns their aggregate, nil if there are
// more and the run has a summary.
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

// readSummary reads the summary of a run, nil if there is none with its service levels.
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
