package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"

	"github.com/agentx/agentx/report/html"
)

// formatHTML is the page of a run.
const formatHTML = "html"

// writeHTML writes the page of the run.
func (e *exported) writeHTML(ctx context.Context) error {
	run, err := e.open()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(e.Out, 0o777); err != nil {
		return err
	}
	if err := html.Write(ctx, run, filepath.Join(e.Out, html.File)); err != nil {
		return err
	}
	e.Files = append(e.Files, html.File)
	for _, text := range run.Missing {
		if !slices.Contains(e.Missing, text) {
			e.Missing = append(e.Missing, text)
		}
	}
	return nil
}
