package main

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/report/compare"
)

// comparePage makes the page over the runs of a list, in the order of their concurrencies, beside its index. Notes say what is
// known of a run besides, by its directory. Runs that repeat one are a group. It returns the names of the files: none of a list with
// fewer than two results.
func comparePage(ctx context.Context, list *measure.List, notes map[string]string, lead ...string) ([]string, error) {
	var sources []compare.Source
	runs := slices.Clone(list.Runs)
	slices.SortStableFunc(runs, func(a, b measure.ListedRun) int { return cmp.Compare(a.Concurrency, b.Concurrency) })
	for _, r := range runs {
		if r.Headline == nil || r.Dir == "" {
			continue
		}
		s := compare.Source{Dir: filepath.Join(list.Out, r.Dir), Note: notes[r.Dir]}
		if r.Repeat > 0 {
			s.Group = fmt.Sprintf("concurrency %d", r.Concurrency)
		}
		sources = append(sources, s)
	}
	if len(sources) < 2 || list.Out == "" {
		return nil, nil
	}
	c, err := compare.Make(ctx, sources, compare.Options{Lead: lead})
	if err != nil {
		return nil, err
	}
	return c.Write(ctx, list.Out)
}
