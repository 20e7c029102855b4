package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/agentx/agentx/cachestore"
	"github.com/agentx/agentx/internal/bytefmt"
)

func newCacheGC() *cobra.Command {
	var o cachestore.GCOptions
	var keep time.Duration
	maxBytes := int64(-1)
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "gc",
		Short: "Free space: garbage, then what was not used for long",
		Long: `Free space in the cache root.

Without flags it removes garbage alone: what killed processes have left, damaged datasets, parts that
no dataset names. --max-age also removes datasets that were not used for longer. --max-bytes also
removes the least recently used datasets until the rest is small enough. The parts of a removed
dataset go with it, unless another dataset names them.

It never removes what is pinned or in use. In a root that other machines may read (on a network file
system, or marked by cache warm with a file .shared) it also keeps what was used within 7 days: a
reader that may not write there can leave no note of its use. --keep sets that time.

It may run at any time, beside conversions and replays on any machine. If another process is removing
from the same root it waits for a minute, then fails and names that process.`,
		Example: "  agentx cache gc --max-bytes 20G --max-age 30d --dry-run\n  agentx cache gc --max-bytes 20G\n  agentx cache gc --max-bytes 0 --keep 0    # everything that is neither pinned nor in use",
		Args:    checkArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			root, err := cacheRoot(cmd)
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("max-age") {
				o.MaxAge = max(o.MaxAge, 1) // 0 means any age
			}
			if cmd.Flags().Changed("keep") {
				o.Keep = &keep
			}
			if maxBytes >= 0 {
				o.MaxBytes = &maxBytes
			}
			o.OnWait = reportRemovalWait(cmd)
			r, err := cachestore.GC(cmd.Context(), root, o)
			if r == nil {
				return err
			}
			if asJSON {
				err = errors.Join(printJSON(cmd.OutOrStdout(), r), err)
			} else {
				printGC(cmd.OutOrStdout(), r, maxBytes)
			}
			return err
		},
	}
	flags := cmd.Flags()
	flags.Var(size{&maxBytes}, "max-bytes", "remove the least recently used datasets until all take no more, such as 20G or 500Mi")
	ageVar(flags, &o.MaxAge, "max-age", "remove datasets that were not used for longer, such as 30d or 12h")
	ageVar(flags, &keep, "keep", "keep what was used within this time (default: 7d in a root that other machines may read, else 0)")
	flags.BoolVar(&o.DryRun, "dry-run", false, "print what would be removed, and remove nothing")
	flags.BoolVar(&asJSON, "json", false, "one JSON object")
	return cmd
}

// reportRemovalWait returns a function that says once, after two seconds, which process gc or rm waits for.
func reportRemovalWait(cmd *cobra.Command) func(holder string, waited time.Duration) {
	quiet, _ := cmd.Flags().GetBool("quiet")
	return func(holder string, waited time.Duration) {
		if waited > 2*time.Second && !quiet {
			quiet = true
			printError(cmd.ErrOrStderr(), fmt.Sprintf("agentx: waiting for %s, which is removing from the same root", holder))
		}
	}
}

// printGC prints a report: a line for each thing, but one for all parts of a kind where there are many, then the sum.
func printGC(w io.Writer, r *cachestore.GCReport, maxBytes int64) {
	removed, swept, freed := "removed", "swept", "freed"
	if r.DryRun {
		removed, swept, freed = "would remove", "would sweep", "would free"
	}
	w = sanitizer{w}
	for _, l := range r.Swept {
		fmt.Fprintf(w, "%s  %s  %s, left by %s\n", swept, l.Path, bytefmt.Format(l.Bytes), l.Owner)
	}
	for _, g := range groupsOf(r.Removed, func(m cachestore.RemovedDirectory) [2]string { return [2]string{m.Kind, m.Why} }) {
		bytes := int64(0)
		for _, m := range g {
			bytes += m.Bytes
		}
		fmt.Fprintf(w, "%s  %-9s  %-*s  %9s  %s\n", removed, g[0].Kind, keyShown, keysText(len(g), g[0].Key), bytefmt.Format(bytes), g[0].Why)
	}
	for _, g := range groupsOf(r.Kept, kindAndReason) {
		fmt.Fprintf(w, "kept  %-9s  %-*s  %s\n", filepath.Base(filepath.Dir(g[0].Path)), keyShown, keysText(len(g), filepath.Base(g[0].Path)), g[0].Why)
	}
	fmt.Fprintf(w, "%s %s, %s stay\n", freed, bytefmt.Format(r.Freed), bytefmt.Format(r.BytesAfter))
	if maxBytes >= 0 && r.BytesAfter > maxBytes {
		fmt.Fprintf(w, "that is more than --max-bytes %s, but nothing else can be removed\n", bytefmt.Format(maxBytes))
	}
}

// groupedAbove is how many directories that differ in their key alone get a line each.
const groupedAbove = 10

// groupsOf divides a list into groups of one, in its order. Those of one kind and reason, where they are many, are one group, in the
// place of the first.
func groupsOf[T any](list []T, kind func(T) [2]string) (groups [][]T) {
	alike := map[[2]string][]T{}
	for _, x := range list {
		alike[kind(x)] = append(alike[kind(x)], x)
	}
	for k, x := range list {
		switch all := alike[kind(x)]; {
		case len(all) > groupedAbove:
			groups = append(groups, all)
			alike[kind(x)] = nil
		case len(all) > 0:
			groups = append(groups, list[k:k+1])
		}
	}
	return groups
}

func kindAndReason(k cachestore.KeptDirectory) [2]string {
	return [2]string{filepath.Dir(k.Path), k.Why}
}

// keysText names one directory by the beginning of its key, or says how many there are.
func keysText(n int, key string) string {
	if n == 1 {
		return key[:keyShown]
	}
	return groupDigits(n) + " of them"
}
