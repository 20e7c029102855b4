package aiperf

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/report"
)

// Written is what Write did.
type Written struct {
	Dir      string
	Files    []string // names, in the order in which they were written
	Rows     int      // in the file of the warmup and the headline
	Excluded int      // in the file of those that are in no headline number
	Results  *report.Results
	Missing  []string // what is not known of the run, one line each
}

// Write computes the results of a run and writes its files. Each appears whole by a rename, that which says that all are there
// last; files of an earlier call that this one does not write are removed. ctx carries the options of package durable.
func Write(ctx context.Context, run *report.Run, o Options) (*Written, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.Out == "" {
		o.Out = run.Dir
	}
	w := &writer{Options: o, run: run, dialect: dialects[run.Harness()], names: NamesOf(o.Prefix), disk: durable.OptionsOf(ctx), written: Written{Dir: o.Out}}
	for _, name := range w.names.all() {
		if err := durable.CheckFile(w.path(name)); err != nil {
			return nil, err
		}
	}
	run.Slice = o.Slice.Nanoseconds()
	var err error
	if w.results, err = run.Compute(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.Out, 0o777); err != nil {
		return nil, err
	}
	w.written.Results = w.results
	w.show()
	err = w.write(ctx)
	w.written.Missing = append(run.Missing, w.written.Missing...)
	return &w.written, err
}

// writer writes the files of one run.
type writer struct {
	Options
	*dialect
	run     *report.Run
	results *report.Results
	shown   report.Results // as the dialect has its tables
	names   Names
	disk    durable.Options
	written Written
}

// write writes the files that were asked for.
func (w *writer) write(ctx context.Context) error {
	if w.JSON || w.CSV {
		var err error
		if w.JSON {
			err = w.writeAggregate()
		}
		if err == nil && w.CSV {
			err = w.writeTable()
		}
		return err
	}
	if err := w.remove(w.names.ready); err != nil {
		return err
	}
	names := w.names.all()
	if err := durable.RemoveUnfinished(w.Out, func(name string) bool { return slices.Contains(names, name) }); err != nil {
		return err
	}
	if len(w.run.Info.Phases) == 0 && w.run.Info.Facts == nil {
		w.written.Missing = append(w.written.Missing, w.run.Dir+": when its phases started is not known: wall clocks count from the start of the run")
	}
	steps := []func() error{
		func() error { return w.writeRows(ctx) }, w.writeAggregate, w.writeTable, w.writeSlices, w.writeConsole, w.writeServer, w.writeReady,
	}
	if w.slim && w.unmeasured() {
		steps = []func() error{steps[0], w.removeOthers, w.writeReady}
	}
	for _, step := range steps {
		if err := errors.Join(ctx.Err(), step()); err != nil {
			return err
		}
	}
	return nil
}

// unmeasured reports whether no request of the profiling phase completed, or there was no such phase: then the harness writes rows alone.
func (w *writer) unmeasured() bool { return w.run.Info.Facts != nil && w.results.Counts.Succeeded == 0 }

// removeOthers removes what an earlier call has written beside the rows.
func (w *writer) removeOthers() error {
	return w.remove(slices.DeleteFunc(w.names.all(), func(name string) bool { return name == w.names.Rows })...)
}

func (w *writer) path(name string) string { return filepath.Join(w.Out, name) }

// put writes a file, if its text could be made.
func (w *writer) put(name string, text []byte, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", w.path(name), err)
	}
	f, err := durable.NewFile(w.path(name), w.disk)
	if err != nil {
		return err
	}
	if _, err := f.Write(text); err != nil {
		return errors.Join(err, f.Discard())
	}
	if err := f.Publish(); err != nil {
		return err
	}
	w.written.Files = append(w.written.Files, name)
	return nil
}

// remove removes files of an earlier call.
func (w *writer) remove(names ...string) error {
	var errs []error
	for _, name := range names {
		if err := os.Remove(w.path(name)); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (w *writer) writeAggregate() error {
	text, err := indented(w.whole(w), w.jsonEnd)
	return w.put(w.names.aggregate, text, err)
}

func (w *writer) writeTable() error {
	text, err := csvOf(w.csv(w.shown.Headline), w.lineEnd, w.slim)
	return w.put(w.names.table, text, err)
}

// writeReady says that all files are there.
func (w *writer) writeReady() error {
	f := w.run.Info.Facts
	text, err := compact(object{{"ready", true}, {"was_cancelled", f != nil && f.Cancelled}, {"partial", f == nil || !w.run.Info.Parts.Whole()}})
	return w.put(w.names.ready, append(text, '\n'), err)
}
