package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agentx/agentx/cmd/internal/export"
	"github.com/agentx/agentx/internal/bytefmt"
	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/internal/terminal"
)

// outwardFlags say in which format traces are written, and where.
type outwardFlags struct {
	tableFlags
	set     []string
	to, out string
}

func newExport() *cobra.Command {
	var f outwardFlags
	cmd := &cobra.Command{
		Use:   "export CACHE|INPUT --to weka|mooncake|dynamo --out DIR",
		Short: "Write traces in a format that other programs read",
		Long: `Write all traces of a CACHE, or of an INPUT that is converted first, as JSON lines that other programs
read. They have lengths, times and numbers of blocks, and no text. Filters of the conversion count.

  weka      traces with subagents, as agentx capture and import write them: AIPerf, kv-cache-tester
  mooncake  a line a request: Dynamo's simulator, AIPerf. Sessions that hang on others stand alone
  dynamo    request traces (dynamo.request.trace.v1), with the parent of each session: Dynamo

Blocks are numbered anew; prompts share what they shared. weka has whole blocks alone: the rest of a prompt
is filler. In the other two each block of a prompt has a number, and one that the recording does not know is
shared with no other. Readers of mooncake must be told the tokens of a block, which are printed.

The logs of agents have text: agentx import makes traces of them.

The last line printed is the path of the file.`,
		Example: "  agentx export traces.jsonl.zst --to dynamo --out for-dynamo\n  agentx export CACHE --to mooncake --out rows\n  agentx convert $(agentx export requests.csv --to weka --out traces | tail -n 1)",
	}
	cmd.Flags().StringVar(&f.to, "to", "", "format: "+strings.Join(export.Formats(), ", "))
	cmd.Flags().StringVar(&f.out, "out", "", "directory of the file; made where it is missing, else empty")
	cmd.Flags().StringArrayVar(&f.set, "set", nil, "NAME=VALUE, one rule of the conversion of an INPUT, such as block_size=64 (repeatable)")
	f.register(cmd)
	return answering(cmd, cobra.ExactArgs(1), func(cmd *cobra.Command, args []string) (any, func(io.Writer), error) {
		if err := f.check(cmd); err != nil {
			return nil, nil, err
		}
		r, err := f.write(cmd, args[0])
		if err != nil {
			return nil, nil, err
		}
		return r, r.print, nil
	})
}

// check returns all errors of the flags.
func (f *outwardFlags) check(cmd *cobra.Command) error {
	var p problems
	if !slices.Contains(export.Formats(), f.to) {
		p.add("%s: %w", shown(cmd, "to", f.to), wrongWord(f.to, either(export.Formats()), export.Formats()))
	}
	entries, err := os.ReadDir(f.out)
	switch {
	case f.out == "":
		p.add("--out is missing: name the directory for the file")
	case err != nil && !errors.Is(err, os.ErrNotExist):
		p.add("--out %w", err)
	case len(entries) > 0:
		p.tell(usageError{fmt.Errorf("--out %s: it has files", f.out)}, "another --out")
	}
	return p.err()
}

// exported is the JSON of export.
type exported struct {
	Format string `json:"format"`
	export.Total
	File string `json:"file"`
}

// write writes the file, which appears whole or not at all.
func (f *outwardFlags) write(cmd *cobra.Command, name string) (r *exported, err error) {
	dataset, err := f.openTables(cmd, name, f.set, 0)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, dataset.Close()) }()
	r = &exported{Format: f.to, File: filepath.Join(f.out, f.to+".jsonl")}
	if err := os.MkdirAll(f.out, 0o777); err != nil {
		return nil, fmt.Errorf("--out %w", err)
	}
	file, err := durable.NewFile(r.File, durable.Options{})
	if err != nil {
		return nil, fmt.Errorf("--out %w", err)
	}
	defer func() { err = errors.Join(err, file.Discard()) }()
	err = dataset.Cache.Guard(func() (err error) {
		r.Total, err = export.Write(cmd.Context(), dataset.Cache, f.to, file)
		return err
	})
	switch {
	case errors.Is(err, export.ErrLiveAnswers):
		return nil, hintError{fmt.Errorf("%s: %w", name, err), "convert it with --set session_rows=new, which puts filler in their place"}
	case err != nil:
		return nil, fmt.Errorf("%s: %w", r.File, err)
	}
	return r, file.Publish()
}

// print prints what was written, for people.
func (r *exported) print(w io.Writer) {
	safe := terminal.Writer(w)
	fmt.Fprintf(safe, "%s: %s, %s, %s, %s prompt tokens, blocks of %d\n", r.Format, bytefmt.Count(r.Traces, "trace"), bytefmt.Count(r.Sessions, "session"),
		bytefmt.Count(r.Requests, "request"), bytefmt.Digits(int(r.PromptTokens)), r.BlockSize)
	if r.Unlinked > 0 {
		fmt.Fprintf(safe, "%s no longer hang on others, which the format cannot say\n", bytefmt.Count(r.Unlinked, "session"))
	}
	fmt.Fprintln(safe, r.File)
}
