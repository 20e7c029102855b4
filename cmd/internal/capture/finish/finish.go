// Package finish turns journals of finished sessions into traces and notes.
//
// What a journal becomes is a function of its bytes alone: its head says how the trace is to be written. So a crash
// between any two steps ends, after Recover, in the same files.
//
// Files: finish.go (journal to bytes, and these to files in an order that a crash cannot spoil), document.go (the trace, its subagents
// and masks; which requests are not in it, and why; the note). doc/spec/capture.md 8 and 9 have the rules.
package finish

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/agentx/agentx/cmd/internal/capture/journal"
	"github.com/agentx/agentx/convert/reconstruct"
	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/convert/weka"
	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/internal/regular"
	"github.com/agentx/agentx/trace"
)

// maxJournal bounds the bytes of a journal: a request takes a few hundred.
const maxJournal = 8 << 30

// suffixBad is added to the name of a file that is set aside.
const suffixBad = ".bad"

// Finish turns the journal of a trace into its note and its trace, and removes it. The journal is closed. ctx has the options of
// internal/durable.
//
// Each file is synced, renamed to its name, and its folder synced, before the next begins; the journal goes last. A process
// that is killed between two steps leaves what Finish makes again from the journal.
func Finish(ctx context.Context, folder *journal.Folder, trace string) (Result, error) {
	if err := context.Cause(folder.Context()); err != nil {
		return Result{Trace: trace}, err
	}
	path := folder.Path(trace)
	data, err := regular.Read(path, maxJournal)
	if err != nil {
		return Result{Trace: trace}, err
	}
	s, err := journal.Read(data)
	if err == nil && s.Trace != trace {
		err = fmt.Errorf("its first line names trace %q, its file another one", s.Trace)
	}
	if err != nil {
		return setAside(folder, trace, data, err)
	}
	made := build(s)
	return made.Result, made.write(ctx, folder)
}

// setAside renames a journal of which nothing can be told. One that ends within its first line has nothing to tell, and is removed.
func setAside(folder *journal.Folder, trace string, data []byte, why error) (Result, error) {
	r := Result{Trace: trace, Incomplete: true}
	if !bytes.Contains(data, []byte("\n")) {
		return r, folder.Remove(trace)
	}
	r.Bad, r.Problems = true, []string{"its journal: " + why.Error()}
	path := folder.Path(trace)
	return r, errors.Join(os.Rename(path, path+suffixBad), folder.Remove(trace))
}

// write writes the files of a journal, and removes it.
func (f *files) write(ctx context.Context, folder *journal.Folder) error {
	o := durable.OptionsOf(ctx)
	trace := filepath.Join(folder.Dir(), journal.TracesDir, f.Trace+".json")
	err := o.WriteFile(filepath.Join(folder.Dir(), journal.NotesDir, f.Trace+".json"), f.note)
	if err == nil && f.trace != nil {
		if f.Bad {
			trace += suffixBad
		}
		err = o.WriteFile(trace, f.trace)
	}
	if err != nil {
		return err
	}
	return folder.Remove(f.Trace)
}

// Together is how many journals are finished at once where nothing else is to be done: each waits for the disk more than it computes.
const Together = 16

// Recover finishes the journals that a crash left. No session may be open. It goes on after an error, and returns all of them at the
// end. The results are in the order of the traces.
func Recover(ctx context.Context, folder *journal.Folder) (list []Result, err error) {
	traces, err := folder.Unfinished()
	if err != nil {
		return nil, err
	}
	results := make([]Result, len(traces))
	err = Each(ctx, folder, traces, func(k int) (err error) {
		results[k], err = Finish(ctx, folder, traces[k])
		if err != nil {
			results[k].Trace = ""
		}
		return err
	})
	return slices.DeleteFunc(results, func(r Result) bool { return r.Trace == "" }), err
}

// Each finishes the journals of traces by their indexes, Together at once, until ctx ends. It goes on after an error, and returns all
// of them, each with the path of its journal, in the order of the traces.
func Each(ctx context.Context, folder *journal.Folder, traces []string, finish func(k int) error) error {
	errs := make([]error, len(traces)+1)
	var group errgroup.Group
	group.SetLimit(Together)
	for k, trace := range traces {
		if ctx.Err() != nil {
			errs[len(traces)] = context.Cause(ctx)
			break
		}
		group.Go(func() error {
			if err := finish(k); err != nil {
				errs[k] = fmt.Errorf("%s: %w", folder.Path(trace), err)
			}
			return nil
		})
	}
	_ = group.Wait()
	return errors.Join(errs...)
}

// Result says what became of a session.
type Result struct {
	Trace       string
	Requests    int                    // of the journal
	Recorded    int                    // of them, those in the trace
	NotRecorded map[journal.Reason]int // the others
	Marks       map[string]int         // of recorded requests
	Incomplete  bool                   // a prompt is missing, or the journal ends early
	Bad         bool                   // the trace failed its check and was set aside; or nothing could be read
	Written     bool                   // there is a trace: it has at least as many requests as asked for
	Problems    []string               // of a bad one
}

// files are the bytes that a journal becomes.
type files struct {
	Result
	trace []byte // nil: none is written
	note  []byte
}

// build makes a trace and its note from a session.
func build(s *journal.Session) *files {
	d := newDocument(s)
	f := &files{Result: Result{Trace: s.Trace, Requests: len(s.Requests), NotRecorded: map[journal.Reason]int{}, Marks: map[string]int{}}}
	for k, reason := range d.reasons {
		if reason != "" {
			f.NotRecorded[reason]++
			continue
		}
		f.Recorded++
		for _, mark := range marksOf(&s.Requests[k]).Names() {
			f.Marks[mark]++
		}
	}
	f.Incomplete = d.cut >= 0 || s.Torn != nil
	recording := d.recording()
	var alarms []string
	if f.Recorded >= s.Export.WithDefaults().MinRequests {
		f.trace = recording.AppendJSON(nil)
		checked := weka.Check(f.trace)
		f.Problems, alarms = checked.Problems, append(checked.Alarms, refusals(checked.Trace)...)
	}
	f.Bad = len(f.Problems) > 0
	f.Written = f.trace != nil && !f.Bad
	f.note = d.note(&f.Result, alarms)
	return f
}

// refusals says which profiles of conversion refuse a trace, and why. It makes no trace bad.
func refusals(t *trace.Trace) (alarms []string) {
	if t == nil {
		return nil
	}
	for _, profile := range []struct {
		name  string
		rules rules.Rules
	}{{"default", rules.Default()}, {"aiperf", rules.AIPerf()}} {
		if _, _, err := reconstruct.MakePlan(t, profile.rules); err != nil {
			alarms = append(alarms, fmt.Sprintf("convert --profile %s refuses it: %v", profile.name, err))
		}
	}
	return alarms
}

// marksOf returns the marks of a recorded request, those of how it ended among them.
func marksOf(r *journal.Request) journal.Mark {
	m := r.End.Marks
	switch r.End.X {
	case journal.Partial:
		m |= journal.MarkPartial
	case journal.ClientGone:
		m |= journal.MarkClientGone
	}
	return m
}

// Add adds what became of another session.
func (t *Total) Add(r Result) {
	t.Sessions++
	t.Requests += r.Requests
	t.Recorded += r.Recorded
	for reason, n := range r.NotRecorded {
		t.NotRecorded[reason] += n
	}
	for mark, n := range r.Marks {
		t.Marks[mark] += n
	}
	for is, n := range map[*int]bool{&t.Traces: r.Written, &t.Incomplete: r.Incomplete, &t.Bad: r.Bad} {
		if n {
			*is++
		}
	}
}

// Total sums up results.
type Total struct {
	Sessions    int                    `json:"sessions"`
	Traces      int                    `json:"traces"`
	Requests    int                    `json:"requests"`
	Recorded    int                    `json:"recorded"`
	NotRecorded map[journal.Reason]int `json:"not_recorded"`
	Marks       map[string]int         `json:"marks"`
	Incomplete  int                    `json:"incomplete"`
	Bad         int                    `json:"bad"`
}

// NewTotal returns the sum of no results.
func NewTotal() *Total {
	return &Total{NotRecorded: map[journal.Reason]int{}, Marks: map[string]int{}}
}
