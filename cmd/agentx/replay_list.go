package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agentx/agentx/internal/settings"
	"github.com/agentx/agentx/replay"
	"github.com/agentx/agentx/replay/measure"
)

// list returns the runs of several concurrencies, or of several times the same; several is false if there is one run alone.
func (f *replayFlags) list(o *replay.Options) (l replay.List, several bool) {
	l = replay.List{Concurrencies: f.auto.counts, StopOnFailure: f.stopOnFailure}
	if len(l.Concurrencies) == 1 {
		l.Concurrencies = []int{o.Concurrency} // 0 where trees arrive without a cap
	}
	if f.repeat > 1 {
		l.Repeat = f.repeat
	}
	if f.auto.auto != nil {
		l.Next = func([]measure.ListedRun) int { return 0 } // runSearch has the probes
		return l, true
	}
	return l, l.Repeat > 0 || len(l.Concurrencies) > 1
}

// runList plays the runs of a list and prints a table of them.
func runList(cmd *cobra.Command, o replay.Options, l replay.List, export *exportFlags, asJSON bool) error {
	list, err := playList(cmd, o, l, export)
	if list != nil {
		err = errors.Join(err, printList(cmd, list, asJSON), pageOfList(cmd, list, asJSON, nil, unplayed(list, l)...))
	}
	switch {
	case err != nil:
		return hintReplay(err)
	case cmd.Context().Err() != nil:
		return cmd.Context().Err()
	}
	return judgeList(list, l)
}

// playList plays the runs of a list, and makes the files of --report of each. A run that fails says so at once.
func playList(cmd *cobra.Command, o replay.Options, l replay.List, export *exportFlags) (*measure.List, error) {
	var p *progress
	begin, end := l.Begin, l.End
	l.Begin = func(o *replay.Options, r measure.ListedRun) {
		p = newProgress(cmd)
		if !p.quiet {
			p.println("agentx: " + runName(r))
		}
		_ = watch(cmd, o, p) // the run finds the same
		nameConcurrency(o)
		if begin != nil {
			begin(o, r)
		}
	}
	l.End = func(r measure.ListedRun, s *measure.Summary, err error) int {
		p.close()
		err = judge(cmd, s, err)
		r.Exit = endListed(cmd.Context(), cmd.ErrOrStderr(), r, export.afterReplay(cmd, s, err))
		if end != nil {
			return end(r, s, err)
		}
		return r.Exit
	}
	return replay.RunList(cmd.Context(), o, l)
}

// runName names a run of a list.
func runName(r measure.ListedRun) string { return "concurrency " + r.Name() }

// nameConcurrency makes the options in the results of a run those of the run.
func nameConcurrency(o *replay.Options) {
	o.Provenance.Options = slices.Clone(o.Provenance.Options)
	for k, option := range o.Provenance.Options {
		if option.Name == "concurrency" {
			o.Provenance.Options[k].Value = settings.JSON(o.Concurrency)
		}
	}
}

// endListed tells why a run of a list failed, and returns its exit status.
func endListed(ctx context.Context, stderr io.Writer, r measure.ListedRun, err error) int {
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("%s: %w", runName(r), err)
	} else if err != nil && errors.Is(err, context.Canceled) {
		return exitInterrupted // which the end of the list tells
	}
	return reportError(ctx, stderr, err)
}

func printList(cmd *cobra.Command, list *measure.List, asJSON bool) error {
	if asJSON {
		return printJSON(cmd.OutOrStdout(), list)
	}
	return list.WriteTable(cmd.OutOrStdout(), terminalWidth(cmd.OutOrStdout()))
}

// pageOfList makes the comparison of the runs of a list, also of one that was interrupted, with the notes and the lines in front that
// comparePage takes, and prints the means of runs that repeat one.
func pageOfList(cmd *cobra.Command, list *measure.List, asJSON bool, notes map[string]string, lead ...string) error {
	c, names, err := comparePage(context.WithoutCancel(cmd.Context()), list, notes, lead...)
	if err != nil {
		return fmt.Errorf("the comparison of the runs: %w", err)
	}
	if quiet, _ := cmd.Flags().GetBool("quiet"); len(names) > 0 && !quiet {
		fmt.Fprintf(cmd.ErrOrStderr(), "agentx: wrote %s to %s\n", strings.Join(names, ", "), list.Out)
	}
	if c == nil || asJSON {
		return nil
	}
	return c.WriteRepeats(cmd.OutOrStdout())
}

// unplayed says in a line which runs of a list have not begun, if there are any.
func unplayed(list *measure.List, asked replay.List) []string {
	var rest []string
	for _, r := range asked.Runs()[len(list.Runs):] {
		rest = append(rest, r.Name())
	}
	if rest == nil {
		return nil
	}
	return []string{"not played: " + strings.Join(rest, ",")}
}

// worst are the exit statuses of a run from the worst on.
var worst = []int{exitInterrupted, exitUsage, exitFailed, exitVerdict}

// judgeList returns the error of a list that came to its end: that of the worst run.
func judgeList(list *measure.List, asked replay.List) error {
	var failed []string
	at := len(worst)
	for _, r := range list.Runs {
		if r.Exit != 0 {
			failed = append(failed, fmt.Sprintf("%s (exit status %d)", r.Name(), r.Exit))
			at = min(at, slices.Index(worst, r.Exit))
		}
	}
	if len(failed) == 0 {
		return nil
	}
	err := fmt.Errorf("replay: %d of %d runs failed or are not valid: concurrency %s", len(failed), len(list.Runs), strings.Join(failed, ", "))
	for _, text := range unplayed(list, asked) {
		err = fmt.Errorf("%w; %s", err, text)
	}
	switch worst[at] {
	case exitUsage:
		return usageError{err}
	case exitVerdict:
		return verdictError{err}
	}
	return err
}
