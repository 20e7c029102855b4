// Package aiperf writes the results of a run as the files of AIPerf, and reads such files, from agentx or from AIPerf.
//
//	written, err := aiperf.Write(ctx, run, aiperf.Options{Out: "results/aiperf_artifacts"})
//
// Every file appears whole by a rename, the one that says that all are there last. One table of results (package report) feeds
// JSON, CSV and console; rows are written as they are read, so that memory does not grow with their number.
// doc/spec/results.md 15 has the keys.
package aiperf

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

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

// path returns the path of a file by its name.
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

// writeAggregate writes the JSON file of the whole run.
func (w *writer) writeAggregate() error {
	text, err := indented(w.whole(w), w.jsonEnd)
	return w.put(w.names.aggregate, text, err)
}

// writeTable writes the CSV of the whole run.
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

// Names are the names of the files in their directory.
type Names struct {
	Rows              string // of the warmup and the headline
	excluded          string // rows of requests that are in no headline number
	aggregate         string // JSON
	table             string // CSV
	slices            string // JSON
	slicesCSV         string
	console           string
	ready             string // says that all others are there
	server, serverCSV string // metrics of servers
}

// NamesOf returns the names of AIPerf, or those that it makes of a prefix.
func NamesOf(prefix string) Names {
	rows, whole, ready, server := "profile_export", "profile_export_aiperf", "aiperf", "server_metrics_export"
	if prefix != "" {
		rows, whole, ready, server = prefix, prefix, prefix, prefix+"_server_metrics"
	}
	return Names{
		rows + ".jsonl", rows + "_excluded.jsonl", whole + ".json", whole + ".csv", whole + "_timeslices.json", whole + "_timeslices.csv",
		rows + "_console.txt", "." + ready + "_results_ready.json", server + ".json", server + ".csv",
	}
}

// all returns the names of all files that this package writes.
func (n Names) all() []string {
	return []string{n.Rows, n.excluded, n.aggregate, n.table, n.slices, n.slicesCSV, n.console, n.ready, n.server, n.serverCSV}
}

// maxPrefix bounds the length of a prefix: names have at most 255 bytes.
const maxPrefix = 200

// runFiles are the names of the JSON files that a run, or a list of runs, writes to the same directory, without their suffixes.
var runFiles = []string{"concurrencies", "lanes", "records", "run", "server_metrics", "summary"}

// checkPrefix returns an error for a prefix with which names would leave the directory, be hidden, or be those of the run's own files.
func checkPrefix(prefix string) error {
	switch {
	case len(prefix) > maxPrefix:
		return fmt.Errorf("prefix: %d bytes: want at most %d", len(prefix), maxPrefix)
	case strings.ContainsAny(prefix, `/\`):
		return fmt.Errorf("prefix %q: want the beginning of a name, without a directory", prefix)
	case strings.HasPrefix(prefix, "."):
		return fmt.Errorf("prefix %q: want a name that does not begin with a dot", prefix)
	case strings.ContainsFunc(prefix, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return errors.New("prefix: want no control characters")
	case slices.Contains(runFiles, strings.ToLower(prefix)):
		return fmt.Errorf("prefix %q: the files of a run have this name, and would be overwritten: want another, such as %q", prefix, prefix+"1")
	}
	return nil
}

// Options say which files Write writes, and where. The zero value writes all of them to the directory of the run.
type Options struct {
	Out    string        // directory, which is made if it is missing; "": that of the run
	Prefix string        // of the names of all files; "": those of AIPerf
	Slice  time.Duration // length of the slices of time; 0: none
	JSON   bool          // the aggregate alone, or beside the table
	CSV    bool          // the table alone, or beside the aggregate
}

// Validate returns an error that names the first field that cannot be used.
func (o Options) Validate() error {
	switch {
	case o.Slice < 0:
		return fmt.Errorf("slice %v: want 0 or more", o.Slice)
	case o.Slice > 0 && o.Slice < time.Millisecond:
		return fmt.Errorf("slice %v: want at least 1ms: every slice has all metrics", o.Slice)
	}
	return checkPrefix(o.Prefix)
}
