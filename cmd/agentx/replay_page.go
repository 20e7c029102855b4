package main

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/agentx/agentx/replay"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/report/compare"
)

// comparePage makes the page over the runs of a list, in the order of their concurrencies, beside its index. Notes say what is
// known of a run besides, by its directory. Runs that repeat one are a group. It returns the comparison and the names of the files: none of a
// list with fewer than two results.
func comparePage(ctx context.Context, list *measure.List, notes map[string]string, lead ...string) (*compare.Comparison, []string, error) {
	var sources []compare.Source
	runs := slices.Clone(list.Runs)
	slices.SortStableFunc(runs, func(a, b measure.ListedRun) int { return cmp.Compare(a.Concurrency, b.Concurrency) })
	for _, r := range runs {
		if r.Headline == nil || r.Dir == "" {
			continue
		}
		sources = append(sources, compare.Source{Dir: filepath.Join(list.Out, r.Dir), Note: notes[r.Dir], Group: groupOf(r)})
	}
	if len(sources) < 2 || list.Out == "" {
		return nil, nil, nil
	}
	c, err := compare.Make(ctx, sources, compare.Options{Lead: lead})
	if err != nil {
		return nil, nil, err
	}
	names, err := c.Write(ctx, list.Out)
	return c, names, err
}

// groupOf names the runs of a list that a run repeats; "": it repeats none.
func groupOf(r measure.ListedRun) string {
	if r.Repeat == 0 {
		return ""
	}
	return fmt.Sprintf("concurrency %d", r.Concurrency)
}

// listedGroup names the runs that the run in a directory repeats, as the index of its list says; "": there is none.
func listedGroup(dir string) string {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return ""
	}
	list, err := replay.ReadList(filepath.Dir(abs))
	if err != nil { // no list, or none that can be read, which its own report tells
		return ""
	}
	k := slices.IndexFunc(list.Runs, func(r measure.ListedRun) bool { return r.Dir == filepath.Base(abs) })
	if k < 0 || list.Runs[k].Repeat == 0 {
		return ""
	}
	return filepath.Base(filepath.Dir(abs)) + ", " + groupOf(list.Runs[k])
}
