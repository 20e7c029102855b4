package replay

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/internal/regular"
	"github.com/agentx/agentx/replay/measure"
)

// List is a list of runs that differ only in how many lanes they have: doc/spec/replay.md 4.11.
type List struct {
	Concurrencies []int // of the runs, in the order in which they are played; none twice
	StopOnFailure bool  // a run whose exit status is not 0 ends the list

	// Begin may complete the options of a run before it begins, such as its callbacks; nil: nothing is left to complete.
	Begin func(o *Options)
	// End is told how a run ended, and returns the exit status that this means; nil: 1 after an error, else 0.
	End func(o Options, s *measure.Summary, err error) int
}

// RunList plays the runs of a list one after another, over one open cache. Each has fresh counters, connections and markers,
// and a directory of its own below Options.Out, whose ConcurrenciesFile is written after every run. A run that fails does not
// end the list, unless StopOnFailure is set; when ctx ends, the run that is played ends as Run does, and none follows.
//
// The list has the runs that have ended. The error says that the options are wrong, or the index cannot be written.
func RunList(ctx context.Context, o Options, l List) (*measure.List, error) {
	if err := l.validate(o); err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	list := &measure.List{Preset: o.withDefaults().Preset, CacheKey: o.Cache.Manifest.Key}
	if o.Out != "" {
		dir := resultsDir{o.Out, o.UniqueOut, o.Overwrite}
		if err := dir.make(); err != nil {
			return nil, fmt.Errorf("results: %w", err)
		}
		list.Out = dir.path
	}
	for _, n := range l.Concurrencies {
		if ctx.Err() != nil {
			break
		}
		r := l.play(ctx, o, list.Out, n)
		list.Runs = append(list.Runs, r)
		if err := writeList(list); err != nil {
			return list, fmt.Errorf("results: %w", err)
		}
		if l.StopOnFailure && r.Exit != 0 {
			break
		}
	}
	return list, nil
}

// play plays one run of a list.
func (l *List) play(ctx context.Context, o Options, dir string, concurrency int) measure.ListedRun {
	r := measure.ListedRun{Concurrency: concurrency}
	o.Concurrency, o.UniqueOut = concurrency, false
	if dir != "" {
		r.Dir = runDir(concurrency)
		o.Out = filepath.Join(dir, r.Dir)
	}
	if l.Begin != nil {
		l.Begin(&o)
	}
	s, err := Run(ctx, o)
	if s != nil {
		r.Summary, r.Headline = s, s.Figures()
	}
	switch {
	case l.End != nil:
		r.Exit = l.End(o, s, err)
	case err != nil:
		r.Exit = 1
	}
	return r
}

// runDir returns the name of the directory of a run of a list.
func runDir(concurrency int) string { return fmt.Sprintf("c%04d", concurrency) }

// validate returns an error that names the first thing that keeps a run of the list from beginning.
func (l *List) validate(o Options) error {
	if len(l.Concurrencies) == 0 {
		return errors.New("list: no concurrency: want one or more")
	}
	for k, n := range l.Concurrencies {
		if n < 1 {
			return fmt.Errorf("list: concurrency %d: want 1 to %d", n, MaxConcurrency)
		}
		if slices.Contains(l.Concurrencies[:k], n) {
			return fmt.Errorf("list: concurrency %d is there twice: its two runs would share a directory", n)
		}
		o.Concurrency = n
		if err := o.Validate(); err != nil {
			return err
		}
	}
	if o.Out == "" || o.UniqueOut || o.Overwrite {
		return nil
	}
	return CheckListDir(o.Out, l.Concurrencies)
}

// CheckListDir does what CheckResultsDir does for a list of runs: it also looks into the directory of each concurrency.
func CheckListDir(dir string, concurrencies []int) error {
	if err := CheckResultsDir(dir); err != nil {
		return err
	}
	for _, n := range concurrencies {
		if err := CheckResultsDir(filepath.Join(dir, runDir(n))); err != nil {
			return err
		}
	}
	return nil
}

// maxListIndex bounds ConcurrenciesFile, bytes.
const maxListIndex = 64 << 20

// ReadList reads the index of a list of runs.
func ReadList(dir string) (*measure.List, error) {
	path := filepath.Join(dir, ConcurrenciesFile)
	data, err := regular.Read(path, maxListIndex)
	if err != nil {
		return nil, err
	}
	var list measure.List
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &list, nil
}

// writeList writes the index of a list of runs.
func writeList(list *measure.List) error {
	if list.Out == "" {
		return nil
	}
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(list.WithoutSummaries()); err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(list.Out, ConcurrenciesFile), text.Bytes())
}
