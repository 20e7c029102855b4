// Package imports turns logs with text into anonymised traces: doc/spec/text.md 12.
//
// An import is a capture that is over already. The messages of each turn go through the tree of blocks of a capture, the lines of a session
// into its journal, and what finishes journals makes trace and note. So blocks, times, subagents, checks, and what a crash leaves, are those
// of captures.
//
//	err := imports.Check(dir, false)
//	...                                                            // reads the logs
//	result, err := imports.Write(ctx, dataset, sizes, imports.Options{Dir: dir, ...})
//
// Files: imports.go (traces of a dataset), recorder.go (the journal of a trace), segments.go (messages to canonical segments).
package imports

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/agentx/agentx/cmd/internal/capture/canon"
	"github.com/agentx/agentx/cmd/internal/capture/chain"
	"github.com/agentx/agentx/cmd/internal/capture/finish"
	"github.com/agentx/agentx/cmd/internal/capture/journal"
	"github.com/agentx/agentx/convert/text"
)

// Options say how traces are made.
type Options struct {
	Dir       string          // like that of a capture
	Tokenizer chain.Tokenizer // its tokens are those of the sizes of the dataset
	Name      string          // of the tokenizer
	BlockSize int
	Recorded  bool // prompts are as long as the log says, where that is longer than what is counted
	Random    io.Reader
	Export    journal.Export
	Progress  func(requests int) // called as prompts are done; may be nil
}

// ErrNotEmpty is wrapped by the error about a directory that has traces.
var ErrNotEmpty = errors.New("it has traces already")

// Check returns an error where the directory has traces.
func Check(dir string) error {
	entries, err := os.ReadDir(filepath.Join(dir, journal.TracesDir))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if len(entries) > 0 {
		return fmt.Errorf("%s: %w", dir, ErrNotEmpty)
	}
	return nil
}

// Result says what became of a dataset.
type Result struct {
	*finish.Total
	Out       string          `json:"out"`
	Subagents int             `json:"subagents"`
	Counted   int64           `json:"counted_tokens"` // of all prompts, fillers included
	Filler    int64           `json:"filler_tokens"`  // of them
	Traces    []finish.Result `json:"-"`
}

// Write completes the sizes of a dataset, and makes a trace of each of its root sessions, in their order. What it has written before an error stays, and is whole.
func Write(ctx context.Context, d *text.Dataset, s *text.Sizes, o Options) (r *Result, err error) {
	folder, err := journal.OpenFolder(ctx, o.Dir, false)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, folder.Close()) }()
	if _, err := finish.Recover(ctx, folder); err != nil {
		return nil, err
	}
	names, err := folder.Traces()
	if err != nil {
		return nil, err
	}
	w := &writer{Options: o, folder: folder, data: d, sizes: s, used: map[string]bool{},
		result: &Result{Total: finish.NewTotal(), Out: filepath.Join(o.Dir, journal.TracesDir), Traces: make([]finish.Result, len(d.Traces))}}
	for _, name := range names {
		w.used[name] = true
	}
	w.before = len(w.used)
	err = w.traces(ctx)
	w.numbers.Erase()
	clear(w.key[:])
	if err != nil {
		return nil, err
	}
	w.result.Traces = slices.DeleteFunc(w.result.Traces, func(one finish.Result) bool { return one.Trace == "" })
	for _, one := range w.result.Traces {
		w.result.Add(one)
	}
	return w.result, nil
}

// writer writes the traces of a dataset.
type writer struct {
	Options
	folder *journal.Folder
	data   *text.Dataset
	sizes  *text.Sizes
	used   map[string]bool // names of traces
	before int             // how many there were
	result *Result

	key     [sha256.Size]byte // of ScopeDataset: of all traces, drawn for the first one
	numbers chain.Numbers     // likewise
}

// traces writes all traces. They are finished beside each other, for each waits for the disk.
func (w *writer) traces(ctx context.Context) error {
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(finish.Together)
	var mu sync.Mutex
	failed := func(err error) bool { return err != nil || inner.Err() != nil }
	var err error
	for k := range w.data.Traces {
		var name string
		if name, err = w.journal(inner, k); failed(err) {
			break
		}
		if name == "" {
			continue
		}
		group.Go(func() error {
			result, err := finish.Finish(inner, w.folder, name)
			mu.Lock()
			defer mu.Unlock()
			w.result.Traces[k] = result
			return err
		})
	}
	if err = errors.Join(err, group.Wait(), ctx.Err()); err == nil && len(w.used) == w.before {
		return errors.New("no turn of the input has a prompt with a message")
	}
	return err
}

// journal writes the journal of a trace, and returns the name of that; "" where no prompt has a message.
func (w *writer) journal(ctx context.Context, k int) (name string, err error) {
	if err := w.sizes.CompleteTrace(w.data.Traces[k]); err != nil {
		return "", err
	}
	r := &recorder{stream: stream{data: w.data, sizes: w.sizes}, trace: w.data.Traces[k], number: k, recorded: w.Recorded}
	if r.prepare(); len(r.requests) == 0 {
		return "", nil
	}
	name, key, err := w.draw()
	if err != nil {
		return "", err
	}
	if w.Export.Scope == journal.ScopeDataset {
		if r.numbers = &w.numbers; w.key == [sha256.Size]byte{} {
			w.key = key
		}
		key = w.key
	}
	tree, err := chain.New(key, chain.Options{Tokenizer: w.Tokenizer, Name: w.Name, BlockSize: w.BlockSize})
	clear(key[:])
	if err != nil {
		return "", err
	}
	defer tree.Erase()
	format := ""
	if len(w.data.Formats) == 1 {
		format = w.data.Formats[0]
	}
	j, err := w.folder.Create(journal.Head{Trace: name, BlockSize: w.BlockSize, Canon: canon.Version, Tokenizer: w.Name, By: journal.ByLog, Format: format, Export: w.Export})
	if err != nil {
		return "", err
	}
	r.tree, r.journal = tree, j
	if err = errors.Join(r.record(ctx), j.Close()); err != nil {
		return "", errors.Join(err, w.folder.Remove(name))
	}
	w.count(r)
	return name, nil
}

// count adds what a trace has to the result.
func (w *writer) count(r *recorder) {
	agents := map[int]bool{}
	for _, q := range r.requests {
		agents[q.session] = true
		w.result.Counted += int64(q.counted)
		w.result.Filler += int64(fillerOf(&r.trace.Sessions[q.session]))
	}
	delete(agents, 0)
	w.result.Subagents += len(agents)
	if w.Progress != nil {
		w.Progress(len(r.requests))
	}
}

// draw draws the name of a trace that none has, and its key.
func (w *writer) draw() (name string, key [sha256.Size]byte, err error) {
	for name == "" || w.used[name] {
		var id [4]byte
		if _, err = io.ReadFull(w.Random, id[:]); err == nil {
			_, err = io.ReadFull(w.Random, key[:])
		}
		if err != nil {
			return "", key, fmt.Errorf("cannot draw a key for a trace: %w", err)
		}
		name = "imp-" + hex.EncodeToString(id[:])
	}
	w.used[name] = true
	return name, key, nil
}

// Worst returns the results of traces that are not whole, the bad ones first.
func (r *Result) Worst() []finish.Result {
	list := slices.DeleteFunc(slices.Clone(r.Traces), func(one finish.Result) bool { return !one.Bad && !one.Incomplete })
	slices.SortStableFunc(list, func(a, b finish.Result) int { return bool2int(b.Bad) - bool2int(a.Bad) })
	return list
}

func bool2int(b bool) int {
	if b {
		return 1
	}
	return 0
}
