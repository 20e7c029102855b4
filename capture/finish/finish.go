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

	"github.com/agentx/agentx/capture/journal"
	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/internal/regular"
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
		err = fmt.Errorf("it is of the trace %q", s.Trace)
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
