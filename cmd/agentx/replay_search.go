package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agentx/agentx/cmd/internal/search"
	"github.com/agentx/agentx/replay"
	"github.com/agentx/agentx/replay/capacity"
	"github.com/agentx/agentx/replay/measure"
)

// runSearch plays a search: its probes, the page over them, and the answer in one line.
func runSearch(cmd *cobra.Command, o replay.Options, f *autoFlags, export *exportFlags, asJSON bool) error {
	s := &search.Search{Search: f.auto.Search, Drain: f.drain, Tell: func(p capacity.Probe) {
		if quiet, _ := cmd.Flags().GetBool("quiet"); !quiet {
			printError(cmd.ErrOrStderr(), "agentx: "+p.String())
		}
	}}
	list, err := playList(cmd, o, s.List(cmd.Context()), export)
	if list != nil {
		err = errors.Join(err, printSearch(cmd, list, o, asJSON))
	}
	return judgeSearch(cmd.Context(), s.Failed, list, err)
}

// printSearch makes the page over the probes, and prints their table and the answer.
func printSearch(cmd *cobra.Command, list *measure.List, o replay.Options, asJSON bool) error {
	lead, notes := []string{list.Capacity.String()}, map[string]string{}
	if !o.CacheReset.Enabled && len(list.Capacity.Probes) > 1 {
		lead = append(lead, warmCache)
	}
	for _, p := range list.Capacity.Probes {
		notes[p.Dir] = p.String()
	}
	if err := errors.Join(printList(cmd, list, asJSON), pageOfList(cmd, list, asJSON, notes, lead...)); err != nil || asJSON {
		return err
	}
	slices.Reverse(lead) // the answer comes last
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "\n%s\n", strings.Join(lead, "\n"))
	return err
}

// warmCache says what the probes of a search share.
const warmCache = "Later probes found a warm KV cache: --reset-cache empties it before each"

// judgeSearch returns the error of a search that came to its end: nil where it has found a capacity.
func judgeSearch(ctx context.Context, failed bool, list *measure.List, err error) error {
	switch {
	case err != nil:
		return hintReplay(err)
	case ctx.Err() != nil:
		return ctx.Err()
	case failed:
		return errors.New("replay: --concurrency auto: a probe gave no results, so the search has no answer")
	}
	switch list.Capacity.Outcome {
	case capacity.None:
		return verdictError{errors.New("replay: --concurrency auto: even the smallest concurrency violates a service level")}
	case capacity.Unknown:
		return verdictError{errors.New("replay: --concurrency auto: client-bound: this machine could not drive the servers, so their capacity is not known")}
	}
	return nil
}
