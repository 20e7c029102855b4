package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/agentx/agentx/simulate"
	"github.com/agentx/agentx/simulate/comparison"
)

// comparedRuns returns several runs as a comparison takes them.
func comparedRuns(list []*simulateRun) (runs []*comparison.Run) {
	for _, r := range list {
		runs = append(runs, &comparison.Run{
			Name: r.Name, Engine: r.engine, Config: r.config, Exit: r.Exit, Reasons: r.Reasons, Summary: r.Summary, Samples: r.samples,
		})
	}
	return runs
}

// answers says what several runs answer: what a search found, or where runs of a list begin to keep their gates.
func (f *simulateFlags) answers(list []*simulateRun, a *sizeAnswer) []string {
	if a != nil {
		return []string{a.Text}
	}
	return append([]string{}, comparison.Answers(comparedRuns(list), f.gateList)...)
}

// comparisonPath returns where the page of several runs is.
func (f *simulateFlags) comparisonPath() string { return filepath.Join(f.out, comparison.PageFile) }

// checkComparison returns an error if the page of several runs would replace another one.
func (f *simulateFlags) checkComparison() error {
	if f.overwrite {
		return nil
	}
	switch _, err := os.Lstat(f.comparisonPath()); {
	case err == nil:
		return fmt.Errorf("%s: %w: %s", f.out, simulate.ErrResultsExist, comparison.PageFile)
	case errors.Is(err, fs.ErrNotExist):
		return nil
	default:
		return err
	}
}

// writeComparison writes the page of several runs and returns where it is. Where no pages are wanted, it removes that of other runs.
func (f *simulateFlags) writeComparison(list []*simulateRun, a *sizeAnswer) (path string, err error) {
	switch {
	case f.out == "":
		return "", nil
	case f.html == "":
		if err := os.Remove(f.comparisonPath()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		return "", nil
	}
	return f.comparisonPath(), comparison.Write(f.comparisonPath(), comparison.Options{
		Title: fmt.Sprintf("Simulated: %d runs", len(list)), Lead: f.answers(list, a), Runs: comparedRuns(list), Gates: f.gateList,
	})
}
