package main

import (
	"encoding/hex"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/agentx/agentx/convert/weka"
	"github.com/agentx/agentx/hfsource"
)

// captureCheckFlags say what capture check does besides checking.
type captureCheckFlags struct {
	trie, setAside, asJSON bool
}

func newCaptureCheck() *cobra.Command {
	var f captureCheckFlags
	cmd := &cobra.Command{
		Use:   "check INPUT...",
		Short: "Check captured traces; exit 3 when one is bad",
		Long: `Check traces as capture writes them, which is stricter than what convert reads: every key and word, ids
numbered by first sight, times, sums. A line tells what is wrong, and where. An INPUT is a file or a
directory of traces in JSON, as convert takes them; the directory of a capture stands for its traces.

Alarms are doubts that make no trace bad: prompts that lack the last block of the one before, or begin
anew too often, so that something which changes is hashed with them.

--trie prints the digest of each trace's trie of blocks, and its nodes: the shape of the trace, whatever
the numbers of blocks and the order of requests. Two captures of one thing have equal digests.`,
		Example: "  agentx capture check DIR\n  agentx capture check DIR/traces --trie",
		Args:    checkArgs(cobra.MinimumNArgs(1)),
		RunE:    func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	cmd.Flags().BoolVar(&f.trie, "trie", false, "print the digest of each trace")
	cmd.Flags().BoolVar(&f.setAside, "set-aside", false, "rename a file with a bad trace to FILE.bad, which convert passes over")
	cmd.Flags().BoolVar(&f.asJSON, "json", false, "one JSON object")
	return cmd
}

// checkedTraces is what capture check found.
type checkedTraces struct {
	Traces  int            `json:"traces"`
	Bad     int            `json:"bad"`
	Alarmed int            `json:"alarmed"`
	Files   []checkedTrace `json:"files"`
}

// checkedTrace is what it found of one trace.
type checkedTrace struct {
	Where    string   `json:"where"`
	Trace    string   `json:"trace,omitempty"`
	Requests int      `json:"requests"`
	Problems []string `json:"problems"`
	More     int      `json:"more_problems,omitempty"`
	Alarms   []string `json:"alarms"`
	Nodes    *int     `json:"nodes,omitempty"`
	Digest   string   `json:"digest,omitempty"`
	SetAside string   `json:"set_aside,omitempty"`
}

func (f *captureCheckFlags) run(cmd *cobra.Command, args []string) error {
	snapshot, err := hfsource.Resolve(cmd.Context(), args, inputSources(cmd))
	if err != nil {
		return hintConvert(err)
	}
	defer snapshot.Close()
	all := checkedTraces{Files: []checkedTrace{}}
	w := cmd.OutOrStdout()
	err = snapshot.Rows(cmd.Context(), nil, nil, func(row hfsource.Row) error {
		c, err := f.check(row)
		row.Free()
		if err != nil {
			return err
		}
		all.add(c, f.asJSON)
		if !f.asJSON {
			c.print(sanitizer{w})
		}
		return nil
	})
	if err != nil {
		return hintConvert(err)
	}
	if f.asJSON {
		if err := printJSON(w, all); err != nil {
			return err
		}
	} else if !f.trie || all.Bad+all.Alarmed > 0 {
		fmt.Fprintf(w, "%d traces, %d bad, %d with alarms\n", all.Traces, all.Bad, all.Alarmed)
	}
	if all.Bad > 0 {
		return verdictError{fmt.Errorf("capture check: %d of %d traces are bad", all.Bad, all.Traces)}
	}
	return nil
}

// add counts a trace, and keeps it where all of them are printed at the end.
func (a *checkedTraces) add(c checkedTrace, keep bool) {
	a.Traces++
	if len(c.Problems) > 0 {
		a.Bad++
	}
	if len(c.Alarms) > 0 {
		a.Alarmed++
	}
	if keep {
		a.Files = append(a.Files, c)
	}
}

// check checks the trace of a row.
func (f *captureCheckFlags) check(row hfsource.Row) (checkedTrace, error) {
	c := checkedTrace{Where: row.Location(), Problems: []string{}, Alarms: []string{}}
	switch {
	case row.Err != nil:
		c.Problems = append(c.Problems, row.Err.Error())
		return c, nil
	case row.Columns != nil:
		return c, usageError{fmt.Errorf("capture check: %s has columns: want traces in JSON", row.File)}
	}
	found := weka.Check(row.Data)
	c.Requests, c.More = found.Requests, found.More
	c.Problems, c.Alarms = append(c.Problems, found.Problems...), append(c.Alarms, found.Alarms...)
	trace := found.Trace
	if trace == nil && f.trie {
		trace, _ = weka.Scan(row.Data, weka.Default()) // what is no good trace may have a shape
	}
	if trace != nil {
		c.Trace = trace.ID
	}
	if trace != nil && f.trie {
		c.shape(weka.TrieOf(trace))
	}
	if f.setAside && len(c.Problems) > 0 {
		return c, c.setAside(row)
	}
	return c, nil
}

func (c *checkedTrace) shape(trie *weka.Trie) {
	nodes, digest := trie.Nodes(), trie.Digest()
	c.Nodes, c.Digest = &nodes, hex.EncodeToString(digest[:])
}

// setAside renames the file of a bad trace, which is the only one in it.
func (c *checkedTrace) setAside(row hfsource.Row) error {
	if row.Line != 0 {
		return usageError{fmt.Errorf("--set-aside: %s has many traces: it renames files of one", row.File)}
	}
	c.SetAside = row.File + ".bad"
	return os.Rename(row.File, c.SetAside)
}

// print prints what is wrong with a trace, and its digest.
func (c *checkedTrace) print(w io.Writer) {
	for _, problem := range c.Problems {
		fmt.Fprintf(w, "bad %s: %s\n", c.Where, problem)
	}
	if c.More > 0 {
		fmt.Fprintf(w, "bad %s: and %d more\n", c.Where, c.More)
	}
	for _, alarm := range c.Alarms {
		fmt.Fprintf(w, "alarm %s: %s\n", c.Where, alarm)
	}
	if c.Digest != "" {
		fmt.Fprintf(w, "%s %d %s\n", c.Digest, *c.Nodes, c.Trace)
	}
}
