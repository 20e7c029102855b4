package main

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/agentx/agentx/report/aiperf"
	"github.com/agentx/agentx/report/gate"
)

// filesReport is what report says of files that it did not write.
type filesReport struct {
	Dir     string           `json:"dir"`
	Version string           `json:"aiperf_version"`
	Schema  string           `json:"schema_version"`
	Start   string           `json:"start_time"`
	End     string           `json:"end_time"`
	Rows    aiperf.RowCounts `json:"rows"`
	Metrics json.Marshaler   `json:"metrics"` // null: there is no aggregate
	Lacks   []string         `json:"lacks"`
	Differs []string         `json:"differs"`
	Gates   []gate.Verdict   `json:"gates,omitempty"`
}

// printFiles prints the numbers of files of AIPerf, what they lack, and where they differ.
func printFiles(cmd *cobra.Command, d *aiperf.Directory, gates []gate.Verdict, asJSON bool) error {
	r := filesReport{Dir: d.Path, Rows: d.Rows, Lacks: d.Lacks, Differs: d.Differs, Gates: gates}
	if a := d.Aggregate; a != nil {
		r.Version, r.Schema, r.Start, r.End, r.Metrics = a.Version, a.Schema, a.Start, a.End, aiperf.Blocks(a.Headline)
	}
	if asJSON {
		return printJSON(cmd.OutOrStdout(), r)
	}
	for _, text := range d.Lacks {
		printError(cmd.ErrOrStderr(), "agentx: warning: "+d.Path+": "+text)
	}
	for _, text := range d.Differs {
		printError(cmd.ErrOrStderr(), "agentx: warning: "+d.Path+": "+text)
	}
	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "%s: files of AIPerf", d.Path)
	if a := d.Aggregate; a != nil {
		fmt.Fprintf(out, ", written by %s, schema %s, %s to %s", a.Version, a.Schema, a.Start, a.End)
	}
	fmt.Fprintf(out, "\nrows: %d succeeded, %d failed, %d of the warmup, %d others\n", d.Rows.Succeeded, d.Rows.Failed, d.Rows.Warmup, d.Rows.Others)
	_, err := out.Write(d.Text())
	writePassed(out, gates)
	return err
}

// printIndented prints a value as indented JSON.
func printIndented(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
