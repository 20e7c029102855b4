package main

import (
	"bufio"
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/agentx/agentx/cmd/internal/inspect"
	"github.com/agentx/agentx/internal/suggest"
	"github.com/agentx/agentx/mmapcache"
)

// inspectFlags say what to show of a cache, and how.
type inspectFlags struct {
	sel                                  mmapcache.Selection
	turn                                 int // None: all
	all, digest, messages, stats, asJSON bool
	model                                string
}

// register adds the flags to a command.
func (f *inspectFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.sel.Trace, "trace", "", "only this trace")
	flags.StringVar(&f.sel.Session, "session", "", "only this session")
	flags.IntVar(&f.turn, "turn", mmapcache.None, "only this turn of each session, from 0")
	flags.Lookup("turn").DefValue = "0" // usage prints no default
	flags.BoolVar(&f.all, "all", false, "show every turn of every trace")
	flags.BoolVar(&f.digest, "digest", false, "print one JSON line of digests per trace")
	flags.StringVar(&f.model, "model", "-", "with --digest: model name of every turn; - keeps the recorded ones")
	flags.BoolVar(&f.messages, "messages", false, "print messages as JSON lines")
	flags.BoolVar(&f.stats, "stats", false, "print statistics of all traces")
	flags.BoolVar(&f.asJSON, "json", false, "one JSON object: the list of traces, or with --stats the statistics")
}

// turns reports whether the flags ask for turns.
func (f *inspectFlags) turns() bool {
	return f.all || f.sel.Trace != "" || f.sel.Session != "" || f.turn != mmapcache.None
}

// check returns a usage error for flags that do not go together.
func (f *inspectFlags) check() error {
	switch {
	case f.messages && f.sel.Trace == "" && f.sel.Session == "":
		return usageError{fmt.Errorf("--messages: say which trace with --trace ID")}
	case f.turn < mmapcache.None:
		return usageError{fmt.Errorf("--turn %d: want 0 or more", f.turn)}
	case f.model != "-" && !f.digest:
		return usageError{fmt.Errorf("--model: works only with --digest")}
	case f.digest && (f.messages || f.stats) || f.messages && f.stats:
		return usageError{fmt.Errorf("--digest, --messages, --stats: choose one")}
	case f.asJSON && !f.stats && (f.digest || f.messages || f.turns()):
		return usageError{fmt.Errorf("--json: works only with the list of traces and with --stats")}
	}
	return nil
}

func newInspect() *cobra.Command {
	var f inspectFlags
	var c convertFlags
	cmd := &cobra.Command{
		Use:   "inspect CACHE|INPUT",
		Short: "Show what a prepared cache holds and sends",
		Long: `List the traces of a prepared cache, or show what it sends. An INPUT is converted first, or found
converted.

Without flags it lists the traces: sessions, turns, prompt tokens, the span from the start of the
first turn to the end of the last, as recorded, and the start in the recording if it has one. With --trace, --session or --turn it shows what
is sent, turn by turn, in a stable text form; long texts are cut unless a single turn is chosen.

  --all       every turn of every trace in that form
  --messages  the messages as JSON lines, exactly as sent
  --digest    one JSON line per trace, to compare programs with
  --stats     statistics of all traces, with the lengths of prompts (ISL) and completions (OSL)

The tables of a cache are Arrow files, for any program that reads those: doc/tables.md.`,
		Example: "  agentx inspect demo\n  agentx inspect demo --trace demo-01-append\n  agentx inspect CACHE --trace ID --session SESSION --turn 0",
		Args:    checkArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(); err != nil {
				return err
			}
			dataset, err := openDataset(cmd, &c, args[0])
			if err != nil {
				return err
			}
			defer dataset.Close()
			if f.turn != mmapcache.None {
				f.sel.Turn = &f.turn
			}
			if err := checkSelection(dataset.Cache, args[0], f.sel); err != nil {
				return err
			}
			out := bufio.NewWriter(cmd.OutOrStdout())
			if err := f.write(cmd.Context(), out, dataset.Cache); err != nil {
				return err
			}
			return out.Flush()
		},
	}
	f.register(cmd)
	c.registerForInput(cmd)
	return cmd
}

// write writes what the flags ask for.
func (f *inspectFlags) write(ctx context.Context, out *bufio.Writer, c *mmapcache.Cache) error {
	switch {
	case f.digest:
		return inspect.WriteDigests(ctx, out, c, f.sel.Trace, f.model)
	case f.messages:
		return inspect.WriteMessages(ctx, out, c, f.sel)
	case f.stats:
		return inspect.WriteStats(out, c, f.asJSON)
	case f.turns():
		return c.WriteText(ctx, out, f.sel, f.turn != mmapcache.None)
	}
	return inspect.WriteTraces(out, c, f.asJSON)
}

// checkSelection returns an error if a cache lacks the trace or session of a selection. It suggests the most similar name.
func checkSelection(c *mmapcache.Cache, cache string, sel mmapcache.Selection) error {
	if sel.Trace == "" && sel.Session == "" {
		return nil
	}
	var traces, sessions []string
	err := c.EachShard(func(_ int, s *mmapcache.Structure) error {
		for i := range s.Traces.Len() {
			t := s.Traces.At(i)
			traces = append(traces, t.ID)
			if sel.Session == "" || sel.Trace != "" && sel.Trace != t.ID {
				continue
			}
			for k := range t.Sessions {
				sessions = append(sessions, s.Sessions.At(int(t.FirstSession+k)).ID)
			}
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case sel.Trace != "" && !slices.Contains(traces, sel.Trace):
		return unknownName("trace", sel.Trace, traces, "agentx inspect "+cache+" lists them")
	case sel.Session != "" && !slices.Contains(sessions, sel.Session):
		return unknownName("session", sel.Session, sessions, "agentx inspect "+cache+" --all | grep ^session")
	}
	return nil
}

// unknownName returns an error about a name that a cache lacks. It suggests the most similar name, or else how to look.
func unknownName(what, name string, names []string, look string) error {
	err := fmt.Errorf("no %s %q in this cache", what, name)
	if near := suggest.Closest(name, names); near != "" {
		return hintError{err, fmt.Sprintf("--%s %s", what, near)}
	}
	return hintError{err, look}
}
