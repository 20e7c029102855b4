package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/agentx/agentx/cachestore"
	"github.com/agentx/agentx/internal/bytefmt"
	"github.com/agentx/agentx/mmapcache"
)

func newCacheGC() *cobra.Command {
	var o cachestore.GCOptions
	var keep time.Duration
	maxBytes := int64(-1)
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "gc",
		Short: "Free what is of no use, and what was not used for longest",
		Long: `Free what is of no use, and what was not used for longest.

Without flags it removes what no process can use: what killed processes have left, damaged datasets,
parts that no dataset names. With --max-age also datasets that were not used for longer, with
--max-bytes the least recently used ones until the rest is small enough, each with the parts
that nothing else needs.

What is pinned or in use stays. So does, in a root that other machines may read (on a network
file system, or with a file .shared in it), what was used within 7 days, for a reader who may
not write there leaves no trace: --keep says otherwise.

It may run at any time, beside conversions and replays. While another process removes things
from the same root, on whatever machine, it waits for a minute and then says who that is.`,
		Example: "  agentx cache gc --max-bytes 20G --max-age 30d --dry-run\n  agentx cache gc --max-bytes 20G\n  agentx cache gc --max-bytes 0 --keep 0    # all that is neither pinned nor in use",
		Args:    checkArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			root, err := cacheRoot(cmd)
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("max-age") {
				o.MaxAge = max(o.MaxAge, 1) // 0: whatever its age
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
	flags.Var(size{&maxBytes}, "max-bytes", "free least recently used datasets until all take no more, such as 20G or 500Mi")
	ageVar(flags, &o.MaxAge, "max-age", "free datasets that were not used for longer, such as 30d or 12h")
	ageVar(flags, &keep, "keep", "never free what was used within this time (default: 7d in a root that other machines may read, else 0)")
	flags.BoolVar(&o.DryRun, "dry-run", false, "only say what would be done")
	flags.BoolVar(&asJSON, "json", false, "one JSON object")
	return cmd
}

// reportRemovalWait returns a function that says once, after two seconds, which process gc or rm waits for.
func reportRemovalWait(cmd *cobra.Command) func(holder string, waited time.Duration) {
	quiet, _ := cmd.Flags().GetBool("quiet")
	return func(holder string, waited time.Duration) {
		if waited > 2*time.Second && !quiet {
			quiet = true
			printError(cmd.ErrOrStderr(), fmt.Sprintf("agentx: waiting for %s, which is removing things there", holder))
		}
	}
}

// printGC prints a report: a line for each thing, then the sum.
func printGC(w io.Writer, r *cachestore.GCReport, maxBytes int64) {
	removed, swept, freed := "removed", "swept", "freed"
	if r.DryRun {
		removed, swept, freed = "would remove", "would sweep", "would free"
	}
	w = sanitizer{w}
	for _, l := range r.Swept {
		fmt.Fprintf(w, "%s  %s  %s, left by %s\n", swept, l.Path, bytefmt.Format(l.Bytes), l.Owner)
	}
	for _, m := range r.Removed {
		fmt.Fprintf(w, "%s  %-9s  %s  %9s  %s\n", removed, m.Kind, m.Key[:keyShown], bytefmt.Format(m.Bytes), m.Why)
	}
	for _, k := range r.Kept {
		fmt.Fprintf(w, "kept  %-9s  %s  %s\n", filepath.Base(filepath.Dir(k.Path)), filepath.Base(k.Path)[:keyShown], k.Why)
	}
	fmt.Fprintf(w, "%s %s, %s stay\n", freed, bytefmt.Format(r.Freed), bytefmt.Format(r.BytesAfter))
	if maxBytes >= 0 && r.BytesAfter > maxBytes {
		fmt.Fprintf(w, "that is more than --max-bytes %s, but nothing more may go\n", bytefmt.Format(maxBytes))
	}
}

func newCachePin() *cobra.Command {
	var cmd *cobra.Command
	cmd = newPinning(&cobra.Command{
		Use:   "pin CACHE...",
		Short: "Keep caches from being removed by gc and rm",
		Long: `Keep caches from being removed by gc and rm, until agentx cache unpin. The parts that a pinned
cache names stay with it. agentx cache info says who has pinned it.`,
		Example: "  agentx cache pin $(agentx convert demo | tail -n 1)\n  agentx cache gc --max-bytes 0             # leaves it",
	}, "pinned", func(root, key string) (bool, error) {
		return true, cachestore.Pin(cmd.Context(), root, key, userName())
	})
	return cmd
}

func newCacheUnpin() *cobra.Command {
	return newPinning(&cobra.Command{
		Use:     "unpin CACHE...",
		Short:   "Let gc and rm remove pinned caches again, also those that other users pinned",
		Example: "  agentx cache pin $(agentx convert demo | tail -n 1)\n  agentx cache unpin $(agentx convert demo | tail -n 1)",
	}, "unpinned", cachestore.Unpin)
}

// newPinning completes the verb that does something to each cache, and prints the keys under a word for that.
func newPinning(cmd *cobra.Command, word string, do func(root, key string) (bool, error)) *cobra.Command {
	var asJSON bool
	cmd.Args = checkArgs(cobra.MinimumNArgs(1))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		caches, err := findCaches(cmd, args)
		if err != nil {
			return err
		}
		keys := []string{}
		for _, c := range caches {
			done, err := do(c.root, c.key)
			if err != nil {
				return err
			}
			if done {
				keys = append(keys, c.key)
			}
			if !asJSON {
				fmt.Fprintf(cmd.OutOrStdout(), "%s %s\n", map[bool]string{true: word, false: "was not pinned"}[done], c.key)
			}
		}
		if asJSON {
			return printJSON(cmd.OutOrStdout(), map[string]any{word: keys})
		}
		return nil
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object")
	return cmd
}

// userName names who runs the command.
func userName() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return fmt.Sprintf("user %d", os.Getuid())
}

func newCacheRemove() *cobra.Command {
	var asJSON, force bool
	cmd := &cobra.Command{
		Use:   "rm CACHE...",
		Short: "Remove caches, and those of their parts that nothing else needs",
		Long: `Remove caches, and those of their parts that no other cache names and no process uses.

A cache that a replay or conversion is using is refused, with who that is; --force removes it all
the same, and leaves its parts to agentx cache gc, later. AGENTX_FORCE in the environment means
--force here too. A pinned cache is refused until it is unpinned.`,
		Example: "  agentx cache rm $(agentx convert demo | tail -n 1)",
		Args:    checkArgs(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			caches, err := findCaches(cmd, args)
			if err != nil {
				return err
			}
			freed := int64(0)
			keys, kept := []string{}, []cachestore.KeptDirectory{}
			for _, c := range caches {
				r, err := cachestore.Remove(cmd.Context(), c.root, c.key, cachestore.RemoveOptions{Force: force, OnWait: reportRemovalWait(cmd)})
				freed += r.Freed
				kept = append(kept, r.Kept...)
				if err != nil {
					return hintRemove(err, c.key)
				}
				keys = append(keys, c.key)
			}
			w := cmd.OutOrStdout()
			if asJSON {
				return printJSON(w, map[string]any{"removed": keys, "bytes": freed, "kept": kept})
			}
			for _, k := range kept {
				fmt.Fprintf(sanitizer{w}, "kept %s: %s\n", k.Path, k.Why)
			}
			fmt.Fprintf(w, "removed %d, %s freed\n", len(keys), bytefmt.Format(freed))
			return nil
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "although it is in use")
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object")
	return cmd
}

// hintRemove adds what to try to an error of rm.
func hintRemove(err error, key string) error {
	switch {
	case errors.Is(err, cachestore.ErrPinned):
		return hintError{err, "agentx cache unpin " + key}
	case errors.Is(err, cachestore.ErrInUse):
		return hintError{err, "again when that has ended, or --force"}
	}
	return err
}

// cacheName is a directory of a cache, and where it lies.
type cacheName struct{ root, kind, key string }

// findCaches resolves all CACHE arguments of a command, before anything is done to the first. One that is given twice
// counts once.
func findCaches(cmd *cobra.Command, names []string) ([]cacheName, error) {
	return findEach(names, func(name string) (c cacheName, err error) {
		c.kind = mmapcache.DatasetKind
		c.root, c.key, err = findCache(cmd, name)
		return c, err
	})
}

// findDirectories is findCaches for datasets and parts.
func findDirectories(cmd *cobra.Command, names []string) ([]cacheName, error) {
	root, rootErr := cacheRoot(cmd)
	return findEach(names, func(name string) (c cacheName, err error) {
		if c.root, c.kind, c.key, err = cachestore.FindAny(root, name); err != nil && rootErr != nil {
			err = rootErr
		}
		return c, err
	})
}

func findEach(names []string, find func(name string) (cacheName, error)) (list []cacheName, err error) {
	for _, name := range names {
		c, err := find(name)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(list, c) {
			list = append(list, c)
		}
	}
	return list, nil
}

// heldText says in a word or two what keeps a directory.
func heldText(pinned bool, inUse string) string {
	var held []string
	if pinned {
		held = append(held, "pinned")
	}
	if inUse != "" {
		held = append(held, "in use")
	}
	if len(held) == 0 {
		return "-"
	}
	return strings.Join(held, ", ")
}
