package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/agentx/agentx/internal/settings"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/merge"
	"github.com/agentx/agentx/replay/slo"
	"github.com/agentx/agentx/report"
	"github.com/agentx/agentx/report/aiperf"
	"github.com/agentx/agentx/report/gate"
	"github.com/agentx/agentx/report/inferencex"
	"github.com/agentx/agentx/report/parquet"
)

// The formats of a report.
const (
	formatAIPerf     = "aiperf"
	formatJSON       = "json"
	formatCSV        = "csv"
	formatParquet    = "parquet"
	formatInferenceX = "inferencex"
	formatMarkdown   = "markdown"
)

// replayFormats are the formats of replay --report.
var replayFormats = []string{formatHTML, formatAIPerf, formatJSON, formatCSV, formatParquet}

// exportFlags say which files are made of the records of a run, and how.
type exportFlags struct {
	name    string // of the flag that names the formats
	formats []string
	prefix  string
	slice   time.Duration

	levels []slo.Condition // in the place of the run's service levels; nil: those of the run
}

// register adds the flags. name is that of the formats.
func (f *exportFlags) register(flags *pflag.FlagSet, name, usage string) {
	f.name = name
	flags.StringSliceVar(&f.formats, name, nil, usage)
	flags.StringVar(&f.prefix, "prefix", "", "beginning of the names of the files of aiperf, json and csv, such as run7: run7.jsonl, run7.json, run7.csv (default: AIPerf's names)")
	durationVar(flags, &f.slice, "slice-duration", 0, "length of the slices of time in the files of aiperf; 0: no slices")
}

// check returns what is wrong with the flags. Known are the formats that may be named.
func (f *exportFlags) check(known []string) (errs []error) {
	for _, name := range f.formats {
		if !slices.Contains(known, name) {
			errs = append(errs, usageError{fmt.Errorf("%s: %w", settings.FlagText(f.name, name), wrongWord(name, either(known), known))})
		}
	}
	check := func(flag string, o aiperf.Options) {
		if err := o.Validate(); err != nil {
			_, why, _ := strings.Cut(err.Error(), ": ") // of an option, which the flag is
			errs = append(errs, usageError{fmt.Errorf("%s: %s", flag, why)})
		} else if len(f.formats) == 0 && o != (aiperf.Options{}) {
			errs = append(errs, f.withoutFormats(flag))
		}
	}
	check(settings.FlagText("prefix", f.prefix), aiperf.Options{Prefix: f.prefix})
	check("--slice-duration", aiperf.Options{Slice: f.slice})
	return errs
}

// withoutFormats refuses a flag that says how files are made where none is.
func (f *exportFlags) withoutFormats(flag string) error {
	return usageError{fmt.Errorf("%s: no files are made: add --%s aiperf, or leave it out", flag, f.name)}
}

// has reports whether a format was named.
func (f *exportFlags) has(format string) bool { return slices.Contains(f.formats, format) }

func (f *exportFlags) options(out string) aiperf.Options {
	return aiperf.Options{Out: out, Prefix: f.prefix, Slice: f.slice}
}

// exported is what the formats made of one run.
type exported struct {
	Dir        string              `json:"dir"`   // of the run
	Out        string              `json:"out"`   // directory of the files
	Files      []string            `json:"files"` // names
	Rows       int                 `json:"rows"`  // lines of the file of the warmup and the headline
	Excluded   int                 `json:"excluded_rows"`
	Missing    []string            `json:"missing"` // what is not known of the run
	Gates      []gate.Verdict      `json:"gates,omitempty"`
	InferenceX *inferencex.Numbers `json:"inferencex,omitempty"`

	levels  []slo.Condition
	opened  *merge.Run
	results *report.Results
}

// export makes the files of a run in a directory, "" being that of the run.
func (f *exportFlags) export(ctx context.Context, run *merge.Run, out string) (*exported, error) {
	if out == "" {
		out = run.Dir
	}
	e := &exported{Dir: run.Dir, opened: run, Out: out, Files: []string{}, Missing: []string{}, levels: f.levels}
	o := f.options(out)
	for format, part := range map[string]aiperf.Parts{formatJSON: aiperf.AggregatePart, formatCSV: aiperf.TablePart} {
		if f.has(format) {
			o.Parts |= part
		}
	}
	if f.has(formatAIPerf) {
		o.Parts = 0
	}
	if f.has(formatAIPerf) || o.Parts != 0 {
		if err := e.writeAIPerf(ctx, o); err != nil {
			return e, err
		}
	}
	if f.has(formatParquet) {
		if err := e.writeParquet(ctx); err != nil {
			return e, err
		}
	}
	if f.has(formatHTML) {
		if err := e.writeHTML(ctx); err != nil {
			return e, err
		}
	}
	if f.has(formatInferenceX) {
		return e, e.computeInferenceX(ctx, f.has(formatAIPerf) && f.prefix == "")
	}
	return e, nil
}

// open opens the run, with the service levels that take the place of its own.
func (e *exported) open() (*report.Run, error) {
	run, err := report.Of(e.opened)
	if err == nil && e.levels != nil {
		run.Info.SLO = e.levels
	}
	return run, err
}

// writeAIPerf writes files of AIPerf.
func (e *exported) writeAIPerf(ctx context.Context, o aiperf.Options) error {
	run, err := e.open()
	if err != nil {
		return err
	}
	w, err := aiperf.Write(ctx, run, o)
	if w != nil {
		e.results, e.Rows, e.Excluded = w.Results, w.Rows, w.Excluded
		e.Files = append(e.Files, w.Files...)
		e.Missing = append(e.Missing, w.Missing...)
	}
	return err
}

// writeParquet writes the records as a table.
func (e *exported) writeParquet(ctx context.Context) error {
	run, err := report.Of(e.opened)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(e.Out, 0o777); err != nil {
		return err
	}
	if err := parquet.Write(ctx, run, filepath.Join(e.Out, parquet.File)); err != nil {
		return err
	}
	e.Files = append(e.Files, parquet.File)
	return nil
}

// computeInferenceX computes the numbers of InferenceX from the files of AIPerf: those that were written, or others that are removed
// again.
func (e *exported) computeInferenceX(ctx context.Context, written bool) (err error) {
	out := e.Out
	if !written {
		if out, err = os.MkdirTemp("", "agentx-*"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(out)) }()
		temporary := exported{Dir: e.Dir, opened: e.opened, levels: e.levels}
		if err := temporary.writeAIPerf(ctx, aiperf.Options{Out: out}); err != nil {
			return err
		}
		e.Missing, e.results = temporary.Missing, temporary.results
	}
	if e.InferenceX, err = inferencex.Read(out, inferencex.DefaultLimit); err == nil {
		e.InferenceX.Dir = e.Dir
	}
	return err
}

// afterReplay makes the files of a run that has just ended, also of one that was interrupted. It returns the error of the run, and that
// of the files.
func (f *exportFlags) afterReplay(cmd *cobra.Command, s *measure.Summary, ended error) error {
	if len(f.formats) == 0 || s == nil || s.Out == "" {
		return ended
	}
	run, err := merge.Open(s.Out, merge.Options{})
	e := &exported{}
	if err == nil {
		e, err = f.export(context.WithoutCancel(cmd.Context()), run, "")
	}
	if quiet, _ := cmd.Flags().GetBool("quiet"); !quiet && len(e.Files) > 0 {
		printError(cmd.ErrOrStderr(), fmt.Sprintf("agentx: --report wrote %s to %s", strings.Join(e.Files, ", "), e.Out))
	}
	switch {
	case err == nil:
		return ended
	case ended == nil, errors.Is(ended, context.Canceled):
		return fmt.Errorf("--report: %w", err)
	}
	return errorList{ended, fmt.Errorf("--report: %w", err)}
}

// outOf returns the directory of the files of a run: below --out, by the name of its own directory, if there are several runs.
func outOf(out, dir string, several bool) string {
	if out == "" || !several {
		return out
	}
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs // which has a name even if dir is ..
	}
	return filepath.Join(out, filepath.Base(dir))
}
