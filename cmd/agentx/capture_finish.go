package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/agentx/agentx/capture/finish"
	"github.com/agentx/agentx/capture/journal"
)

func newCaptureFinish() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "finish DIR",
		Short: "Make traces of the journals that a crash left",
		Long: `Make traces of the journals that a crash left in the directory of a capture. A capture that starts in
the directory does the same.

A journal is read up to the first line that is not whole. The same journal gives the same bytes, however
often finish itself is interrupted. How a trace is written (its grid, its masks, what becomes of holes)
stands in its journal. A trace that fails its check is set aside as TRACE.json.bad: exit 3.

The last line is the folder of the traces.`,
		Example: "  agentx convert $(agentx capture finish DIR | tail -n 1)",
		Args:    checkArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return finishCapture(cmd, args[0], asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object")
	return cmd
}

// finished is the JSON of capture finish.
type finished struct {
	*finish.Total
	Out string `json:"out"`
}

func finishCapture(cmd *cobra.Command, dir string, asJSON bool) (err error) {
	if _, err := os.Stat(filepath.Join(dir, "journal")); err != nil {
		return usageError{fmt.Errorf("capture finish: %s is no directory of a capture: %w", dir, err)}
	}
	folder, err := openCapture(cmd.Context(), dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, folder.Close()) }()
	list, err := finish.Recover(cmd.Context(), folder)
	total := finish.NewTotal()
	for _, r := range list {
		total.Add(r)
	}
	out := filepath.Join(dir, journal.TracesDir)
	if asJSON {
		err = errors.Join(err, printJSON(cmd.OutOrStdout(), finished{total, out}))
	} else {
		printFinished(cmd.OutOrStdout(), list, total, out)
	}
	if err == nil && total.Bad > 0 {
		return verdictError{fmt.Errorf("capture finish: %d of %d sessions have no good trace: they are set aside as .bad", total.Bad, total.Sessions)}
	}
	return err
}

// openCapture takes the directory of a capture for this process.
func openCapture(ctx context.Context, dir string) (*journal.Folder, error) {
	folder, err := journal.OpenFolder(ctx, dir, journal.Options{})
	if errors.Is(err, journal.ErrBusy) {
		err = hintError{err, "end that process, which finishes its sessions itself; or another directory"}
	}
	return folder, err
}

// printFinished prints a line for each session that is not whole, sums, and the folder of the traces.
func printFinished(w io.Writer, list []finish.Result, total *finish.Total, out string) {
	safe := sanitizer{w}
	for _, r := range list {
		for _, problem := range r.Problems {
			fmt.Fprintf(safe, "bad %s: %s\n", r.Trace, problem)
		}
		if r.Incomplete && !r.Bad {
			fmt.Fprintf(safe, "incomplete %s: %d of %d requests\n", r.Trace, r.Recorded, r.Requests)
		}
	}
	fmt.Fprintf(safe, "%d sessions: %d traces, %d of %d requests\n", total.Sessions, total.Traces, total.Recorded, total.Requests)
	fmt.Fprintln(w, out)
}
