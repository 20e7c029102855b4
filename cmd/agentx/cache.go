package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/agentx/agentx/cachestore"
	"github.com/agentx/agentx/internal/bytefmt"
)

func newCache() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cache",
		Short: "List, describe, verify, keep, copy and remove prepared caches",
		Long: `List, describe, verify, keep, copy and remove prepared caches.

A cache is a dataset and the parts that it names: structure (the traces), starts (where in the prompt
corpus each block begins) and arenas (the prompt corpus). A dataset of many traces names a number of
shards, a structure and its starts each. Datasets share parts. CACHE is the path that convert printed,
or 8 characters or more of its key in the cache root, which is --cache DIR, AGENTX_CACHE, or agentx in
the user cache directory.`,
		Example: "  agentx cache ls\n  agentx cache verify $(agentx convert demo | tail -n 1)\n  agentx cache gc --max-bytes 20G",
		Args:    refuseArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newCacheList(), newCacheInfo(), newCachePath(), newCacheExplain(), newCacheVerify(), newCacheWarm(), newCachePull(), newCacheGC(), newCachePin(), newCacheUnpin(), newCacheRemove())
	return cmd
}

func newCacheList() *cobra.Command {
	var asJSON, parts bool
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List what the cache root holds",
		Long: `List the datasets of the cache root: size with parts, creation, last use (to the hour), what holds
them (a pin, or a process that uses them), and the first input. A part that two datasets share
counts in the size of both, and once in the last line. A dataset of many traces has a number of
shards: a structure and its starts each.

--parts lists the parts too, those of shards among them, each with the size of its own files.`,
		Example: "  agentx convert demo\n  agentx cache ls",
		Args:    checkArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			root, err := cacheRoot(cmd)
			if err != nil {
				return err
			}
			all, err := cachestore.Survey(root)
			if err != nil {
				return err
			}
			shown := all.Datasets
			if parts {
				if shown, err = cachestore.List(root); err != nil {
					return err
				}
			}
			w := cmd.OutOrStdout()
			if asJSON {
				return printJSON(w, map[string]any{"entries": shown})
			}
			if len(all.Datasets)+all.Parts.Count > 0 {
				return printEntries(w, shown, all, parts)
			}
			fmt.Fprintf(w, "%s holds nothing yet: agentx convert demo makes a first cache\n", root)
			return nil
		},
	}
	cmd.Flags().BoolVar(&parts, "parts", false, "list the parts of datasets too")
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object")
	return cmd
}

// keyShown is how much of a key is shown, in characters: more than enough to name the cache.
const keyShown = 12

// printEntries prints a table of directories, and the size of all. With parts every size is that of a directory alone. There is a
// column of shards where a dataset has some.
func printEntries(w io.Writer, entries []cachestore.Entry, all *cachestore.Overview, parts bool) error {
	t := tabwriter.NewWriter(sanitizer{w}, 0, 0, 2, ' ', 0)
	sharded := slices.ContainsFunc(entries, func(e cachestore.Entry) bool { return e.Shards > 0 })
	column := func(text string) string {
		if !sharded {
			return ""
		}
		return text + "\t"
	}
	fmt.Fprintf(t, "KIND\tKEY\tSIZE\t%sCREATED\tLAST USE\tHELD\tSOURCE\n", column("SHARDS"))
	for _, e := range entries {
		source := e.Source
		if e.Unreadable != "" {
			source = "cannot be read: " + e.Unreadable
		}
		if e.Damaged != "" {
			source = "damaged: " + e.Damaged
		}
		size := e.TotalBytes
		if parts {
			size = e.Bytes
		}
		shards := "-"
		if e.Shards > 0 {
			shards = groupDigits(e.Shards)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s%s\t%s\t%s\t%s\n", e.Kind, e.Key[:keyShown], bytefmt.Format(size), column(shards), dateText(e.Created), dateText(e.LastUse), heldText(e.Pinned, e.InUse), sanitize(cmp.Or(source, "-")))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	total := all.Parts.Bytes
	for _, e := range all.Datasets {
		total += e.Bytes
	}
	_, err := fmt.Fprintf(w, "%s, %s, %s\n", countText(len(all.Datasets), "dataset"), countText(all.Parts.Count, "part"), bytefmt.Format(total))
	if n := all.Unnamed; n.Count > 0 && err == nil {
		_, err = fmt.Fprintf(w, "no dataset names %s of the parts, %s: they are being built, or agentx cache gc frees them\n", groupDigits(n.Count), bytefmt.Format(n.Bytes))
	}
	return err
}

// heldText says in a word or two what keeps gc from a directory.
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
