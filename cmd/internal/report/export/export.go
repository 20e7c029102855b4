// Package export makes files of the records of a run: the page, the table, and the files of other tools.
package export

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/agentx/agentx/cmd/internal/aiperf"
	"github.com/agentx/agentx/cmd/internal/aiperf/inferencex"
	"github.com/agentx/agentx/cmd/internal/report/gate"
	"github.com/agentx/agentx/cmd/internal/report/html"
	"github.com/agentx/agentx/cmd/internal/report/parquet"
	"github.com/agentx/agentx/replay/merge"
	"github.com/agentx/agentx/replay/slo"
	"github.com/agentx/agentx/report"
)

// The formats. Markdown makes no file.
const (
	HTML       = "html"
	AIPerf     = "aiperf"
	JSON       = "json" // of the files of aiperf one
	CSV        = "csv"  // another
	Parquet    = "parquet"
	InferenceX = "inferencex"
	Markdown   = "markdown"
)

// Options say which files are made, and how.
type Options struct {
	Formats []string
	Prefix  string          // of the names of the files of aiperf
	Slice   time.Duration   // length of their slices of time; 0: no slices
	Levels  []slo.Condition // they override the run's own service levels; nil: those of the run
}

// Has reports whether a format was named.
func (o *Options) Has(format string) bool { return slices.Contains(o.Formats, format) }

// Made is what the formats made of one run.
type Made struct {
	Dir        string              `json:"dir"`   // of the run
	Out        string              `json:"out"`   // directory of the files
	Files      []string            `json:"files"` // names
	Rows       int                 `json:"rows"`  // lines of the file of the warmup and the headline
	Excluded   int                 `json:"excluded_rows"`
	Missing    []string            `json:"missing"` // what is not known of the run
	Gates      []gate.Verdict      `json:"gates,omitempty"`
	InferenceX *inferencex.Numbers `json:"inferencex,omitempty"`

	Results *report.Results `json:"-"` // nil: no format has computed them

	levels []slo.Condition
	opened *merge.Run
}

// Make makes the files of a run in a directory, "" being that of the run. What it has made it returns also beside an error.
func Make(ctx context.Context, run *merge.Run, out string, o Options) (*Made, error) {
	out = cmp.Or(out, run.Dir)
	m := &Made{Dir: run.Dir, opened: run, Out: out, Files: []string{}, Missing: []string{}, levels: o.Levels}
	all := o.Has(AIPerf)
	files := aiperf.Options{Out: out, Prefix: o.Prefix, Slice: o.Slice, JSON: !all && o.Has(JSON), CSV: !all && o.Has(CSV)}
	for _, step := range []struct {
		wanted bool
		make   func() error
	}{
		{all || files.JSON || files.CSV, func() error { return m.writeAIPerf(ctx, files) }},
		{o.Has(Parquet), func() error { return m.write(ctx, parquet.File, parquet.Write) }},
		{o.Has(HTML), func() error { return m.write(ctx, html.File, m.writeHTML) }},
		{o.Has(InferenceX), func() error { return m.computeInferenceX(ctx, all && o.Prefix == "") }},
	} {
		if step.wanted {
			if err := step.make(); err != nil {
				return m, err
			}
		}
	}
	return m, nil
}

// open opens the run, with the levels that override its own service levels.
func (m *Made) open() (*report.Run, error) {
	run, err := report.Of(m.opened)
	if err == nil && m.levels != nil {
		run.Info.SLO = m.levels
	}
	return run, err
}

// writeAIPerf writes files of AIPerf.
func (m *Made) writeAIPerf(ctx context.Context, o aiperf.Options) error {
	run, err := m.open()
	if err != nil {
		return err
	}
	w, err := aiperf.Write(ctx, run, o)
	if w != nil {
		m.Results, m.Rows, m.Excluded = w.Results, w.Rows, w.Excluded
		m.Files = append(m.Files, w.Files...)
		m.Missing = append(m.Missing, w.Missing...)
	}
	return err
}

// write writes one file by its name.
func (m *Made) write(ctx context.Context, name string, write func(context.Context, *report.Run, string) error) error {
	run, err := m.open()
	if err == nil {
		err = os.MkdirAll(m.Out, 0o777)
	}
	if err == nil {
		err = write(ctx, run, filepath.Join(m.Out, name))
	}
	if err != nil {
		return err
	}
	m.Files = append(m.Files, name)
	return nil
}

// writeHTML writes the page of the run, and adds what is not known of the run to Missing.
func (m *Made) writeHTML(ctx context.Context, run *report.Run, path string) error {
	if err := html.Write(ctx, run, path); err != nil {
		return err
	}
	for _, text := range run.Missing {
		if !slices.Contains(m.Missing, text) {
			m.Missing = append(m.Missing, text)
		}
	}
	return nil
}

// computeInferenceX computes the numbers of InferenceX from the files of AIPerf: from those written before, or from temporary ones.
func (m *Made) computeInferenceX(ctx context.Context, written bool) (err error) {
	out := m.Out
	if !written {
		if out, err = os.MkdirTemp("", "agentx-*"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(out)) }()
		temporary := Made{opened: m.opened, levels: m.levels}
		if err := temporary.writeAIPerf(ctx, aiperf.Options{Out: out}); err != nil {
			return err
		}
		m.Missing, m.Results = temporary.Missing, temporary.Results
	}
	if m.InferenceX, err = inferencex.Read(out, inferencex.DefaultLimit); err == nil {
		m.InferenceX.Dir = m.Dir
	}
	return err
}
